#pragma once

#include <filesystem>

namespace llmc {

/// A folder that must not outlive this process: a signal that install_signal_cleanup catches
/// removes it with all in it. Its owner removes it otherwise, before this object goes.
class SignalCleanup {
 public:
  /// Up to sixteen at once; folders beyond that are left to whoever cleans up after a killed
  /// process.
  explicit SignalCleanup(const std::filesystem::path& folder);
  SignalCleanup(SignalCleanup&& other) noexcept;
  SignalCleanup& operator=(SignalCleanup&&) = delete;
  /// When the handler is at work on another thread it waits until that ends the process: the two
  /// may be half-way through the same folder.
  ~SignalCleanup();

  /// Keeps the handler away while something else is about to stand at the folder's path; false when
  /// it has begun already. resume() gives the path back.
  [[nodiscard]] bool suspend();
  void resume();
  /// The folder at the path is somebody's: never removed.
  void forget();

 private:
  int slot_ = -1;
};

/// Makes SIGINT, SIGTERM and SIGHUP remove the folders of every SignalCleanup and kill running
/// commands before they end the process as usual. For programs; a library leaves signals alone.
void install_signal_cleanup();

/// Ends this process as `number` would, with the same done before.
[[noreturn]] void end_by_signal(int number);

}  // namespace llmc
