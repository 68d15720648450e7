#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compiler/support/result.h"

/// Reads configuration files of a model, such as config.json.
namespace llmc::driver {

struct ModelConfig {
  std::filesystem::path file;                        // empty if the file does not exist
  nlohmann::json object = nlohmann::json::object();  // empty if the file does not exist
};

/// Reads `name` in the first of `folders` that contains it. Fails with kBadInput if it is not a
/// JSON object or is larger than 64 MiB. The limit is this large because tokenizer_config.json
/// lists added tokens, which are several megabytes for large vocabularies.
Result<ModelConfig> read_model_config(const std::vector<std::filesystem::path>& folders,
                                      const char* name);

/// Returns the value of `name`; nullptr if it is absent or null.
const nlohmann::json* value_of(const nlohmann::json& object, const char* name);

/// Returns the kBadInput error for a configuration file whose `what` is wrong.
Diagnostic bad_model_config(const std::filesystem::path& file, std::string what);

}  // namespace llmc::driver
