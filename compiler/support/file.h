#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>

#include "compiler/support/result.h"

namespace llmc {

/// Returns a Diagnostic for a failed system call on `path`: "cannot WHAT: REASON", with the reason
/// from errno.
Diagnostic system_error(const std::filesystem::path& path, std::string_view what, int error_number);

/// Returns six random letters and digits for the name of a temporary file; create the file
/// exclusively.
std::string random_suffix();

/// Reads a regular file. Fails if it is missing, not regular, or larger than `max_bytes`.
Result<std::string> read_file(const std::filesystem::path& path,
                              std::uint64_t max_bytes = std::uint64_t{1} << 30);

/// Creates the folder and those that lead to it, unless they exist.
Status create_folders(const std::filesystem::path& folder);

/// Writes bytes [offset, offset + bytes) of the file `source` to `out`. The caller checks `out`.
Status copy_bytes(const std::filesystem::path& source, std::uint64_t offset, std::uint64_t bytes,
                  std::ostream& out);

/// Creates or truncates `path` and writes `content`; short writes and full disks are errors. Not
/// atomic: for files inside an AtomicDirectory.
Status write_file(const std::filesystem::path& path, std::string_view content);
Status write_file(const std::filesystem::path& path, std::span<const std::byte> content);

/// Writes `content` to a file next to `path`, syncs it, and renames it to `path`: a reader sees the
/// old file or the new one.
Status replace_file(const std::filesystem::path& path, std::string_view content);

}  // namespace llmc
