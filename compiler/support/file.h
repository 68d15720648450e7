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

/// Returns the Diagnostic of a failed system call on `path`: kBadInput, "cannot WHAT: REASON".
/// `error_number` is the call's errno. The functions below fail with kBadInput.
Diagnostic system_error(const std::filesystem::path& path, std::string_view what, int error_number);

/// Returns six random letters and digits for the name of a temporary file. The name may exist:
/// create the file exclusively.
std::string random_suffix();

/// Reads a regular file. Fails if it is missing, unreadable, not regular, or larger than
/// `max_bytes`.
Result<std::string> read_file(const std::filesystem::path& path,
                              std::uint64_t max_bytes = std::uint64_t{1} << 30);

/// Creates the folder and its missing parents. Succeeds if the folder exists.
Status create_folders(const std::filesystem::path& folder);

/// Writes bytes [offset, offset + bytes) of the file `source` to `out`. Fails if they cannot be
/// read. Stops without an error if a write fails: the caller must check `out`.
Status copy_bytes(const std::filesystem::path& source, std::uint64_t offset, std::uint64_t bytes,
                  std::ostream& out);

/// Creates or truncates `path` and writes `content`. Fails if not everything can be written, for
/// example if the disk is full. Not atomic: use it for files inside an AtomicDirectory.
Status write_file(const std::filesystem::path& path, std::string_view content);
Status write_file(const std::filesystem::path& path, std::span<const std::byte> content);

/// Writes `content` to a temporary file next to `path`, syncs it, and renames it to `path`, so that
/// a reader sees either the old file or the new one.
Status replace_file(const std::filesystem::path& path, std::string_view content);

}  // namespace llmc
