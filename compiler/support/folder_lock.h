#pragma once

#include <filesystem>
#include <optional>
#include <utility>

namespace llmc {

/// An advisory lock (flock) on a folder, held until the object or the process goes. Every other
/// FolderLock sees it, those of this process too.
class FolderLock {
 public:
  enum class Kind { kShared, kExclusive };
  /// Does not wait: nullopt when somebody holds a lock that excludes this one, and when there is no
  /// folder or another one stands there by now.
  static std::optional<FolderLock> take(const std::filesystem::path& folder, Kind kind);

  FolderLock(FolderLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();

 private:
  explicit FolderLock(int fd) : fd_(fd) {}
  int fd_;  // -1: moved from
};

}  // namespace llmc
