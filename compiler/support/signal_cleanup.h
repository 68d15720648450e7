#pragma once

#include <cstddef>
#include <filesystem>

namespace llmc {

/// A folder that must not outlive this process. Signals that install_signal_cleanup catches remove
/// it with its content, then those of its parents that were created for it and are empty. Otherwise
/// its owner must remove it before this object is destroyed.
class SignalCleanup {
 public:
  /// Supports up to sixteen folders at the same time; further ones are handled like those of a
  /// killed process. `made_parents`: number of parent folders that were created for it.
  explicit SignalCleanup(const std::filesystem::path& folder, std::size_t made_parents = 0);
  SignalCleanup(SignalCleanup&& other) noexcept;
  SignalCleanup& operator=(SignalCleanup&&) = delete;
  /// If the handler is running on another thread, waits until it ends the process, because both may
  /// be removing the same folder.
  ~SignalCleanup();

  /// Prevents the handler from removing the folder while something else is moved to its path; false
  /// if it has already begun. resume() undoes this.
  [[nodiscard]] bool suspend();
  void resume();
  /// Gives up responsibility for the folder: it is never removed.
  void forget();

 private:
  int slot_ = -1;
};

/// Makes SIGINT, SIGTERM and SIGHUP kill running commands and remove the folders of all
/// SignalCleanups before they end the process as usual. For programs; a library leaves signals
/// alone.
void install_signal_cleanup();

/// Does the same and ends this process as the signal `number` would.
[[noreturn]] void end_by_signal(int number);

}  // namespace llmc
