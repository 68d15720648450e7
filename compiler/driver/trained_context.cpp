#include "compiler/driver/trained_context.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compiler/driver/model_config.h"
#include "compiler/support/model_folders.h"

namespace llmc::driver {
namespace {

namespace fs = std::filesystem;
using ConfigJson = nlohmann::json;

/// Keys in order of precedence; the later ones are older names of the same value.
constexpr const char* kContextKeys[] = {"max_position_embeddings",
                                        "n_positions",
                                        "max_sequence_length",
                                        "max_seq_len",
                                        "seq_length",
                                        "n_ctx"};

/// Returns the value of `key` in tokens; 0 if it is absent, null or -1, which means no limit.
Result<std::uint32_t> tokens_at(const ConfigJson& object, const char* key, const fs::path& file) {
  const nlohmann::json* const found = value_of(object, key);
  if (found == nullptr) return 0u;
  const double value = found->is_number() ? found->get<double>() : std::nan("");
  if (!(value == std::floor(value)) || (value < 1 && value != -1))
    return bad_model_config(file, "'" + std::string(key) + "' is not a whole number from 1, or -1");
  return static_cast<std::uint32_t>(std::clamp<double>(value, 0, UINT32_MAX));
}

Result<std::uint32_t> tokens_of_object(const ConfigJson& object, const fs::path& file) {
  for (const char* const key : kContextKeys) {
    LLMC_TRY(const std::uint32_t tokens, tokens_at(object, key, file));
    if (tokens > 0) return tokens;
  }
  return 0u;
}

}  // namespace

Result<std::uint32_t> trained_context(const fs::path& model) {
  const std::vector<fs::path> folders = model_folders(model);
  std::vector<std::uint32_t> stated;
  for (const char* const name : {"llm_config.json", "config.json"}) {
    LLMC_TRY(const ModelConfig config, read_model_config(folders, name));
    LLMC_TRY(std::uint32_t tokens, tokens_of_object(config.object, config.file));
    const auto text = config.object.find("text_config");
    if (tokens == 0 && text != config.object.end() && text->is_object()) {
      LLMC_TRY(tokens, tokens_of_object(*text, config.file));
    }
    stated.push_back(tokens);
  }
  LLMC_TRY(const ModelConfig genai, read_model_config(folders, "genai_config.json"));
  const auto about = genai.object.find("model");
  if (about != genai.object.end() && about->is_object()) {
    LLMC_TRY(const std::uint32_t tokens, tokens_at(*about, "context_length", genai.file));
    stated.push_back(tokens);
  }
  std::erase(stated, 0u);
  return stated.empty() ? 0u : std::ranges::min(stated);
}

}  // namespace llmc::driver
