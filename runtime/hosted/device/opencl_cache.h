#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace llmc::hosted::opencl {

/// Programs that a driver has compiled, kept in a file. The file is only a help: one that is
/// absent, damaged or of another version is like an empty one, and one that cannot be written is
/// not.
///
///     "llmc kernels 1\n", u64 checksum of the rest, then for each program
///     u64 key, u64 size, size bytes
///
/// Numbers are those of the machine that wrote it, which is the one that reads it.
class ProgramCache {
 public:
  /// `path`: empty: no file.
  explicit ProgramCache(std::filesystem::path path);

  /// Returns the program, or nullptr.
  const std::string* find(std::uint64_t key);
  void add(std::uint64_t key, std::string program);
  /// Writes the programs that were found or added, if any was added since. The file is replaced as
  /// a whole.
  void save();
  bool enabled() const { return !path_.empty(); }

 private:
  struct Entry {
    std::string program;
    bool used = false;
  };
  void read();

  std::filesystem::path path_;
  std::map<std::uint64_t, Entry> entries_;
  bool changed_ = false;
};

/// Returns FNV-1a (64 bits) of `text`.
std::uint64_t hash_of(std::string_view text);

}  // namespace llmc::hosted::opencl
