#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

#include "compiler/support/result.h"

namespace llmc {

/// A regular file mapped read-only. Pages are loaded when they are accessed, so a model of any size
/// can be opened. Its address never changes; share the object as the owner of views into it.
class MappedFile {
 public:
  /// Fails if the file is missing, unreadable or not regular. An empty file maps to no bytes.
  static Result<std::shared_ptr<const MappedFile>> open(const std::filesystem::path& path);

  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  const std::filesystem::path& path() const { return path_; }
  /// Lets the kernel drop loaded pages, so that streaming a large file keeps little memory
  /// resident.
  void drop_pages() const;

 private:
  MappedFile(std::filesystem::path path, std::span<const std::byte> bytes)
      : path_(std::move(path)), bytes_(bytes) {}
  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

}  // namespace llmc
