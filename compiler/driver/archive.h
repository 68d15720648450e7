#pragma once

#include <filesystem>
#include <string>

#include "compiler/support/result.h"

namespace llmc::driver {

/// Returns whether `path` is a complete archive (.a) in the format of GNU and LLVM archivers. An
/// archive is complete if its last member ends exactly at the end of the file.
bool is_whole_archive(const std::filesystem::path& path);

/// Replaces the content of the last member of the archive `archive` with the content of the file
/// `content`; the member keeps its name. Both paths are relative to `folder`. Use it for large
/// weights, because archivers hold a whole archive in memory: the archiver gets a small placeholder
/// object with the same symbols, and this function then copies the real object from file to file.
/// Fails with kToolchain if the archive has another format, and with kBadInput if a file cannot be
/// read or written.
Status replace_last_member(const std::filesystem::path& folder, const std::string& archive,
                           const std::string& content);

}  // namespace llmc::driver
