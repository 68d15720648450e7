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

/// A folder that appears whole or not at all. Files are written into path(), a hidden folder beside
/// the target; commit() syncs them and swaps it with the target in one rename, so that killing the
/// process at any moment leaves the old folder or none. Destruction without commit removes what was
/// written; what a killed process left behind is removed by the next create() for the same target.
class AtomicDirectory {
 public:
  /// Says whether an existing, non-empty folder at the target may be replaced (and removed!). Its
  /// error, which create() returns, says what the folder holds and what to do.
  using MayReplace = std::function<Status(const std::filesystem::path&)>;

  /// Fails when the target is a file, is the current folder or holds it (whoever stands in it would
  /// be left in a folder that is gone), is a non-empty folder that `may_replace` does not
  /// recognise, or when nothing can be created beside it. Missing parent folders are made; without
  /// a commit() they are removed again if they are empty, also by a signal that
  /// install_signal_cleanup catches. What SIGKILL leaves stays. A symbolic link to a folder is
  /// followed: the folder it leads to is replaced.
  static Result<AtomicDirectory> create(const std::filesystem::path& target,
                                        const MayReplace& may_replace);

  AtomicDirectory(AtomicDirectory&& other) noexcept;
  AtomicDirectory& operator=(AtomicDirectory&&) = delete;
  ~AtomicDirectory();

  /// Where to write.
  const std::filesystem::path& path() const { return temporary_; }
  /// Puts the folder in place; fails without changing the target, also when something that
  /// `may_replace` does not recognise has come to stand there meanwhile. Once only.
  Status commit();

 private:
  AtomicDirectory(std::filesystem::path target, std::filesystem::path temporary,
                  std::vector<std::filesystem::path> made_parents, MayReplace may_replace,
                  FolderLock lock);
  void discard();

  std::filesystem::path target_, temporary_;
  std::vector<std::filesystem::path> made_parents_;  // by create(), the deepest first
  MayReplace may_replace_;
  std::optional<FolderLock> lock_;  // of the temporary folder; none when there is no more to do
  SignalCleanup cleanup_;
};

/// Several folders that appear together: none before all are complete.
class AtomicDirectories {
 public:
  /// An AtomicDirectory for each target; fails as that does, and leaves nothing then.
  static Result<AtomicDirectories> create(std::span<const std::filesystem::path> targets,
                                          const AtomicDirectory::MayReplace& may_replace);
  AtomicDirectories(AtomicDirectories&&) = default;
  AtomicDirectories& operator=(AtomicDirectories&&) = delete;
  ~AtomicDirectories();

  const std::filesystem::path& path(std::size_t i) const { return folders_[i].path(); }
  /// Puts one after the other in its place. When one fails, which only happens when somebody
  /// changed the target meanwhile or the disk fails, those before it stay.
  Status commit();

 private:
  AtomicDirectories() = default;
  std::vector<AtomicDirectory> folders_;
};

/// Removes every temporary folder in `parent` that an AtomicDirectory of a killed process left, for
/// whatever target. Those of living processes are locked and stay.
void remove_stale_directories(const std::filesystem::path& parent);

}  // namespace llmc
