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
/// next to the target. commit() syncs them and swaps the folder with the target in one rename, or
/// in two if the file system cannot swap folders, so that the target is the old or the new folder,
/// or missing, but never incomplete, even if the process is killed. Destruction without commit()
/// removes the written files. The next create() for the same target removes files left by killed
/// processes.
class AtomicDirectory {
 public:
  /// Checks whether an existing, non-empty folder at the target may be replaced, which deletes it.
  /// The error, which create() returns, names the content that must not be deleted and suggests
  /// what to do.
  using MayReplace = std::function<Status(const std::filesystem::path&)>;

  /// Creates the temporary folder and missing parent folders. If the target is a symbolic link to a
  /// folder, the folder that it points to is replaced. Parents created here are removed if there is
  /// no successful commit() and they are empty; signals that install_signal_cleanup() catches
  /// remove them too, but SIGKILL does not. Fails if the target is a file or the root folder, if it
  /// is or contains the current folder, if it is not empty and `may_replace` rejects it or is not
  /// set, or if nothing can be created next to it.
  static Result<AtomicDirectory> create(const std::filesystem::path& target,
                                        const MayReplace& may_replace);

  AtomicDirectory(AtomicDirectory&& other) noexcept;
  AtomicDirectory& operator=(AtomicDirectory&&) = delete;
  ~AtomicDirectory();

  /// Returns the folder to write to.
  const std::filesystem::path& path() const { return temporary_; }
  /// Moves the folder to the target. If this fails, the target is unchanged, unless another program
  /// changes it at the same time. Fails if the target now contains something that `may_replace`
  /// rejects. Call it at most once.
  Status commit();

 private:
  AtomicDirectory(std::filesystem::path target, std::filesystem::path temporary,
                  std::vector<std::filesystem::path> made_parents, MayReplace may_replace,
                  FolderLock lock);
  void discard();

  std::filesystem::path target_, temporary_;
  std::vector<std::filesystem::path> made_parents_;  // created by create(), the deepest first
  MayReplace may_replace_;
  /// Lock of the temporary folder; none after the folder has been moved or removed.
  std::optional<FolderLock> lock_;
  SignalCleanup cleanup_;
};

/// Several folders that are moved into place only after all are complete.
class AtomicDirectories {
 public:
  /// Creates an AtomicDirectory for each target. On failure, all of them are removed.
  static Result<AtomicDirectories> create(std::span<const std::filesystem::path> targets,
                                          const AtomicDirectory::MayReplace& may_replace);
  AtomicDirectories(AtomicDirectories&&) = default;
  AtomicDirectories& operator=(AtomicDirectories&&) = delete;
  ~AtomicDirectories();

  const std::filesystem::path& path(std::size_t i) const { return folders_[i].path(); }
  /// Moves the folders into place one by one. If one move fails, the previous moves are not undone.
  /// This happens, for example, if another program has changed the target or the disk fails.
  Status commit();

 private:
  AtomicDirectories() = default;
  std::vector<AtomicDirectory> folders_;
};

/// Removes the temporary folders in `parent` that AtomicDirectories of killed processes left, for
/// any target. Folders of running processes are locked and are not removed.
void remove_stale_directories(const std::filesystem::path& parent);

}  // namespace llmc
