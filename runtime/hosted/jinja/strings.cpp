#include "runtime/hosted/jinja/strings.h"

#include <algorithm>

#include "runtime/hosted/tokenizer/utf8.h"

namespace llmc::hosted::jinja {
namespace {

/// Implements Python's str.isspace(): Unicode's whitespace and the four separators U+001C to
/// U+001F.
bool is_space(std::uint32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

std::size_t first_bytes(std::string_view text) {
  return std::max<std::size_t>(decode_utf8(text).bytes, 1);
}
std::size_t last_bytes(std::string_view text) {
  std::size_t n = 1;
  while (n < 4 && n < text.size() && (text[text.size() - n] & 0xC0) == 0x80) ++n;
  return decode_utf8(text.substr(text.size() - n)).bytes == n ? n : 1;
}
bool is_space(std::string_view character) {
  const Utf8Char c = decode_utf8(character);
  return c.bytes > 0 && is_space(c.code_point);
}

/// Returns the size in bytes of the line end at the start of `text`; 0: none. U+0085, U+2028 and
/// U+2029 are also line ends.
std::size_t line_end_bytes(std::string_view text) {
  if (text.starts_with("\r\n")) return 2;
  const char c = text.front();
  if ((c >= '\n' && c <= '\r') || (c >= 0x1C && c <= 0x1E)) return 1;
  if (text.starts_with("\xC2\x85")) return 2;
  return text.starts_with("\xE2\x80\xA8") || text.starts_with("\xE2\x80\xA9") ? 3 : 0;
}

char upper_char(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}
char lower_char(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

std::vector<std::string_view> split_at_blanks(std::string_view text, std::int64_t max_splits) {
  std::vector<std::string_view> parts;
  text = strip(text, std::nullopt, Side::kLeft);
  while (!text.empty()) {
    if (max_splits >= 0 && parts.size() == static_cast<std::size_t>(max_splits)) {
      parts.push_back(text);
      break;
    }
    std::size_t end = 0;
    while (end < text.size() && !is_space(text.substr(end))) end += first_bytes(text.substr(end));
    parts.push_back(text.substr(0, end));
    text = strip(text.substr(end), std::nullopt, Side::kLeft);
  }
  return parts;
}

std::vector<std::string_view> split_at_blanks_from_right(std::string_view text,
                                                         std::int64_t max_splits) {
  std::vector<std::string_view> parts;
  text = strip(text, std::nullopt, Side::kRight);
  while (!text.empty()) {
    if (parts.size() == static_cast<std::size_t>(max_splits)) {
      parts.push_back(text);
      break;
    }
    std::size_t begin = text.size();
    while (begin > 0) {
      const std::size_t n = last_bytes(text.substr(0, begin));
      if (is_space(text.substr(begin - n))) break;
      begin -= n;
    }
    parts.push_back(text.substr(begin));
    text = strip(text.substr(0, begin), std::nullopt, Side::kRight);
  }
  std::ranges::reverse(parts);
  return parts;
}

}  // namespace

std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> result;
  while (!text.empty()) {
    const std::size_t n = first_bytes(text);
    result.push_back(text.substr(0, n));
    text.remove_prefix(n);
  }
  return result;
}

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return (c & 0x80) == 0; });
}

std::string_view strip(std::string_view text, std::optional<std::string_view> chars, Side side) {
  std::vector<std::string_view> wanted =
      chars ? characters(*chars) : std::vector<std::string_view>();
  std::ranges::sort(wanted);
  const auto goes = [&](std::string_view c) {
    return chars ? std::ranges::binary_search(wanted, c) : is_space(c);
  };
  if (side != Side::kRight) {
    while (!text.empty()) {
      const std::size_t n = first_bytes(text);
      if (!goes(text.substr(0, n))) break;
      text.remove_prefix(n);
    }
  }
  if (side != Side::kLeft) {
    while (!text.empty()) {
      const std::size_t n = last_bytes(text);
      if (!goes(text.substr(text.size() - n))) break;
      text.remove_suffix(n);
    }
  }
  return text;
}

bool is_blank(std::string_view text) {
  return strip(text, std::nullopt, Side::kLeft).empty();
}

std::vector<std::string_view> split(std::string_view text,
                                    std::optional<std::string_view> separator,
                                    std::int64_t max_splits, bool from_right) {
  if (!separator)
    return from_right && max_splits >= 0 ? split_at_blanks_from_right(text, max_splits)
                                         : split_at_blanks(text, max_splits);
  std::vector<std::string_view> parts;
  const auto more = [&] {
    return max_splits < 0 || parts.size() < static_cast<std::size_t>(max_splits);
  };
  if (from_right) {
    for (std::size_t at; more() && (at = text.rfind(*separator)) != text.npos;) {
      parts.push_back(text.substr(at + separator->size()));
      text = text.substr(0, at);
    }
    parts.push_back(text);
    std::ranges::reverse(parts);
    return parts;
  }
  for (std::size_t at; more() && (at = text.find(*separator)) != text.npos;) {
    parts.push_back(text.substr(0, at));
    text.remove_prefix(at + separator->size());
  }
  parts.push_back(text);
  return parts;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = line_end_bytes(text.substr(at));
    if (end == 0) {
      ++at;
      continue;
    }
    lines.push_back(text.substr(begin, at - begin + (keep_ends ? end : 0)));
    begin = at += end;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

std::optional<std::string> replace(std::string_view text, std::string_view from,
                                   std::string_view to, std::int64_t max_count, std::size_t limit) {
  std::string result;
  if (from.empty()) {  // insert before every character and after the last one
    for (const std::string_view c : characters(text)) {
      if (max_count-- != 0)
        result += to;
      else
        max_count = 0;
      result += c;
      if (result.size() > limit) return std::nullopt;
    }
    if (max_count != 0) result += to;
    return result;
  }
  for (std::size_t at; max_count != 0 && (at = text.find(from)) != text.npos; --max_count) {
    result += text.substr(0, at);
    result += to;
    if (result.size() > limit) return std::nullopt;
    text.remove_prefix(at + from.size());
  }
  result += text;
  if (result.size() > limit) return std::nullopt;
  return result;
}

std::string upper(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), upper_char);
  return result;
}
std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), lower_char);
  return result;
}
std::string capitalize(std::string_view text) {
  std::string result = lower(text);
  if (!result.empty()) result[0] = upper_char(result[0]);
  return result;
}
std::string title_words(std::string_view text) {
  std::string result = lower(text);
  for (std::size_t i = 0; i < result.size(); ++i)
    if (i == 0 ||
        std::string_view("-({[< \t\n\r\v\f").find(result[i - 1]) != std::string_view::npos)
      result[i] = upper_char(result[i]);
  return result;
}
std::string title(std::string_view text) {
  std::string result = lower(text);
  for (std::size_t i = 0; i < result.size(); ++i)
    if (i == 0 || !is_letter(result[i - 1])) result[i] = upper_char(result[i]);
  return result;
}

}  // namespace llmc::hosted::jinja
