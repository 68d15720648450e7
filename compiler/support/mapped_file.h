#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

#include "compiler/support/result.h"

namespace llmc {

/// A regular file mapped read-only. Pages are read when they are touched, so a model of any size
/// can be opened. Its address does not change during its life; share it as the owner of windows.
class MappedFile {
 public:
  /// Fails when the file is missing, unreadable or not regular. An empty file maps to no bytes.
  static Result<std::shared_ptr<const MappedFile>> open(const std::filesystem::path& path);

  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  const std::filesystem::path& path() const { return path_; }
  /// Lets the kernel drop pages already read, so that streaming a large file keeps little resident.
  void drop_pages() const;

 private:
  MappedFile(std::filesystem::path path, std::span<const std::byte> bytes)
      : path_(std::move(path)), bytes_(bytes) {}
  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

}  // namespace llmc
