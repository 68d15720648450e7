#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace llmc {

/// Kind of a failure; its value is the exit code of the command line (docs/cli.md).
enum class ErrorKind {
  kInternal = 1,
  kUsage = 2,
  kBadInput = 3,
  kUnsupported = 4,
  kOverBudget = 5,
  kToolchain = 6,
  kMismatch = 7,
};

/// An error that a user can cause: where it occurred (file, node, operator, if known), what is
/// wrong, and what to do.
struct Diagnostic {
  ErrorKind kind = ErrorKind::kBadInput;
  std::string file = {};  // path or file name; empty if no file is involved
  std::string node = {};  // ONNX node or tensor name, as the model spells it (untrusted text)
  std::string op = {};    // ONNX operator type (untrusted text)
  /// One sentence without a full stop. Lines of quoted output may follow, each after "\n  ".
  std::string message = {};
  std::string hint = {};  // what to do about it; may be empty
};

/// Returns a Diagnostic without a file.
Diagnostic failure(ErrorKind kind, std::string message, std::string hint = {});

/// Returns a Diagnostic about `file`, a path or the name of a file.
Diagnostic file_failure(ErrorKind kind, std::string file, std::string message,
                        std::string hint = {});

/// Returns a Diagnostic for a mistake on the command line: kUsage, without a file.
Diagnostic usage_error(std::string message, std::string hint);

inline int exit_code(ErrorKind kind) {
  return static_cast<int>(kind);
}

/// Returns "llmc: error: block_3.onnx: node '/attn/…' (op X): message" and, if there is a hint, a
/// last line "hint: …". All parts are escaped and truncated as by printable(), except that a
/// message keeps line breaks that are followed by two blanks.
std::string format(const Diagnostic& diagnostic);

/// Returns text from a model in a form that is safe for a terminal and fits on one line. Control
/// characters, characters that rearrange text (printable_utf8_length()) and invalid UTF-8 become
/// \xNN. An ellipsis replaces the part that would make the result longer than `max_bytes` bytes.
std::string printable(std::string_view text, std::size_t max_bytes = 200);

}  // namespace llmc
