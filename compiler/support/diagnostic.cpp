#include "compiler/support/diagnostic.h"

#include <algorithm>

#include "compiler/support/utf8.h"

namespace llmc {

std::string printable(std::string_view text, std::size_t max_bytes) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = printable_utf8_length(text);
    if (out.size() + (length ? length : 4) > max_bytes) {
      out += "…";
      break;
    }
    if (length) {
      out += text.substr(0, length);
    } else {
      append_hex_escape(out, static_cast<unsigned char>(text.front()));
    }
    text.remove_prefix(length ? length : 1);
  }
  return out;
}

namespace {

/// Escapes a message line by line and truncates each line after `max_bytes` bytes. Keeps only line
/// breaks that are followed by two blanks, as in quoted compiler output, and escapes the others, so
/// that no line looks like a message of llmc itself.
std::string message_lines(std::string_view message, std::size_t max_bytes) {
  constexpr std::string_view kBreak = "\n  ";
  std::string out;
  for (;;) {
    const std::size_t end = std::min(message.find(kBreak), message.size());
    out += printable(message.substr(0, end), max_bytes);
    if (end == message.size()) return out;
    out += kBreak;
    message.remove_prefix(end + kBreak.size());
  }
}

}  // namespace

Diagnostic failure(ErrorKind kind, std::string message, std::string hint) {
  return Diagnostic{.kind = kind, .message = std::move(message), .hint = std::move(hint)};
}

Diagnostic file_failure(ErrorKind kind, std::string file, std::string message, std::string hint) {
  Diagnostic d = failure(kind, std::move(message), std::move(hint));
  d.file = std::move(file);
  return d;
}

Diagnostic usage_error(std::string message, std::string hint) {
  return failure(ErrorKind::kUsage, std::move(message), std::move(hint));
}

std::string format(const Diagnostic& diagnostic) {
  // Messages may quote text from the model, so they are escaped as well, with a higher length limit
  // than names.
  constexpr std::size_t kMessageBytes = 4000;
  std::string out = "llmc: error: ";
  if (!diagnostic.file.empty()) out += printable(diagnostic.file, 1000) + ": ";
  if (!diagnostic.node.empty()) out += "node '" + printable(diagnostic.node) + "'";
  if (!diagnostic.op.empty())
    out += (diagnostic.node.empty() ? "op " : " (op ") + printable(diagnostic.op) +
           (diagnostic.node.empty() ? "" : ")");
  if (!diagnostic.node.empty() || !diagnostic.op.empty()) out += ": ";
  out += message_lines(diagnostic.message, kMessageBytes);
  if (!diagnostic.hint.empty()) out += "\nhint: " + printable(diagnostic.hint, kMessageBytes);
  return out;
}

}  // namespace llmc
