#include "compiler/driver/model_config.h"

#include <cstdint>

#include "compiler/support/file.h"
#include "compiler/support/model_folders.h"

namespace llmc::driver {

Result<ModelConfig> read_model_config(const std::vector<std::filesystem::path>& folders,
                                      const char* name) {
  constexpr std::uint64_t kMaxConfigBytes = std::uint64_t{64} << 20;
  ModelConfig config;
  const auto file = find_in_folders(folders, name);
  if (!file) return config;
  config.file = *file;
  LLMC_TRY(const std::string text, read_file(config.file, kMaxConfigBytes));
  config.object = nlohmann::json::parse(text, nullptr, false);
  if (config.object.is_object()) return config;
  return bad_model_config(
      config.file, config.object.is_discarded() ? "is not valid JSON" : "is not a JSON object");
}

const nlohmann::json* value_of(const nlohmann::json& object, const char* name) {
  const auto it = object.find(name);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

Diagnostic bad_model_config(const std::filesystem::path& file, std::string what) {
  return file_failure(ErrorKind::kBadInput, file.string(), std::move(what),
                      "repair the file, or remove it to do without it");
}

}  // namespace llmc::driver
