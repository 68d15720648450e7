#include "tools/llmc/piece_table.h"

#include <fmt/format.h>

#include <cstdint>
#include <iterator>

namespace llmc::cli {
namespace {

/// Returns the number of leading spaces that are dropped; INT32_MAX: all.
int spaces_dropped(hosted::Tokenizer::LeadingSpaces rule) {
  switch (rule) {
    case hosted::Tokenizer::LeadingSpaces::kKept:
      return 0;
    case hosted::Tokenizer::LeadingSpaces::kOneDropped:
    case hosted::Tokenizer::LeadingSpaces::kOneSpaceDropped:
      return 1;
    case hosted::Tokenizer::LeadingSpaces::kAllDropped:
    case hosted::Tokenizer::LeadingSpaces::kFirstTokenDropped:
      break;
  }
  return INT32_MAX;
}

/// Appends bytes as part of a C string literal. Escapes have three octal digits, so that a digit
/// after them is not part of the escape. '?' is escaped because it could begin a trigraph.
void append_escaped(std::string& text, std::string_view bytes) {
  for (const char c : bytes) {
    const bool plain = c >= ' ' && c <= '~' && c != '"' && c != '\\' && c != '?';
    if (plain) {
      text += c;
    } else {
      fmt::format_to(std::back_inserter(text), "\\{:03o}", static_cast<unsigned char>(c));
    }
  }
}

}  // namespace

std::string c_table(const hosted::Tokenizer& tokenizer) {
  const auto count = static_cast<std::int32_t>(tokenizer.size());
  std::string starts, lines;
  std::size_t at = 0;
  for (std::int32_t id = 0; id < count; ++id) {
    const std::string_view bytes = tokenizer.bytes_of(id);
    starts += fmt::format("{}{},", id % 12 == 0 ? "\n  " : " ", at);
    lines += "\n  \"";
    append_escaped(lines, bytes);
    lines += '"';
    at += bytes.size();
  }
  return fmt::format(
      "/* Text of token id i: piece_text[piece_start[i]] up to, but excluding,\n"
      "   piece_text[piece_start[i + 1]]. Written by llmc. */\n"
      "#include <stdint.h>\n\n"
      "#define PIECE_COUNT {0}\n"
      "/* Number of spaces to drop at the start of a text. */\n"
      "#define PIECE_LEADING_SPACES_DROPPED {1}\n\n"
      "static const uint32_t piece_start[PIECE_COUNT + 1] = {{{2} {3}}};\n\n"
      "static const char piece_text[] ={4};\n",
      count, spaces_dropped(tokenizer.leading_spaces()), starts, at, count == 0 ? " \"\"" : lines);
}

}  // namespace llmc::cli
