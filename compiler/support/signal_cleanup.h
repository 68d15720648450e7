#pragma once

#include <signal.h>

#include <cstddef>
#include <filesystem>

namespace llmc {

/// Delays the signals that install_signal_cleanup() catches while a folder is created, registered
/// or renamed, or a command is started: the handler runs before or after such a section, never
/// during it. Sections must be short: the handler waits until other threads have left theirs, at
/// most 2 seconds.
class DelayedSignals {
 public:
  /// Does not return if the handler has already begun on another thread: the process is about to
  /// end.
  DelayedSignals();
  DelayedSignals(const DelayedSignals&) = delete;
  DelayedSignals& operator=(const DelayedSignals&) = delete;
  ~DelayedSignals();

 private:
  sigset_t before_;
};

/// Registers a folder that must be removed when a signal ends this process. The signals that
/// install_signal_cleanup() catches remove it with its content, and then those of its created
/// parents that are empty. If no signal arrives, the owner must remove the folder before this
/// object is destroyed.
class SignalCleanup {
 public:
  /// Registers `folder`. `made_parents`: number of parent folders that were created for it. Up to
  /// sixteen folders can be registered at the same time; further folders are not removed by
  /// signals. Create the folder and this object in one section of DelayedSignals.
  explicit SignalCleanup(const std::filesystem::path& folder, std::size_t made_parents = 0);
  SignalCleanup(SignalCleanup&& other) noexcept;
  SignalCleanup& operator=(SignalCleanup&&) = delete;
  /// If the handler is removing the folder on another thread, does not return: the process is about
  /// to end.
  ~SignalCleanup();

  /// Unregisters the folder: signals no longer remove it. Does not return if the handler is
  /// removing it on another thread.
  void forget();

 private:
  int slot_ = -1;
};

/// Makes SIGINT, SIGTERM and SIGHUP kill running commands and remove all registered folders before
/// they end the process as usual. A signal that the process ignores stays ignored. Only programs
/// may call it, because a library must not change signal handlers.
void install_signal_cleanup();

/// Kills running commands, removes all registered folders, and ends this process as the signal
/// `number` would.
[[noreturn]] void end_by_signal(int number);

}  // namespace llmc
