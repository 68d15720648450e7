#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "tools/llmc/interrupts.h"

namespace llmc::cli {

/// Lines from standard input.
class LineReader {
 public:
  enum class Event : std::uint8_t {
    kLine,       // a line; pasted text may have line breaks
    kDiscarded,  // Ctrl-C discarded a nonempty line
    kInterrupt,  // Ctrl-C on an empty line
    kEnd,        // end of the input: Ctrl-D on a terminal
    kTooLong,    // a line of more than kMaxBytes was discarded
  };
  static constexpr std::size_t kMaxBytes = std::size_t{16} << 20;
  virtual ~LineReader() = default;
  /// Prints `prompt` and reads a line, without its line break.
  virtual Event read(const std::string& prompt, std::string& line) = 0;
  /// Adds a line to the history.
  virtual void remember(const std::string&) {}
};

/// Returns a reader without line editing. `interrupts` is nullptr if the input is not a terminal;
/// then prompts are not printed and Ctrl-C ends the program.
std::unique_ptr<LineReader> plain_reader(Interrupts* interrupts);
/// Returns a reader with line editing and history; the plain reader if llmc was built without
/// libedit or the terminal has no cursor movement.
std::unique_ptr<LineReader> line_editor(Interrupts& interrupts);

}  // namespace llmc::cli
