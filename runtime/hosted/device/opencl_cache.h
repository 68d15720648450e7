#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace llmc::hosted::opencl {

/// Cache of programs that a driver has compiled, in a file. A file that is absent, damaged, larger
/// than 64 MiB or of another version counts as empty. If the file cannot be written, the programs
/// are not cached.
///
///     "llmc kernels 1\n", u64 checksum of the rest, then for each program
///     u64 key, u64 size, size bytes
///
/// Numbers are in native byte order.
class ProgramCache {
 public:
  /// If `path` is empty, there is no file.
  explicit ProgramCache(std::filesystem::path path);

  /// Returns the program, or nullptr.
  const std::string* find(std::uint64_t key);
  void add(std::uint64_t key, std::string program);
  /// Drops all programs. Returns whether find() has returned a program that came from the file.
  bool forget();
  /// Writes the programs that were found or added, if any was added since the last call. Writes a
  /// temporary file of this process, which then replaces the old one by a rename.
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
