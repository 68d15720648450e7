#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "compiler/support/result.h"

/// Hashes of logits that every target, thread count and chunk size must reproduce.
namespace llmc::driver {

/// MODEL/golden-hashes.json for a folder, MODEL.golden-hashes.json for a file.
std::filesystem::path default_golden_file(const std::filesystem::path& model);

/// Key ("q4") -> hash, 16 hexadecimal digits. No file: empty. kBadInput when the file is damaged;
/// hashes of another version of the numerics are left out.
Result<std::map<std::string, std::string>> read_golden(const std::filesystem::path& file);
/// Rewrites the file whole.
Status write_golden(const std::filesystem::path& file,
                    const std::map<std::string, std::string>& hashes);

}  // namespace llmc::driver
