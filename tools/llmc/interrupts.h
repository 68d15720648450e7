#pragma once

#include <atomic>
#include <string_view>

namespace llmc::cli {

/// Ctrl-C as a flag and as something to wait for, instead of the end of the program, for as long as
/// it lives. Signals that do end the program leave the terminal as it was when this was made,
/// whatever has been editing lines on it. One at a time.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  /// Set by Ctrl-C until take().
  const std::atomic<bool>& flag() const;
  /// Whether one came since it was last asked.
  bool take();
  /// Readable when one came that was not taken; -1 when there is no such file.
  int fd() const;
};

/// Asks the terminal on standard output to mark pasted text, for as long as it lives. Signals that
/// end the program (Interrupts) take the request back. Does nothing where standard output is no
/// terminal or TERM names none that moves its cursor. One at a time.
class BracketedPaste {
 public:
  static constexpr std::string_view kBegin = "\x1b[200~", kEnd = "\x1b[201~";

  BracketedPaste();
  ~BracketedPaste();
  BracketedPaste(const BracketedPaste&) = delete;
  BracketedPaste& operator=(const BracketedPaste&) = delete;

  /// Asks again: another program may have changed it while this one was stopped.
  void renew() const;

 private:
  const bool on_;
};

}  // namespace llmc::cli
