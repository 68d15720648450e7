#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "compiler/support/folder_lock.h"
#include "compiler/support/result.h"
#include "compiler/support/signal_cleanup.h"

namespace llmc {

/// A folder that is created completely or not at all. Files are written to path(), a hidden folder
/// next to the target; commit() syncs them and swaps it with the target in one rename, so that
/// killing the process at any moment leaves the old folder or none. Destruction without commit()
/// removes the written files; the next create() for the same target removes what a killed process
/// left.
class AtomicDirectory {
 public:
  /// Checks whether an existing, non-empty folder at the target may be replaced (and removed!).
  /// create() returns its error, which says what the folder contains and what to do.
  using MayReplace = std::function<Status(const std::filesystem::path&)>;

  /// Creates the temporary folder. Fails if the target is a file, is the current folder or contains
  /// it (which would then be removed), is a non-empty folder that `may_replace` rejects, or if
  /// nothing can be created next to it. Missing parent folders are created. Without a commit() they
  /// are removed again if they are empty, also by a signal that install_signal_cleanup catches, but
  /// not after SIGKILL. A symbolic link to a folder is followed, and the folder it points to is
  /// replaced.
  static Result<AtomicDirectory> create(const std::filesystem::path& target,
                                        const MayReplace& may_replace);

  AtomicDirectory(AtomicDirectory&& other) noexcept;
  AtomicDirectory& operator=(AtomicDirectory&&) = delete;
  ~AtomicDirectory();

  /// Returns the folder to write to.
  const std::filesystem::path& path() const { return temporary_; }
  /// Moves the folder into place. On failure the target is unchanged, also if it meanwhile contains
  /// something that `may_replace` rejects. Call only once.
  Status commit();

 private:
  AtomicDirectory(std::filesystem::path target, std::filesystem::path temporary,
                  std::vector<std::filesystem::path> made_parents, MayReplace may_replace,
                  FolderLock lock);
  void discard();

  std::filesystem::path target_, temporary_;
  std::vector<std::filesystem::path> made_parents_;  // created by create(), the deepest first
  MayReplace may_replace_;
  std::optional<FolderLock>
      lock_;  // lock of the temporary folder; none after it has been moved or removed
  SignalCleanup cleanup_;
};

/// Several folders that are moved into place only after all are complete.
class AtomicDirectories {
 public:
  /// Creates an AtomicDirectory for each target. On failure nothing is left.
  static Result<AtomicDirectories> create(std::span<const std::filesystem::path> targets,
                                          const AtomicDirectory::MayReplace& may_replace);
  AtomicDirectories(AtomicDirectories&&) = default;
  AtomicDirectories& operator=(AtomicDirectories&&) = delete;
  ~AtomicDirectories();

  const std::filesystem::path& path(std::size_t i) const { return folders_[i].path(); }
  /// Moves the folders into place one by one. If one fails, which only happens if another program
  /// changed the target meanwhile or the disk fails, the previous ones stay.
  Status commit();

 private:
  AtomicDirectories() = default;
  std::vector<AtomicDirectory> folders_;
};

/// Removes all temporary folders in `parent` that AtomicDirectories of killed processes left, for
/// any target. Those of running processes are locked and stay.
void remove_stale_directories(const std::filesystem::path& parent);

}  // namespace llmc
