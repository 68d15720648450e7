#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

/// Entries of the cache (cache.h) that consist of one file. The file begins with a checksum.
namespace llmc::driver {

/// Content that `owner` keeps alive.
struct CachedContent {
  std::shared_ptr<const void> owner;
  std::span<const std::byte> bytes;
};

/// Returns the path of the file `name` in the entry for `key`; empty if there is no cache folder.
/// The entry's name ends with `kind`.
std::filesystem::path cache_file(std::string_view key, std::string_view kind,
                                 std::string_view name);
/// Returns the content of a file that keep_content() wrote, and marks its entry as used. Returns
/// nullopt if the file is missing or damaged.
std::optional<CachedContent> read_content(const std::filesystem::path& file);
/// Creates the entry of `file`, whose content is the concatenation of `parts`. Ignores failures:
/// then nothing is cached.
void keep_content(const std::filesystem::path& file,
                  std::span<const std::span<const std::byte>> parts);

}  // namespace llmc::driver
