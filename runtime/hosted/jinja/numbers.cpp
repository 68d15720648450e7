// Converts strings to numbers like Python's int() and float().
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "runtime/hosted/jinja/strings.h"
#include "runtime/hosted/jinja/value.h"
#include "runtime/hosted/tokenizer/unicode.h"
#include "runtime/hosted/tokenizer/utf8.h"

namespace llmc::hosted::jinja {
namespace {

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'z') return c - 'a' + 10;
  if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
  return 99;
}

/// Returns the digits without the underscores between digits; nullopt if an underscore is
/// elsewhere.
std::optional<std::string> without_underscores(std::string_view text, std::int64_t base) {
  const auto is_digit = [&](char c) { return digit_of(c) < base; };
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      result += text[i];
    } else if (i == 0 || i + 1 == text.size() || !is_digit(text[i - 1]) || !is_digit(text[i + 1])) {
      return std::nullopt;
    }
  }
  return result;
}

bool take_sign(std::string_view& text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  return negative;
}

[[noreturn]] void too_large() {
  throw TemplateError("a whole number becomes too large");
}

std::optional<std::int64_t> whole_of_base(std::string_view text, std::int64_t base) {
  if (base != 0 && (base < 2 || base > 36)) return std::nullopt;
  const bool negative = take_sign(text);
  constexpr std::pair<char, std::int64_t> kPrefixes[] = {{'x', 16}, {'o', 8}, {'b', 2}};
  bool prefixed = false;
  for (const auto& [letter, of] : kPrefixes) {
    if (text.size() < 3 || text[0] != '0' || (text[1] | 0x20) != letter) continue;
    if (base != 0 && base != of) continue;
    prefixed = true;
    base = of;
    text.remove_prefix(text[2] == '_' ? 3 : 2);
    break;
  }
  const auto digits = without_underscores(text, base == 0 ? 10 : base);
  if (!digits || digits->empty()) return std::nullopt;
  if (base == 0) {  // as in Python's source code, where 007 is invalid
    if (!prefixed && (*digits)[0] == '0' && digits->find_first_not_of('0') != digits->npos)
      return std::nullopt;
    base = 10;
  }
  std::int64_t value = 0;
  bool overflow = false;
  for (const char c : *digits) {
    const int digit = digit_of(c);
    if (digit >= base) return std::nullopt;
    overflow |= __builtin_mul_overflow(value, base, &value);
    overflow |= negative ? __builtin_sub_overflow(value, std::int64_t{digit}, &value)
                         : __builtin_add_overflow(value, std::int64_t{digit}, &value);
  }
  if (overflow) too_large();
  return value;
}

/// Returns whether a number outside the range of a double is too small, not too large. This depends
/// on the power of ten of its first nonzero digit, not on the exponent alone (example: 1 after 400
/// zeros).
bool is_tiny(std::string_view number) {
  const std::size_t e = std::min(number.find_first_of("eE"), number.size());
  const std::string_view digits = number.substr(0, e);
  const std::size_t first = digits.find_first_not_of("0.");
  if (first == digits.npos) return true;
  const std::size_t point = std::min(digits.find('.'), digits.size());
  std::int64_t exponent = 0;
  if (e < number.size()) {
    std::string_view written = number.substr(e + 1);
    const bool negative = take_sign(written);
    const auto [end, error] =
        std::from_chars(written.data(), written.data() + written.size(), exponent);
    // Such an exponent is larger than the number of digits of any text.
    if (error != std::errc{} || exponent > INT64_MAX / 2) return negative;
    if (negative) exponent = -exponent;
  }
  return exponent + static_cast<std::int64_t>(point) < static_cast<std::int64_t>(first);
}

/// Returns float(text); nullopt for nan and infinities.
std::optional<double> finite(std::string_view text) {
  const bool negative = take_sign(text);
  const auto plain = without_underscores(text, 10);
  if (!plain || plain->empty() || !(digit_of((*plain)[0]) < 10 || (*plain)[0] == '.'))
    return std::nullopt;
  double value = 0;
  const char* const end = plain->data() + plain->size();
  const auto [stopped, error] = std::from_chars(plain->data(), end, value);
  if (stopped != end || error == std::errc::invalid_argument) return std::nullopt;
  // A number that is too small is 0. A number that is too large is infinite, which is not an
  // integer.
  if (error == std::errc::result_out_of_range)
    return is_tiny(*plain) ? std::optional(0.0) : std::nullopt;
  return negative ? -value : value;
}

}  // namespace

std::optional<std::int64_t> whole_number(std::string_view text, std::int64_t base) {
  text = strip(text, std::nullopt, Side::kBoth);
  if (!is_ascii(text)) {
    for (const std::string_view c : characters(text))
      if (category_of(decode_utf8(c).code_point) == Category::kNd && !is_ascii(c))
        throw TemplateError("int of digits that are not ASCII is not supported");
    return std::nullopt;
  }
  if (const auto whole = whole_of_base(text, base)) return whole;
  const auto number = finite(text);
  if (!number) return std::nullopt;
  if (!(std::fabs(*number) < 9223372036854775808.0)) too_large();
  return static_cast<std::int64_t>(*number);
}

}  // namespace llmc::hosted::jinja
