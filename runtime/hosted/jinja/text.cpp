// Converts values to text, like Python's str(), repr() and json.dumps().
#include <algorithm>
#include <charconv>
#include <cmath>

#include "runtime/hosted/jinja/strings.h"
#include "runtime/hosted/jinja/value.h"
#include "runtime/hosted/tokenizer/utf8.h"

namespace llmc::hosted::jinja {
namespace {

constexpr char kHex[] = "0123456789abcdef";

std::string python_string(std::string_view text) {
  const bool single = text.find('\'') == text.npos || text.find('"') != text.npos;
  const char quote = single ? '\'' : '"';
  std::string result(1, quote);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == quote || c == '\\') {
      result += '\\';
      result += c;
    } else if (c == '\n' || c == '\r' || c == '\t') {
      result += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    } else if (byte < 0x20 || byte == 0x7F) {
      result += std::string("\\x") + kHex[byte >> 4] + kHex[byte & 15];
    } else {
      result += c;
    }
  }
  return result + quote;
}

std::string hex4(std::uint32_t unit) {
  std::string result = "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) result += kHex[unit >> shift & 15];
  return result;
}

/// Returns a character outside ASCII as UTF-16 escapes, like json.dumps(ensure_ascii=True).
std::string escaped(std::uint32_t point) {
  if (point < 0x10000) return hex4(point);
  return hex4(0xD800 + ((point - 0x10000) >> 10)) + hex4(0xDC00 + ((point - 0x10000) & 0x3FF));
}

std::string json_string(std::string_view text, bool ascii) {
  std::string result = "\"";
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const auto byte = static_cast<unsigned char>(c);
    if (ascii && byte >= 0x80) {
      if (const Utf8Char decoded = decode_utf8(text.substr(i)); decoded.bytes > 0) {
        result += escaped(decoded.code_point);
        i += decoded.bytes - 1;
        continue;
      }
    }
    switch (c) {
      case '"':
        result += "\\\"";
        break;
      case '\\':
        result += "\\\\";
        break;
      case '\n':
        result += "\\n";
        break;
      case '\r':
        result += "\\r";
        break;
      case '\t':
        result += "\\t";
        break;
      case '\b':
        result += "\\b";
        break;
      case '\f':
        result += "\\f";
        break;
      default:
        if (byte < 0x20 || (ascii && byte >= 0x7F))
          result += hex4(byte);
        else
          result += c;
    }
  }
  return result + "\"";
}

/// Writes nested values. Their depth was limited when they were created.
class Writer {
 public:
  /// `style`: the style of JSON; nullptr: write like Python's repr().
  Writer(const JsonStyle* style, Budget& budget)
      : json_(style != nullptr), style_(json_ ? *style : JsonStyle{}), budget_(budget) {}

  void write(const Value& value) {
    const std::size_t before = out_.size();
    // Because a list can share parts, a small template can create a list of any length.
    budget_.spend(2);
    if (const List* list = value.list()) {
      write_items(*list);
    } else if (const Dict* dict = value.dict()) {
      write_items(*dict);
    } else {
      write_scalar(value);
      budget_.spend(out_.size() - before + 1);
    }
  }
  std::string take() { return std::move(out_); }

 private:
  void write_scalar(const Value& value) {
    if (const std::string* text = value.string()) {
      out_ += json_ ? json_string(*text, style_.ascii) : python_string(*text);
    } else if (const bool* flag = value.as<bool>()) {
      out_ += json_ ? (*flag ? "true" : "false") : (*flag ? "True" : "False");
    } else if (const auto* integer = value.as<std::int64_t>()) {
      out_ += std::to_string(*integer);
    } else if (const double* number = value.as<double>()) {
      out_ += json_ && !std::isfinite(*number) ? (std::isnan(*number) ? "NaN"
                                                  : *number > 0       ? "Infinity"
                                                                      : "-Infinity")
                                               : float_text(*number);
    } else if (value.as<None>() != nullptr) {
      out_ += json_ ? "null" : "None";
    } else if (value.is_undefined() && !json_) {
      out_ += "Undefined";
    } else {
      throw TemplateError(describe(value) +
                          (json_ ? " cannot be written as JSON" : " cannot be written as text"));
    }
  }

  template <class Container>
  void write_items(const Container& container) {
    constexpr bool kDict = std::is_same_v<Container, Dict>;
    std::string_view brackets = kDict ? "{}" : "[]";
    if constexpr (!kDict) {
      if (container.tuple && !json_) brackets = "()";
    }
    if (container.items.empty()) {
      out_ += brackets;
      return;
    }
    out_ += brackets[0];
    ++level_;
    bool first = true;
    for (const auto& item : in_order(container)) {
      if (!first) out_ += style_.between;
      budget_.spend(style_.between.size() + style_.after_key.size());
      first = false;
      new_line();
      if constexpr (kDict) {
        out_ += json_ ? json_string(item.first, style_.ascii) : python_string(item.first);
        out_ += style_.after_key;
        budget_.spend(item.first.size());
        write(item.second);
      } else {
        write(item);
      }
    }
    --level_;
    new_line();
    if (brackets[0] == '(' && container.items.size() == 1) out_ += ',';
    out_ += brackets[1];
  }

  /// Returns the items, sorted by their keys if requested.
  template <class Container>
  auto in_order(const Container& container) {
    auto items = container.items;
    if constexpr (std::is_same_v<Container, Dict>) {
      budget_.spend(items.size() * Budget::kNode);
      if (style_.sorted)
        std::ranges::sort(items, {}, [](const auto& item) { return std::string_view(item.first); });
    }
    return items;
  }

  void new_line() {
    if (!style_.indent) return;
    budget_.spend(style_.indent->size() * level_ + 1);
    out_ += '\n';
    for (std::size_t i = 0; i < level_; ++i) out_ += *style_.indent;
  }

  const bool json_;
  const JsonStyle style_;
  std::size_t level_ = 0;
  Budget& budget_;
  std::string out_;
};

}  // namespace

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[64];
  // Like Python, use an exponent below 1e-4 and from 1e16, and the shortest digits that identify
  // the number.
  const double size = std::fabs(value);
  const bool fixed = size == 0 || (size >= 1e-4 && size < 1e16);
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value,
                                 fixed ? std::chars_format::fixed : std::chars_format::scientific);
  std::string text(buffer, end.ptr);
  if (fixed && text.find('.') == text.npos) text += ".0";
  return text;
}

std::string to_text(const Value& value, Budget& budget) {
  budget.spend(1);
  if (const std::string* text = value.string()) return budget.spend(text->size()), *text;
  if (value.is_undefined()) return {};
  Writer writer(nullptr, budget);
  writer.write(value);
  return writer.take();
}

std::string to_json(const Value& value, const JsonStyle& style, Budget& budget) {
  Writer writer(&style, budget);
  writer.write(value);
  return writer.take();
}

}  // namespace llmc::hosted::jinja
