#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace llmc {

/// What kind of failure, and with it the exit code of the command line (docs/cli.md).
enum class ErrorKind {
  kInternal = 1,
  kUsage = 2,
  kBadInput = 3,
  kUnsupported = 4,
  kOverBudget = 5,
  kToolchain = 6,
  kMismatch = 7,
};

/// An error a user can cause: where (file, node, operator, as far as known), what, and what to do.
struct Diagnostic {
  ErrorKind kind = ErrorKind::kBadInput;
  std::string file = {};     // path or file name; empty when no file is concerned
  std::string node = {};     // ONNX node or tensor name, as the model spells it (untrusted text)
  std::string op = {};       // ONNX operator type (untrusted text)
  std::string message = {};  // one sentence, no full stop
  std::string hint = {};     // what to do about it; may be empty
};

/// A failure that no file is concerned with.
Diagnostic failure(ErrorKind kind, std::string message, std::string hint = {});

/// A mistake on the command line: kUsage, with no file.
Diagnostic usage_error(std::string message, std::string hint);

inline int exit_code(ErrorKind kind) {
  return static_cast<int>(kind);
}

/// "llmc: error: block_3.onnx: node '/attn/…' (op X): message" and, when there is one, a second
/// line "hint: …". Control characters and invalid UTF-8 of untrusted names come out escaped.
std::string format(const Diagnostic& diagnostic);

/// Text from a model made safe for a terminal and for one line: control characters and invalid
/// UTF-8 as \xNN, cut to `max_bytes` with an ellipsis.
std::string printable(std::string_view text, std::size_t max_bytes = 200);

}  // namespace llmc
