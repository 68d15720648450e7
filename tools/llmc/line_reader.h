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
    kLine,       // may hold line breaks: those of pasted text
    kDiscarded,  // Ctrl-C took back a line that was begun
    kInterrupt,  // Ctrl-C where no line was known to be begun
    kEnd,        // of the input: Ctrl-D on a terminal
    kTooLong,    // a line of more than kMaxBytes, which is gone
  };
  static constexpr std::size_t kMaxBytes = std::size_t{16} << 20;
  virtual ~LineReader() = default;
  /// Shows `prompt` and reads a line, without its end.
  virtual Event read(const std::string& prompt, std::string& line) = 0;
  /// Keeps a line to be fetched back with the arrow keys.
  virtual void remember(const std::string&) {}
};

/// Lines as they come. `interrupts`: of a terminal; nullptr: the input is none, prompts are not
/// shown and Ctrl-C ends the program as usual.
std::unique_ptr<LineReader> plain_reader(Interrupts* interrupts);
/// Lines of a terminal that can be edited, with a history; the plain reader where llmc was built
/// without libedit or the terminal cannot move its cursor.
std::unique_ptr<LineReader> line_editor(Interrupts& interrupts);

}  // namespace llmc::cli
