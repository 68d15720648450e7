#pragma once

#include <filesystem>
#include <optional>
#include <utility>

namespace llmc {

/// An advisory lock (flock) on a folder, held until destruction or the end of the process. An
/// exclusive lock excludes all other FolderLocks on the folder, and a shared lock excludes the
/// exclusive ones, also within this process.
class FolderLock {
 public:
  enum class Kind { kShared, kExclusive };
  /// Takes the lock without waiting. Returns nullopt if a conflicting lock is held, if there is no
  /// such folder (a symbolic link is none), if it cannot be opened or locked, or if it is removed
  /// during the call, even if a new folder gets its path.
  static std::optional<FolderLock> take(const std::filesystem::path& folder, Kind kind);

  FolderLock(FolderLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();

 private:
  explicit FolderLock(int fd) : fd_(fd) {}
  int fd_;  // -1: moved from
};

}  // namespace llmc
