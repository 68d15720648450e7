#include "compiler/support/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace llmc {

std::optional<FolderLock> FolderLock::take(const std::filesystem::path& folder, Kind kind) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  FolderLock lock(fd);
  struct stat by_fd{}, by_path{};
  if (::flock(fd, (kind == Kind::kShared ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0 ||
      ::fstat(fd, &by_fd) != 0 || ::lstat(folder.c_str(), &by_path) != 0 ||
      by_fd.st_ino != by_path.st_ino)
    return std::nullopt;
  return lock;
}

FolderLock::~FolderLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace llmc
