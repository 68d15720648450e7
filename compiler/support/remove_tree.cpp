#include "compiler/support/remove_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace llmc {
namespace {

/// Maximum depth of folders. It bounds the stack of a signal handler; bundles are two levels deep.
constexpr int kMaxDepth = 16;

/// Layout of the results of SYS_getdents64; readdir would allocate.
struct KernelEntry {
  std::uint64_t inode;
  std::int64_t offset;
  std::uint16_t length;
  std::uint8_t type;
  char name[1];
};

bool remove_entry(int folder, const char* name, int depth);

/// Removes what the open folder contains. Removing entries while the folder is read may make the
/// kernel skip others: repeats until no entry is found.
void remove_content(int fd, int depth) {
  for (bool removed_any = true; removed_any;) {
    removed_any = false;
    ::lseek(fd, 0, SEEK_SET);
    alignas(KernelEntry) char buffer[2048];
    long got = 0;
    while ((got = ::syscall(SYS_getdents64, fd, buffer, sizeof buffer)) > 0) {
      for (long at = 0; at < got;) {
        const auto* entry = reinterpret_cast<const KernelEntry*>(buffer + at);
        at += entry->length;
        if (std::strcmp(entry->name, ".") == 0 || std::strcmp(entry->name, "..") == 0) continue;
        if (remove_entry(fd, entry->name, depth)) removed_any = true;
      }
    }
  }
}

bool remove_entry(int folder, const char* name, int depth) {
  if (::unlinkat(folder, name, 0) == 0 || errno == ENOENT) return true;
  if (errno != EISDIR && errno != EPERM) return false;
  if (depth >= kMaxDepth) return false;
  const int fd = ::openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT;
  // Repeated because a process that is being killed may still create a file.
  bool removed = false;
  for (int attempt = 0; attempt < 3 && !removed; ++attempt) {
    remove_content(fd, depth + 1);
    removed = ::unlinkat(folder, name, AT_REMOVEDIR) == 0 || errno == ENOENT;
    if (!removed && errno != ENOTEMPTY && errno != EEXIST) break;
  }
  ::close(fd);
  return removed;
}

}  // namespace

bool remove_tree(const char* path) {
  return remove_entry(AT_FDCWD, path, 0);
}

}  // namespace llmc
