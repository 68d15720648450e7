#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

/// Entries of the cache (cache.h) that are one file, which begins with a checksum.
namespace llmc::driver {

/// Content that `owner` keeps alive.
struct CachedContent {
  std::shared_ptr<const void> owner;
  std::span<const std::byte> bytes;
};

/// Returns the file `name` in the entry for a key; empty if there is no cache folder. `kind` ends
/// the entry's name.
std::filesystem::path cache_file(std::string_view key, std::string_view kind,
                                 std::string_view name);
/// Returns the content of such a file and marks its entry as used; nullopt if it is missing or
/// damaged.
std::optional<CachedContent> read_content(const std::filesystem::path& file);
/// Writes the entry: `parts`, one after the other. A failure only means that it is not kept.
void keep_content(const std::filesystem::path& file,
                  std::span<const std::span<const std::byte>> parts);

}  // namespace llmc::driver
