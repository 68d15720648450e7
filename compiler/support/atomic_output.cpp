#include "compiler/support/atomic_output.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <system_error>

#include "compiler/support/file.h"
#include "compiler/support/remove_tree.h"

namespace llmc {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMark = ".llmc-";

std::string temporary_prefix(const fs::path& target) {
  return "." + target.filename().string() + std::string(kMark);
}

/// Returns whether `name` consists of a temporary_prefix() and a random_suffix().
bool is_temporary_name(std::string_view name) {
  constexpr std::size_t kSuffix = 6;
  if (name.size() < 1 + kMark.size() + kSuffix || name.front() != '.') return false;
  const std::string_view suffix = name.substr(name.size() - kSuffix);
  name.remove_suffix(kSuffix);
  return name.ends_with(kMark) && std::ranges::all_of(suffix, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
         });
}

void remove_if_stale(const fs::path& folder) {
  if (FolderLock::take(folder, FolderLock::Kind::kExclusive)) remove_tree(folder);
}

/// Removes unlocked temporary folders next to the target, which killed processes left.
void remove_stale(const fs::path& target) {
  std::error_code ignored;
  const auto prefix = temporary_prefix(target);
  for (const auto& entry : fs::directory_iterator(target.parent_path(), ignored)) {
    const auto name = entry.path().filename().string();
    if (name.starts_with(prefix) && is_temporary_name(name) && name.size() == prefix.size() + 6)
      remove_if_stale(entry.path());
  }
}

/// Calls fsync for every file and folder below `path`.
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

/// Returns whether `folder` may be removed. Called for the folder at the target before a swap, and
/// again for the same folder after the swap, because other programs may have written to it in
/// between.
bool replaceable(const fs::path& folder, const AtomicDirectory::MayReplace& may_replace) {
  std::error_code error;
  if (!fs::is_directory(fs::symlink_status(folder, error)) || error) return false;
  const bool empty = fs::is_empty(folder, error);
  return !error && (empty || (may_replace && may_replace(folder).ok()));
}

/// Result of moving a folder into place.
enum class Placed {
  kDone,     // the previous folder, if any, is now at the temporary name
  kRefused,  // nothing has changed
  kFailed,   // nothing has changed; errno is set
  kStuck,    // another folder is at the temporary name and must not be removed
};

/// Moves without an atomic swap, on file systems that do not support it: first moves the target to
/// another name. If the process is killed between the two renames, the target is missing, but never
/// incomplete.
Placed move_by_two_renames(const fs::path& temporary, const fs::path& target,
                           const AtomicDirectory::MayReplace& may_replace) {
  const std::string aside = temporary.string() + ".old";
  if (!replaceable(target, may_replace)) return Placed::kRefused;
  if (::rename(target.c_str(), aside.c_str()) != 0) return Placed::kFailed;
  const bool allowed = replaceable(aside, may_replace);
  if (allowed && ::rename(temporary.c_str(), target.c_str()) == 0) {
    remove_tree(aside.c_str());
    return Placed::kDone;
  }
  const int error = errno;
  ::rename(aside.c_str(),
           target.c_str());  // if this fails, nothing removes the old folder
  errno = error;
  return allowed ? Placed::kFailed : Placed::kRefused;
}

/// Swaps `temporary` with `target`, or moves it there if there is no target.
Placed move_into_place(const fs::path& temporary, const fs::path& target,
                       const AtomicDirectory::MayReplace& may_replace) {
  const auto swap = [&] {
    return ::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0;
  };
  if (swap()) {
    if (replaceable(temporary, may_replace)) return Placed::kDone;
    return swap() ? Placed::kRefused : Placed::kStuck;
  }
  if (errno == ENOENT)
    return ::rename(temporary.c_str(), target.c_str()) == 0 ? Placed::kDone : Placed::kFailed;
  if (errno != EINVAL && errno != ENOSYS) return Placed::kFailed;
  return move_by_two_renames(temporary, target, may_replace);
}

/// Returns those of `folder` and its ancestors that do not exist, the deepest first.
std::vector<fs::path> missing_folders(fs::path folder) {
  std::vector<fs::path> missing;
  std::error_code error;
  while (folder.has_relative_path() && !fs::exists(fs::symlink_status(folder, error))) {
    missing.push_back(folder);
    folder = folder.parent_path();
  }
  return missing;
}

/// Removes the folders that are empty, in this order.
void remove_empty(const std::vector<fs::path>& folders) {
  for (const fs::path& folder : folders)
    if (::rmdir(folder.c_str()) != 0) return;
}

/// Returns whether `folder` equals `below` or contains it.
bool holds(const fs::path& folder, const fs::path& below) {
  return std::ranges::mismatch(folder, below).in1 == folder.end();
}

Diagnostic bad_target(const fs::path& target, std::string message, std::string hint) {
  return file_failure(ErrorKind::kBadInput, target.string(), std::move(message), std::move(hint));
}

Diagnostic holds_something_else(const fs::path& target) {
  return bad_target(target, "the output folder exists and has other contents",
                    "give an empty or a new folder");
}

}  // namespace

