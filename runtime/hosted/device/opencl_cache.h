#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace llmc::hosted::opencl {

/// Programs that a driver has compiled, kept in a file. The file is optional: one that is
/// absent, damaged or of another version is like an empty one; if it cannot be written, nothing is
/// kept.
///
///     "llmc kernels 1\n", u64 checksum of the rest, then for each program
///     u64 key, u64 size, size bytes
///
/// Numbers are in native byte order.
class ProgramCache {
 public:
  /// `path`: empty: no file.
  explicit ProgramCache(std::filesystem::path path);

  /// Returns the program, or nullptr.
  const std::string* find(std::uint64_t key);
  void add(std::uint64_t key, std::string program);
  /// Drops all programs. Returns whether one that find() returned was from the file.
  bool forget();
  /// Writes the programs that were found or added, if any was added since. The file is replaced as
  /// a whole.
  void save() noexcept;
  bool enabled() const { return !path_.empty(); }

 private:
  struct Entry {
    std::string program;
    bool used = false, from_file = false;
  };
  void read();
  void write() const;

  std::filesystem::path path_;
  std::map<std::uint64_t, Entry> entries_;
  bool changed_ = false;
};

/// Returns FNV-1a (64 bits) of `text`.
std::uint64_t hash_of(std::string_view text);

}  // namespace llmc::hosted::opencl
