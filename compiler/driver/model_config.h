#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compiler/support/result.h"

/// Configuration files of a model, such as config.json.
namespace llmc::driver {

struct ModelConfig {
  std::filesystem::path file;                        // empty: there is no such file
  nlohmann::json object = nlohmann::json::object();  // empty without a file
};

/// Reads `name` in the first of `folders` that has it. kBadInput if it is not a JSON object or has
/// more than 64 MiB: tokenizer_config.json lists added tokens, some megabytes in large
/// vocabularies.
Result<ModelConfig> read_model_config(const std::vector<std::filesystem::path>& folders,
                                      const char* name);

/// Returns the error that `what` is wrong with a configuration file.
Diagnostic bad_model_config(const std::filesystem::path& file, std::string what);

}  // namespace llmc::driver
