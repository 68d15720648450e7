#include "compiler/support/atomic_output.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "compiler/support/file.h"
#include "compiler/support/remove_tree.h"
#include "compiler/support/subprocess.h"

namespace llmc {
namespace {

namespace fs = std::filesystem;

/// Unfinished folders for the signal handler. A slot goes free -> filling -> active; commit() takes
/// it to `renaming` around the rename, so that the handler, perhaps on another thread, never
/// empties a folder that is just becoming the target.
enum SlotState { kFree, kFilling, kActive, kRenaming, kRemoving };
struct Slot {
  std::atomic<int> state{kFree};
  char path[4096] = {};
};
std::array<Slot, 16> slots;

int take_slot(const fs::path& path) {
  if (path.native().size() >= sizeof(Slot::path)) return -1;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    int expected = kFree;
    if (!slots[i].state.compare_exchange_strong(expected, kFilling)) continue;
    std::memcpy(slots[i].path, path.c_str(), path.native().size() + 1);
    slots[i].state.store(kActive);
    return static_cast<int>(i);
  }
  return -1;  // more than sixteen at once: those are left to the next create()
}

bool move_slot(int slot, int from, int to) {
  if (slot < 0) return true;
  return slots[static_cast<std::size_t>(slot)].state.compare_exchange_strong(from, to);
}

void on_signal(int number) {
  kill_running_commands();
  for (auto& slot : slots) {
    int expected = kActive;
    if (slot.state.compare_exchange_strong(expected, kRemoving)) remove_tree(slot.path);
  }
  ::signal(number, SIG_DFL);
  ::raise(number);
}

std::string temporary_prefix(const fs::path& target) {
  return "." + target.filename().string() + ".llmc-";
}

/// Opens and locks a folder; -1 when another process holds the lock or it is gone.
int lock_folder(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return -1;
  struct stat by_fd{}, by_path{};
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0 && ::fstat(fd, &by_fd) == 0 &&
      ::lstat(path.c_str(), &by_path) == 0 && by_fd.st_ino == by_path.st_ino)
    return fd;
  ::close(fd);
  return -1;
}

/// Removes what killed processes left beside the target: folders of our name that nobody locks.
void remove_stale(const fs::path& target) {
  std::error_code ignored;
  const auto prefix = temporary_prefix(target);
  for (const auto& entry : fs::directory_iterator(target.parent_path(), ignored)) {
    const auto name = entry.path().filename().string();
    if (name.size() != prefix.size() + 6 || name.compare(0, prefix.size(), prefix) != 0) continue;
    const int lock = lock_folder(entry.path());
    if (lock < 0) continue;
    remove_tree(entry.path());
    ::close(lock);
  }
}

/// fsync of every file and folder below `path`.
Status sync_tree(const fs::path& path) {
  const auto sync = [](const fs::path& what) -> Status {
    const int fd = ::open(what.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return system_error(what, "open", errno);
    const int failed = ::fsync(fd) != 0 ? errno : 0;
    ::close(fd);
    if (failed) return system_error(what, "write", failed);
    return ok_status();
  };
  std::error_code error;
  for (auto it = fs::recursive_directory_iterator(path, error);
       !error && it != fs::recursive_directory_iterator(); it.increment(error))
    if (it->is_regular_file() || it->is_directory()) LLMC_RETURN_IF_ERROR(sync(it->path()));
  if (error) return system_error(path, "read", error.value());
  return sync(path);
}

/// Swaps or moves `temporary` to `target`. On file systems without an atomic swap the target is
/// moved aside first: being killed between the two renames leaves none, never half of one.
int rename_into_place(const fs::path& temporary, const fs::path& target) {
  if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0)
    return 0;
  if (errno == ENOENT) return ::rename(temporary.c_str(), target.c_str()) == 0 ? 0 : errno;
  if (errno != EINVAL && errno != ENOSYS) return errno;
  const std::string aside = temporary.string() + ".old";
  if (::rename(target.c_str(), aside.c_str()) != 0) return errno;
  if (::rename(temporary.c_str(), target.c_str()) != 0) {
    const int error = errno;
    ::rename(aside.c_str(), target.c_str());
    return error;
  }
  remove_tree(aside.c_str());
  return 0;
}

