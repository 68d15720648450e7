#include "runtime/hosted/grammar/json_text.h"

#include <algorithm>

namespace llmc::hosted::grammar {
namespace {

constexpr std::uint32_t kMaxDigits = 16;

/// Returns the last `digits` hexadecimal digits, in upper or lower case, of the numbers first ..
/// last, whose higher digits are equal.
Expr hex_range(std::uint32_t first, std::uint32_t last, int digits) {
  const auto digit = [](std::uint32_t from, std::uint32_t to) {
    CodePointSet members;
    for (std::uint32_t d = from; d <= to; ++d) {
      const std::uint32_t lower = d < 10 ? '0' + d : 'a' + d - 10;
      members.push_back({lower, lower});
      if (d >= 10) members.push_back({lower - 32, lower - 32});
    }
    return set(std::move(members));
  };
  if (digits == 1) return digit(first, last);
  const int shift = 4 * (digits - 1);
  const std::uint32_t rest = (1u << shift) - 1;
  const std::uint32_t high_first = first >> shift, high_last = last >> shift;
  std::vector<Expr> parts;
  const auto add = [&](std::uint32_t from, std::uint32_t to, Expr tail) {
    parts.push_back(sequence(digit(from, to), std::move(tail)));
  };
  if (high_first == high_last) {
    add(high_first, high_first, hex_range(first & rest, last & rest, digits - 1));
    return choice(std::move(parts));
  }
  std::uint32_t from = high_first, to = high_last;
  if ((first & rest) != 0) add(from++, high_first, hex_range(first & rest, rest, digits - 1));
  if ((last & rest) != rest) add(to--, high_last, hex_range(0, last & rest, digits - 1));
  if (from <= to) add(from, to, hex_range(0, rest, digits - 1));
  return choice(std::move(parts));
}

/// Appends the surrogate pairs \uD8xx\uDCxx of the characters first .. last, all above U+FFFF.
void add_pairs(std::uint32_t first, std::uint32_t last, std::vector<Expr>& parts) {
  const auto high = [](std::uint32_t c) { return 0xD800 + ((c - 0x10000) >> 10); };
  const auto low = [](std::uint32_t c) { return 0xDC00 + ((c - 0x10000) & 0x3FF); };
  const auto add = [&](std::uint32_t h1, std::uint32_t h2, std::uint32_t l1, std::uint32_t l2) {
    parts.push_back(sequence(text("\\u"), hex_range(h1, h2, 4), text("\\u"), hex_range(l1, l2, 4)));
  };
  std::uint32_t h1 = high(first), h2 = high(last);
  if (h1 == h2) return add(h1, h1, low(first), low(last));
  if (low(first) != 0xDC00) {
    add(h1, h1, low(first), 0xDFFF);
    ++h1;
  }
  if (low(last) != 0xDFFF) {
    add(h2, h2, 0xDC00, low(last));
    --h2;
  }
  if (h1 <= h2) add(h1, h2, 0xDC00, 0xDFFF);
}

}  // namespace

Expr json_characters(const CodePointSet& given) {
  std::vector<Expr> parts;
  const CodePointSet quoted = {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
  const CodePointSet plain = intersection(given, complement(quoted));
  if (!plain.empty()) parts.push_back(set(plain));
  constexpr std::string_view kShort = "\"\\/bfnrt", kMeaning = "\"\\/\b\f\n\r\t";
  CodePointSet letters;
  for (std::size_t i = 0; i < kShort.size(); ++i) {
    const auto meaning = static_cast<std::uint32_t>(kMeaning[i]);
    if (intersection(given, {{meaning, meaning}}).empty()) continue;
    const auto letter = static_cast<std::uint32_t>(kShort[i]);
    letters.push_back({letter, letter});
  }
  if (!letters.empty()) parts.push_back(sequence(text("\\"), set(std::move(letters))));
  for (const CodePointRange& range : given) {
    if (range.first <= 0xFFFF)
      parts.push_back(
          sequence(text("\\u"), hex_range(range.first, std::min(range.last, 0xFFFFu), 4)));
    if (range.last > 0xFFFF) add_pairs(std::max(range.first, 0x10000u), range.last, parts);
  }
  return choice(std::move(parts));
}

Expr json_string(std::uint32_t min_count, std::uint32_t max_count) {
  return json_enclosed("\"", repeat(json_characters(complement({})), min_count, max_count), "\"");
}

Expr json_integer() {
  Expr nonzero = sequence(set({{'1', '9'}}), digits(0, kMaxDigits - 1));
  return sequence(optional(text("-")), choice(text("0"), std::move(nonzero)));
}

Expr json_number() {
  Expr fraction = sequence(text("."), digits(1, kMaxDigits));
  Expr exponent = sequence(set({{'e', 'e'}, {'E', 'E'}}), optional(set({{'+', '+'}, {'-', '-'}})),
                           digits(1, 2));
  return sequence(json_integer(), optional(std::move(fraction)), optional(std::move(exponent)));
}

Expr json_boolean() {
  return choice(text("true"), text("false"));
}

Expr json_optional_space() {
  return optional(text(" "));
}

Expr json_next_item(Expr item) {
  return sequence(text(","), json_optional_space(), std::move(item));
}

Expr json_list(Expr item, std::uint32_t min_count, std::uint32_t max_count) {
  Expr first = item;
  return sequence(std::move(first), repeat(json_next_item(std::move(item)), min_count - 1,
                                           max_count == kUnbounded ? max_count : max_count - 1));
}

Expr json_pair(Expr key, Expr value) {
  return sequence(std::move(key), text(":"), json_optional_space(), std::move(value));
}

Expr json_enclosed(std::string open, Expr inner, std::string close) {
  return sequence(text(std::move(open)), std::move(inner), text(std::move(close)));
}

}  // namespace llmc::hosted::grammar
