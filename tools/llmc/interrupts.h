#pragma once

#include <atomic>

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

}  // namespace llmc::cli
