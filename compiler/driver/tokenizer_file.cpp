#include "compiler/driver/tokenizer_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <system_error>

#include "compiler/support/model_folders.h"

namespace llmc::driver {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kNames[] = {"tokenizer.txt", "tokenizer.json", "tokenizer.model"};

bool is_tokenizer_file(const fs::path& path) {
  const std::string name = path.filename().string();
  std::error_code error;
  return (std::ranges::count(kNames, name) != 0 || path.extension() == ".tiktoken" ||
          name.ends_with(".tokenizer.bin")) &&
         fs::is_regular_file(path, error);
}

}  // namespace

fs::path find_tokenizer(const fs::path& model) {
  if (is_tokenizer_file(model)) return model;
  std::error_code error;
  for (const fs::path& folder : model_folders(model)) {
    for (const std::string_view name : kNames)
      if (fs::exists(folder / name, error)) return folder / name;
    std::set<fs::path> lists;  // sorted, for a deterministic choice
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
      if (it->path().extension() == ".tiktoken") lists.insert(it->path());
    if (!lists.empty()) return *lists.begin();
  }
  return {};
}

std::unique_ptr<hosted::Tokenizer> read_tokenizer(const fs::path& path_of_model,
                                                  const importer::ImportedModel& model,
                                                  plan::PlanOptions& planned) {
  const auto& known = model.tokenizer;
  const fs::path path = known ? known->path : find_tokenizer(path_of_model);
  if (path.empty()) return nullptr;
  std::unique_ptr<hosted::Tokenizer> tokenizer;
  std::vector<std::int64_t> prefix, stop;
  auto loaded = hosted::Tokenizer::load(path);
  if (loaded.ok()) {
    tokenizer = std::move(*loaded);
    planned.tokenizer_file = planned.name + ".tokenizer.bin";
    planned.tokenizer_kind =
        known ? std::string(importer::to_string(known->kind)) : path.filename().string();
    const hosted::SpecialIds& ids = tokenizer->special_ids();
    prefix.assign(ids.prefix.begin(), ids.prefix.end());
    stop.assign(ids.stop.begin(), ids.stop.end());
  } else {
    planned.tokenizer_refused = loaded.failure().message;
    if (const std::string folder = path.parent_path().string() + "/";
        planned.tokenizer_refused.starts_with(
            // remove the folder, because bundles must not depend on the location of the model
            folder))
      planned.tokenizer_refused.erase(0, folder.size());
    if (known) {
      prefix = known->prefix_ids;
      stop = known->stop_ids;
    }
  }
  const std::int64_t vocabulary = model.module.vocabulary();
  const auto in_model = [&](std::int64_t id) { return id >= 0 && id < vocabulary; };
  if (!prefix.empty() && in_model(prefix.front())) planned.bos_id = prefix.front();
  std::ranges::copy_if(stop, std::back_inserter(planned.stop_ids), in_model);
  return tokenizer;
}

std::optional<Diagnostic> tokenizer_too_large(const hosted::Tokenizer& tokenizer,
                                              const fs::path& file, std::int64_t vocabulary) {
  const auto size = static_cast<std::int64_t>(tokenizer.size());
  std::int64_t texts = 0;  // number of tokens after the vocabulary that text can produce
  for (std::int64_t id = std::max<std::int64_t>(vocabulary, 0); id < size; ++id)
    texts += tokenizer.bytes_of(static_cast<std::int32_t>(id)).empty() ? 0 : 1;
  if (texts == 0) return std::nullopt;
  return file_failure(
      ErrorKind::kBadInput, file.string(),
      fmt::format("the tokenizer has {} tokens, the model {}: {} tokens that text can produce are "
                  "outside the vocabulary",
                  size, vocabulary, texts),
      "it may belong to another model: put the model's own tokenizer there");
}

}  // namespace llmc::driver