Result<AtomicDirectory> AtomicDirectory::create(const fs::path& wanted,
                                                const MayReplace& may_replace) {
  std::error_code error;
  fs::path target = fs::weakly_canonical(fs::absolute(wanted, error), error);
  if (error) return system_error(wanted, "resolve the output path", error.value());
  if (!target.has_filename()) target = target.parent_path();  // "dir/" means "dir"
  if (!target.has_filename())
    return bad_target(wanted, "the output cannot be the root folder", "give a folder below it");
  const auto status = fs::symlink_status(target, error);
  std::error_code unknown;
  if (const fs::path here = fs::current_path(unknown); !unknown && holds(target, here)) {
    return bad_target(wanted, "the output folder is or contains the current folder",
                      "it would be replaced: give a folder below the current one");
  }
  if (fs::exists(status) && !fs::is_directory(status))
    return bad_target(wanted, "the output exists and is not a folder", "give another path");
  if (fs::is_directory(status) && !fs::is_empty(target, error) && !error) {
    if (!may_replace) return holds_something_else(wanted);
    Status allowed = may_replace(target);
    if (!allowed.ok()) return std::move(allowed).error().in_file(wanted.string());
  }
  if (error && fs::exists(status)) return system_error(wanted, "read", error.value());
  std::vector<fs::path> made = missing_folders(target.parent_path());
  fs::create_directories(target.parent_path(), error);
  if (error) {
    remove_empty(made);
    return system_error(target.parent_path(), "create", error.value());
  }
  remove_stale(target);

  // Retry: another process may mistake the new folder for a stale one, and remove it, before it is
  // locked.
  for (int attempt = 0; attempt < 20; ++attempt) {
    // mkdtemp is unsuitable because it uses mode 0700: the bundle must have ordinary permissions.
    const fs::path name = target.parent_path() / (temporary_prefix(target) + random_suffix());
    const DelayedSignals delayed;
    if (::mkdir(name.c_str(), 0777) != 0) {
      if (errno == EEXIST) continue;
      const int failed = errno;
      remove_empty(made);
      return system_error(wanted, "create a folder next to it", failed);
    }
    auto lock = FolderLock::take(name, FolderLock::Kind::kExclusive);
    if (!lock) continue;
    return AtomicDirectory(std::move(target), name, std::move(made), may_replace, *std::move(lock));
  }
  remove_empty(made);
  return bad_target(wanted, "cannot lock a folder next to the output", "try again");
}

AtomicDirectory::AtomicDirectory(fs::path target, fs::path temporary,
                                 std::vector<fs::path> made_parents, MayReplace may_replace,
                                 FolderLock lock)
    : target_(std::move(target)),
      temporary_(std::move(temporary)),
      made_parents_(std::move(made_parents)),
      may_replace_(std::move(may_replace)),
      lock_(std::move(lock)),
      cleanup_(temporary_, made_parents_.size()) {}

AtomicDirectory::AtomicDirectory(AtomicDirectory&& other) noexcept
    : target_(std::move(other.target_)),
      temporary_(std::move(other.temporary_)),
      made_parents_(std::move(other.made_parents_)),
      may_replace_(std::move(other.may_replace_)),
      lock_(std::exchange(other.lock_, std::nullopt)),
      cleanup_(std::move(other.cleanup_)) {}

AtomicDirectory::~AtomicDirectory() {
  if (!lock_) return;
  discard();
  remove_empty(made_parents_);
}

void AtomicDirectory::discard() {
  remove_tree(temporary_);
  lock_.reset();
}

Status AtomicDirectory::commit() {
  LLMC_CHECK(lock_.has_value());
  LLMC_RETURN_IF_ERROR(sync_tree(temporary_));
  std::optional<DelayedSignals> delayed(std::in_place);
  // Hold the lock until the old folder is removed, so that it does not look stale at its temporary
  // name.
  const auto old_lock = FolderLock::take(target_, FolderLock::Kind::kExclusive);
  const Placed placed = move_into_place(temporary_, target_, may_replace_);
  const int error = errno;
  Status result = ok_status();
  if (placed == Placed::kStuck) {
    cleanup_.forget();
    lock_.reset();
    result =
        bad_target(target_, "another program changed the previous folder, so it was not removed",
                   "it was moved to " + printable(temporary_.string()));
  } else {
    if (placed == Placed::kRefused) result = holds_something_else(target_);
    if (placed == Placed::kFailed)
      result = system_error(target_, "move the finished folder into place", error);
  }
  delayed.reset();
  if (placed == Placed::kDone) {
    // The rename is durable only after the parent folder has been synced.
    const int parent = ::open(target_.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent >= 0) {
      ::fsync(parent);
      ::close(parent);
    }
    discard();  // after a swap the old folder is at the temporary name
  }
  return result;
}

Result<AtomicDirectories> AtomicDirectories::create(
    std::span<const fs::path> targets, const AtomicDirectory::MayReplace& may_replace) {
  AtomicDirectories result;
  result.folders_.reserve(targets.size());
  for (const fs::path& target : targets) {
    LLMC_TRY(AtomicDirectory folder, AtomicDirectory::create(target, may_replace));
    result.folders_.push_back(std::move(folder));
  }
  return result;
}

AtomicDirectories::~AtomicDirectories() {
  // Destroy the last folder first: the first one created the parent folders, which are empty only
  // after all other folders are removed.
  while (!folders_.empty()) folders_.pop_back();
}

Status AtomicDirectories::commit() {
  for (AtomicDirectory& folder : folders_) LLMC_RETURN_IF_ERROR(folder.commit());
  return ok_status();
}

void remove_stale_directories(const fs::path& parent) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(parent, ignored)) {
    if (is_temporary_name(entry.path().filename().string())) remove_if_stale(entry.path());
  }
}

}  // namespace llmc
