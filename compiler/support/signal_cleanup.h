#pragma once

#include <cstddef>
#include <filesystem>

namespace llmc {

/// A folder that must not outlive this process: a signal that install_signal_cleanup catches
/// removes it with all in it, and then those of its parents that were made for it and are empty.
/// Its owner removes them otherwise, before this object goes.
class SignalCleanup {
 public:
  /// Up to sixteen at once; folders beyond that are left to whoever cleans up after a killed
  /// process.
  /// `made_parents`: how many folders above it were made for it.
  explicit SignalCleanup(const std::filesystem::path& folder, std::size_t made_parents = 0);
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

/// Makes SIGINT, SIGTERM and SIGHUP kill running commands and remove the folders of every
/// SignalCleanup before they end the process as usual. For programs; a library leaves signals
/// alone.
void install_signal_cleanup();

/// Ends this process as `number` would, with the same done before.
[[noreturn]] void end_by_signal(int number);

}  // namespace llmc
