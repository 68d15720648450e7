#pragma once

#include <atomic>
#include <string_view>

namespace llmc::cli {

/// While it exists, Ctrl-C sets a flag and makes a file descriptor readable instead of ending the
/// program. SIGTERM, SIGHUP and SIGQUIT first restore the terminal settings that the constructor
/// found, unless the program is in the background. Only one object may exist.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  /// Set by Ctrl-C until take().
  const std::atomic<bool>& flag() const;
  /// Returns and clears the flag.
  bool take();
  /// Readable while the flag is set; -1 if there is no descriptor.
  int fd() const;
};

/// While it exists, the terminal on standard output marks pasted text (bracketed paste). The
/// signals that restore the terminal (Interrupts) disable it. Has no effect if standard output is
/// not a terminal with cursor movement. Only one object may exist.
class BracketedPaste {
 public:
  static constexpr std::string_view kBegin = "\x1b[200~", kEnd = "\x1b[201~";

  BracketedPaste();
  ~BracketedPaste();
  BracketedPaste(const BracketedPaste&) = delete;
  BracketedPaste& operator=(const BracketedPaste&) = delete;

  /// Enables it again: another program may have disabled it while this one was stopped.
  void renew() const;

 private:
  const bool on_;
};

}  // namespace llmc::cli
