#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "compiler/plan/kv_format.h"
#include "compiler/support/result.h"

/// Hashes of logits that every target, thread count and chunk size must reproduce.
namespace llmc::driver {

/// Key ("q4,kv=f16", "q4,kv=f16/200+4") -> hash, 16 hexadecimal digits.
struct GoldenHashes {
  std::string numerics;  // version the hashes were made with (plan::kNumericsVersion), or "unknown"
  std::map<std::string, std::string> hashes;
};

/// Key of a model's hash by its formats: "q4,kv=f16"; an f32 cache is not named. Keys of other runs
/// than the short one go on with '/'.
std::string golden_key(std::string_view quant, KvFormats kv);

/// MODEL/golden-hashes.json for a folder, MODEL.golden-hashes.json for a file.
std::filesystem::path default_golden_file(const std::filesystem::path& model);

/// Reads a file of hashes of any version of the numerics; a file that names none is of an unknown
/// version. Without a file: this version and no hashes. kBadInput when the file is damaged.
Result<GoldenHashes> read_golden(const std::filesystem::path& file);
/// Hashes of the model's default file for `key` and its other runs. None if there is no such file,
/// it is damaged, or another version of the numerics made it.
std::map<std::string, std::string> stored_hashes(const std::filesystem::path& model,
                                                 const std::string& key);
/// Rewrites the file as a whole.
Status write_golden(const std::filesystem::path& file, const GoldenHashes& golden);

}  // namespace llmc::driver
