#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "compiler/plan/kv_format.h"
#include "compiler/support/result.h"

/// Golden hashes: hashes of logits that every target, thread count and chunk size must reproduce.
namespace llmc::driver {

/// Golden hashes by key ("q4,kv=f16", "q4,kv=f16/200+4"); each hash is 16 hexadecimal digits.
struct GoldenHashes {
  std::string numerics;  // numerics version of the hashes (plan::kNumericsVersion), or "unknown"
  std::map<std::string, std::string> hashes;
};

/// Returns the key of a model's short run with these formats: "q4,kv=f16". The cache format is
/// omitted if it is f32. Keys of other runs append '/' and a description of the run. `calibration`:
/// calibration_key(), which is empty without a calibration. `requantize`: as in CompileOptions.
std::string golden_key(std::string_view quant, KvFormats kv, std::string_view calibration = {},
                       bool requantize = false);

/// Returns MODEL/golden-hashes.json for a folder, and MODEL.golden-hashes.json for a file.
std::filesystem::path default_golden_file(const std::filesystem::path& model);

/// Reads a file of hashes of any numerics version. The version is "unknown" if the file does not
/// state it. If the file does not exist, returns the current version and no hashes. Fails with
/// kBadInput if the file is damaged.
Result<GoldenHashes> read_golden(const std::filesystem::path& file);
/// Returns the hashes in the model's default file whose key is `key` or begins with `key` and '/'.
/// Empty if the file does not exist, is damaged, or has another numerics version.
std::map<std::string, std::string> stored_hashes(const std::filesystem::path& model,
                                                 const std::string& key);
/// Replaces the whole file.
Status write_golden(const std::filesystem::path& file, const GoldenHashes& golden);

}  // namespace llmc::driver