Diagnostic bad_target(const fs::path& target, std::string message, std::string hint) {
  Diagnostic d;
  d.kind = ErrorKind::kBadInput;
  d.file = target.string();
  d.message = std::move(message);
  d.hint = std::move(hint);
  return d;
}

}  // namespace

Result<AtomicDirectory> AtomicDirectory::create(const fs::path& wanted,
                                                const MayReplace& may_replace) {
  std::error_code error;
  fs::path target = fs::weakly_canonical(fs::absolute(wanted, error), error);
  if (error) return system_error(wanted, "resolve the output path", error.value());
  if (!target.has_filename()) target = target.parent_path();  // "dir/" means "dir"
  if (!target.has_filename())
    return bad_target(wanted, "the output cannot be the root folder", "name a folder below it");
  const auto status = fs::symlink_status(target, error);
  if (fs::exists(status) && !fs::is_directory(status))
    return bad_target(wanted, "the output exists and is not a folder", "name another folder");
  if (fs::is_directory(status) && !fs::is_empty(target, error) && !error &&
      !(may_replace && may_replace(target)))
    return bad_target(wanted, "the output folder exists and holds something else",
                      "name an empty or a new folder, or remove this one");
  if (error && fs::exists(status)) return system_error(wanted, "read", error.value());
  fs::create_directories(target.parent_path(), error);
  if (error) return system_error(target.parent_path(), "create", error.value());
  remove_stale(target);

  // Another process may take a fresh folder for a stale one in the moment before we lock it.
  for (int attempt = 0; attempt < 20; ++attempt) {
    // Not mkdtemp, which makes 0700: the bundle is an ordinary folder.
    const fs::path name = target.parent_path() / (temporary_prefix(target) + random_suffix());
    if (::mkdir(name.c_str(), 0777) != 0) {
      if (errno == EEXIST) continue;
      return system_error(wanted, "create a folder beside it", errno);
    }
    const int lock = lock_folder(name);
    if (lock < 0) continue;
    const int slot = take_slot(name);
    return AtomicDirectory(std::move(target), name, lock, slot);
  }
  return bad_target(wanted, "cannot lock a folder beside the output", "try again");
}

AtomicDirectory::AtomicDirectory(AtomicDirectory&& other) noexcept
    : target_(std::move(other.target_)),
      temporary_(std::move(other.temporary_)),
      lock_(std::exchange(other.lock_, -1)),
      slot_(std::exchange(other.slot_, -1)) {}

AtomicDirectory::~AtomicDirectory() {
  if (lock_ >= 0) discard();
}

void AtomicDirectory::discard() {
  remove_tree(temporary_);
  // When a signal handler on another thread has taken the slot it may be half-way through the same
  // folder, and it ends the process when done: returning from main now would end it before.
  if (!move_slot(slot_, kActive, kFree))
    for (;;) ::pause();
  ::close(std::exchange(lock_, -1));
}

Status AtomicDirectory::commit() {
  LLMC_CHECK(lock_ >= 0);
  LLMC_RETURN_IF_ERROR(sync_tree(temporary_));
  if (!move_slot(slot_, kActive, kRenaming))
    return bad_target(target_, "interrupted", "");  // the handler is removing it
  const int error = rename_into_place(temporary_, target_);
  move_slot(slot_, kRenaming, kActive);
  if (error != 0) return system_error(target_, "move the finished folder into place", error);
  // The rename is on disk once the parent is.
  const int parent = ::open(target_.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (parent >= 0) {
    ::fsync(parent);
    ::close(parent);
  }
  discard();  // after a swap the old folder stands at the temporary name
  return ok_status();
}

void install_signal_cleanup() {
  struct sigaction action{};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&action.sa_mask, number);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction old{};
    // A signal the parent made us ignore (nohup) stays ignored.
    if (::sigaction(number, nullptr, &old) == 0 && old.sa_handler != SIG_IGN)
      ::sigaction(number, &action, nullptr);
  }
}

}  // namespace llmc
