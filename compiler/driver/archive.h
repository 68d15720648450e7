#pragma once

#include <filesystem>
#include <string>

#include "compiler/support/result.h"

namespace llmc::driver {

/// Whether `path` is an archive with members that end where the file does.
bool is_whole_archive(const std::filesystem::path& path);

/// Puts the content of the file `content` in place of what the last member of the archive `archive`
/// holds; the member keeps its name. Archivers hold an archive in memory whole; here the weights,
/// most of it, are copied from file to file: the archiver gets a small object with the same symbols
/// in their place. Both paths are in `folder`.
Status replace_last_member(const std::filesystem::path& folder, const std::string& archive,
                           const std::string& content);

}  // namespace llmc::driver
