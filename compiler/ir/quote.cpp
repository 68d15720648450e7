#include "compiler/ir/quote.h"

#include "compiler/support/utf8.h"

namespace llmc::ir {
namespace {

bool is_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '/';
}
bool is_part(char c) {
  return is_start(c) || (c >= '0' && c <= '9') || c == '.';
}
int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// Returns the length of the bare name at the start of `text`; 0 if there is none.
std::size_t bare_length(std::string_view text) {
  if (text.empty() || !is_start(text.front())) return 0;
  std::size_t length = 0;
  while (length < text.size() && is_part(text[length])) {
    if (text.substr(length, 2) == "//") break;
    ++length;
  }
  return length;
}

}  // namespace

bool is_bare_name(std::string_view name) {
  return !name.empty() && bare_length(name) == name.size();
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const char c = text.front();
    const std::size_t length = printable_utf8_length(text);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (length == 0) {
      append_hex_escape(out, static_cast<unsigned char>(c));
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length ? length : 1);
  }
  return out + "\"";
}

std::string name_text(std::string_view name) {
  return is_bare_name(name) ? std::string(name) : quoted(name);
}

std::optional<std::string> take_quoted(std::string_view& rest) {
  if (rest.empty() || rest.front() != '"') return std::nullopt;
  std::string out;
  for (std::size_t i = 1; i < rest.size(); ++i) {
    const char c = rest[i];
    if (c == '"') {
      rest.remove_prefix(i + 1);
      return out;
    }
    if (c == '\n') return std::nullopt;
    if (c != '\\') {
      out += c;
      continue;
    }
    if (++i >= rest.size()) return std::nullopt;
    switch (rest[i]) {
      case '"':
      case '\\':
        out += rest[i];
        break;
      case 'n':
        out += '\n';
        break;
      case 't':
        out += '\t';
        break;
      case 'x': {
        if (i + 2 >= rest.size()) return std::nullopt;
        const int high = hex_digit(rest[i + 1]), low = hex_digit(rest[i + 2]);
        if (high < 0 || low < 0) return std::nullopt;
        out += static_cast<char>(high * 16 + low);
        i += 2;
        break;
      }
      default:
        return std::nullopt;
    }
  }
  return std::nullopt;
}

std::optional<std::string> take_name(std::string_view& rest) {
  if (!rest.empty() && rest.front() == '"') return take_quoted(rest);
  const std::size_t length = bare_length(rest);
  if (length == 0) return std::nullopt;
  std::string name(rest.substr(0, length));
  rest.remove_prefix(length);
  return name;
}

}  // namespace llmc::ir
