#include "compiler/driver/bundle_files.h"

#include <array>
#include <nlohmann/json.hpp>
#include <system_error>

#include "compiler/emit/names.h"
#include "compiler/support/file.h"

namespace llmc::driver {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kPlanSuffix = ".plan.json";
constexpr std::uint64_t kMaxPlanBytes = std::uint64_t{64} << 20;

}  // namespace

std::optional<std::string> bundle_name(const fs::path& folder) {
  std::error_code error;
  std::optional<std::string> name;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string file = it->path().filename().string();
    if (!file.ends_with(kPlanSuffix)) continue;
    if (name) return std::nullopt;
    name = file.substr(0, file.size() - kPlanSuffix.size());
  }
  if (error || !name || !emit::check_name(*name).ok()) return std::nullopt;
  const bool whole = fs::is_regular_file(folder / (*name + ".h"), error) &&
                     fs::is_regular_file(folder / ("lib" + *name + ".a"), error);
  return whole ? name : std::nullopt;
}

bool is_only_a_bundle(const fs::path& folder) {
  const auto name = bundle_name(folder);
  if (!name) return false;
  const std::array<std::string, 10> known{*name + ".h",
                                          "lib" + *name + ".a",
                                          *name + ".plan.json",
                                          *name + ".cmake",
                                          *name + ".pc",
                                          *name + ".weights.bin",
                                          *name + ".tokenizer.txt",
                                          *name + ".tokenizer.model",
                                          "llmc",
                                          "src"};
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (std::ranges::find(known, it->path().filename().string()) == known.end()) return false;
  }
  return !error;
}

Result<BundleFacts> read_bundle(const fs::path& folder) {
  const auto bad = [&](std::string message) {
    return Diagnostic{.kind = ErrorKind::kBadInput,
                      .file = folder.string(),
                      .node = {},
                      .op = {},
                      .message = std::move(message),
                      .hint = "compile the model again"};
  };
  const auto name = bundle_name(folder);
  if (!name) return bad("not a bundle that llmc compiled");
  LLMC_TRY(const std::string text, read_file(folder / (*name + ".plan.json"), kMaxPlanBytes));
  const auto json = nlohmann::json::parse(text, nullptr, false);
  BundleFacts facts;
  facts.name = *name;
  try {
    facts.target = json.at("target").get<std::string>();
    facts.embed_weights = json.at("options").at("weights").get<std::string>() == "embed";
    facts.weights_bytes = json.at("bytes").at("weights").get<std::uint64_t>();
    facts.weights_per_token_bytes = json.at("bytes").at("weights_per_token").get<std::uint64_t>();
    facts.prompt_template = json.value("prompt_template", "");
    if (json.contains("tokenizer")) {
      facts.tokenizer_file = json.at("tokenizer").at("file").get<std::string>();
      facts.tokenizer_kind = json.at("tokenizer").at("kind").get<std::string>();
    }
  } catch (const nlohmann::json::exception&) {
    return bad("its plan.json is damaged");
  }
  // A name from a file must not lead out of the folder.
  if (facts.tokenizer_file.find('/') != std::string::npos) return bad("its plan.json is damaged");
  return facts;
}

}  // namespace llmc::driver
