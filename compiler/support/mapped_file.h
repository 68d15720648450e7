#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

#include "compiler/support/result.h"

namespace llmc {

/// A regular file that is mapped read-only. Pages are loaded when they are accessed, so the file
/// may be larger than memory. The address never changes; views into the file must share ownership
/// of the object.
class MappedFile {
 public:
  /// Fails if the file is missing, unreadable or not regular. An empty file maps to no bytes.
  static Result<std::shared_ptr<const MappedFile>> open(const std::filesystem::path& path);

  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  const std::filesystem::path& path() const { return path_; }
  /// Allows the kernel to drop loaded pages. Call it while reading a large file from start to end,
  /// so that little memory stays resident.
  void drop_pages() const;

 private:
  MappedFile(std::filesystem::path path, std::span<const std::byte> bytes)
      : path_(std::move(path)), bytes_(bytes) {}
  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

}  // namespace llmc
