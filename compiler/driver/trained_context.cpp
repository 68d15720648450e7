#include "compiler/driver/trained_context.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compiler/support/file.h"

namespace llmc::driver {
namespace {

namespace fs = std::filesystem;
using ConfigJson = nlohmann::json;

constexpr std::uint64_t kMaxModelConfigBytes = std::uint64_t{64} << 20;

/// The first of these keys that an object has counts: later ones are older names of the same.
constexpr const char* kContextKeys[] = {"max_position_embeddings",
                                        "n_positions",
                                        "max_sequence_length",
                                        "max_seq_len",
                                        "seq_length",
                                        "n_ctx"};

Diagnostic bad_config(const fs::path& file, std::string message) {
  return Diagnostic{.kind = ErrorKind::kBadInput,
                    .file = file.string(),
                    .message = std::move(message),
                    .hint = "repair the file, or remove it to do without it"};
}

/// Returns the value of `key` in tokens; 0 if it is absent, null or below 1.
Result<std::uint32_t> tokens_at(const ConfigJson& object, const char* key, const fs::path& file) {
  const auto it = object.find(key);
  if (it == object.end() || it->is_null()) return 0u;
  const double value = it->is_number() ? it->get<double>() : std::nan("");
  if (!(value == std::floor(value)))
    return bad_config(file, "'" + std::string(key) + "' is not a whole number");
  return static_cast<std::uint32_t>(std::clamp<double>(value, 0, UINT32_MAX));
}

Result<std::uint32_t> tokens_of_object(const ConfigJson& object, const fs::path& file) {
  for (const char* const key : kContextKeys) {
    LLMC_TRY(const std::uint32_t tokens, tokens_at(object, key, file));
    if (tokens > 0) return tokens;
  }
  return 0u;
}

/// Returns the object in `file`, or an empty one if there is no such file.
Result<ConfigJson> read_object(const fs::path& file) {
  std::error_code unknown;
  if (!fs::exists(file, unknown)) return ConfigJson::object();
  LLMC_TRY(const std::string text, read_file(file, kMaxModelConfigBytes));
  ConfigJson json = ConfigJson::parse(text, nullptr, false);
  if (json.is_object()) return json;
  return bad_config(file, json.is_discarded() ? "is not valid JSON" : "is not a JSON object");
}

Result<std::uint32_t> context_stated_in(const fs::path& folder) {
  std::vector<std::uint32_t> stated;
  for (const char* const name : {"llm_config.json", "config.json"}) {
    LLMC_TRY(const ConfigJson json, read_object(folder / name));
    LLMC_TRY(std::uint32_t tokens, tokens_of_object(json, folder / name));
    const auto text = json.find("text_config");
    if (tokens == 0 && text != json.end() && text->is_object()) {
      LLMC_TRY(tokens, tokens_of_object(*text, folder / name));
    }
    stated.push_back(tokens);
  }
  LLMC_TRY(const ConfigJson genai, read_object(folder / "genai_config.json"));
  if (const auto model = genai.find("model"); model != genai.end() && model->is_object()) {
    LLMC_TRY(const std::uint32_t tokens,
             tokens_at(*model, "context_length", folder / "genai_config.json"));
    stated.push_back(tokens);
  }
  std::erase(stated, 0u);
  return stated.empty() ? 0u : std::ranges::min(stated);
}

}  // namespace

Result<std::uint32_t> trained_context(const fs::path& model) {
  std::error_code unknown;
  fs::path folder = fs::is_directory(model, unknown) ? model : model.parent_path();
  if (folder.empty()) folder = ".";
  LLMC_TRY(const std::uint32_t tokens, context_stated_in(folder));
  // Exporters put graphs into a folder onnx/ below the configuration's.
  if (tokens > 0 || fs::weakly_canonical(folder, unknown).filename() != "onnx") return tokens;
  return context_stated_in(folder / "..");
}

}  // namespace llmc::driver
