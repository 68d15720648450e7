#include "runtime/hosted/grammar/json_text.h"

#include <algorithm>

namespace llmc::hosted::grammar {
namespace {

/// \uXXXX of first .. last, all in the basic plane: digits of either case. `digits` are still to be
/// written, the low 4 * digits bits.
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
    std::vector<Expr> one;
    one.push_back(digit(from, to));
    one.push_back(std::move(tail));
    parts.push_back(sequence(std::move(one)));
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

Expr with_prefix(std::string prefix, Expr rest) {
  std::vector<Expr> parts;
  parts.push_back(text(std::move(prefix)));
  parts.push_back(std::move(rest));
  return sequence(std::move(parts));
}

/// \uD8xx\uDCxx of first .. last above the basic plane.
void add_pairs(std::uint32_t first, std::uint32_t last, std::vector<Expr>& parts) {
  const auto high = [](std::uint32_t c) { return 0xD800 + ((c - 0x10000) >> 10); };
  const auto low = [](std::uint32_t c) { return 0xDC00 + ((c - 0x10000) & 0x3FF); };
  const auto add = [&](std::uint32_t h1, std::uint32_t h2, std::uint32_t l1, std::uint32_t l2) {
    std::vector<Expr> pair;
    pair.push_back(text("\\u"));
    pair.push_back(hex_range(h1, h2, 4));
    pair.push_back(text("\\u"));
    pair.push_back(hex_range(l1, l2, 4));
    parts.push_back(sequence(std::move(pair)));
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
  if (!letters.empty()) parts.push_back(with_prefix("\\", set(std::move(letters))));
  for (const CodePointRange& range : given) {
    if (range.first <= 0xFFFF)
      parts.push_back(with_prefix("\\u", hex_range(range.first, std::min(range.last, 0xFFFFu), 4)));
    if (range.last > 0xFFFF) add_pairs(std::max(range.first, 0x10000u), range.last, parts);
  }
  return choice(std::move(parts));
}

Expr json_string(std::uint32_t least, std::uint32_t most) {
  std::vector<Expr> parts;
  parts.push_back(text("\""));
  parts.push_back(repeat(json_characters(complement({})), least, most));
  parts.push_back(text("\""));
  return sequence(std::move(parts));
}

namespace {

Expr digits(std::uint32_t least, std::uint32_t most) {
  return repeat(set({{'0', '9'}}), least, most);
}

constexpr std::uint32_t kMostDigits = 16;

}  // namespace

Expr json_integer() {
  std::vector<Expr> nonzero;
  nonzero.push_back(set({{'1', '9'}}));
  nonzero.push_back(digits(0, kMostDigits - 1));
  std::vector<Expr> magnitudes;
  magnitudes.push_back(text("0"));
  magnitudes.push_back(sequence(std::move(nonzero)));
  std::vector<Expr> parts;
  parts.push_back(optional(text("-")));
  parts.push_back(choice(std::move(magnitudes)));
  return sequence(std::move(parts));
}

Expr json_number() {
  std::vector<Expr> fraction;
  fraction.push_back(text("."));
  fraction.push_back(digits(1, kMostDigits));
  std::vector<Expr> exponent;
  exponent.push_back(set({{'e', 'e'}, {'E', 'E'}}));
  exponent.push_back(optional(set({{'+', '+'}, {'-', '-'}})));
  exponent.push_back(digits(1, 2));
  std::vector<Expr> parts;
  parts.push_back(json_integer());
  parts.push_back(optional(sequence(std::move(fraction))));
  parts.push_back(optional(sequence(std::move(exponent))));
  return sequence(std::move(parts));
}

Expr json_boolean() {
  std::vector<Expr> parts;
  parts.push_back(text("true"));
  parts.push_back(text("false"));
  return choice(std::move(parts));
}

Expr json_gap() {
  return optional(text(" "));
}

Expr json_next(Expr item) {
  std::vector<Expr> parts;
  parts.push_back(text(","));
  parts.push_back(json_gap());
  parts.push_back(std::move(item));
  return sequence(std::move(parts));
}

Expr json_list(Expr item, std::uint32_t least, std::uint32_t most) {
  std::vector<Expr> parts;
  parts.push_back(item);
  parts.push_back(
      repeat(json_next(std::move(item)), least - 1, most == kUnbounded ? most : most - 1));
  return sequence(std::move(parts));
}

Expr json_pair(Expr key, Expr value) {
  std::vector<Expr> parts;
  parts.push_back(std::move(key));
  parts.push_back(text(":"));
  parts.push_back(json_gap());
  parts.push_back(std::move(value));
  return sequence(std::move(parts));
}

Expr json_between(std::string open, Expr inner, std::string close) {
  std::vector<Expr> parts;
  parts.push_back(text(std::move(open)));
  parts.push_back(std::move(inner));
  parts.push_back(text(std::move(close)));
  return sequence(std::move(parts));
}

}  // namespace llmc::hosted::grammar
