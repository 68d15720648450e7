#include "runtime/hosted/grammar/json_number_range.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

namespace llmc::hosted::grammar {
namespace {

constexpr std::uint32_t kMaxIntegerDigits = 18;
constexpr std::uint32_t kUsualIntegerDigits = 16;
// Different decimals with this number of digits are different doubles.
constexpr std::uint32_t kExactDigits = 15;

constexpr std::uint64_t power_of_ten(std::uint32_t exponent) {
  std::uint64_t power = 1;
  while (exponent-- > 0) power *= 10;
  return power;
}

std::uint64_t digits_value(std::string_view digits) {
  std::uint64_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

std::string digits_of(std::uint64_t value, std::uint32_t width = 1) {
  std::string digits = std::to_string(value);
  if (digits.size() < width) digits.insert(0, width - digits.size(), '0');
  return digits;
}

Expr digit_between(char first, char last) {
  return set({{static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(last)}});
}

/// Returns the digit strings first .. last, which have the same length.
Expr digits_between(std::string_view first, std::string_view last) {
  if (first.empty()) return text("");
  const auto count = static_cast<std::uint32_t>(first.size() - 1);
  if (first.find_first_not_of('0') == first.npos && last.find_first_not_of('9') == last.npos)
    return digits(count + 1, count + 1);
  if (first[0] == last[0])
    return sequence(text(std::string(1, first[0])),
                    digits_between(first.substr(1), last.substr(1)));
  const std::string zeros(count, '0'), nines(count, '9');
  std::vector<Expr> parts;
  char low = first[0], high = last[0];
  if (first.substr(1) != zeros) {
    parts.push_back(sequence(text(std::string(1, low)), digits_between(first.substr(1), nines)));
    ++low;
  }
  if (last.substr(1) != nines) {
    parts.push_back(sequence(text(std::string(1, high)), digits_between(zeros, last.substr(1))));
    --high;
  }
  if (low <= high) parts.push_back(sequence(digit_between(low, high), digits(count, count)));
  return choice(std::move(parts));
}

/// Returns the integers first .. last without leading zeros.
Expr magnitudes_between(std::uint64_t first, std::uint64_t last) {
  std::vector<Expr> parts;
  for (std::uint64_t from = first; from <= last;) {
    const std::string low = digits_of(from);
    const std::uint64_t end = power_of_ten(static_cast<std::uint32_t>(low.size())) - 1;
    const std::uint64_t to = std::min(end, last);
    parts.push_back(digits_between(low, digits_of(to)));
    from = to + 1;
  }
  return choice(std::move(parts));
}

/// Compares absolute values. Returns a negative number, 0 or a positive number.
int compare_magnitudes(const DecimalBound& a, const DecimalBound& b) {
  if (a.whole.size() != b.whole.size()) return a.whole.size() < b.whole.size() ? -1 : 1;
  if (const int order = a.whole.compare(b.whole); order != 0) return order;
  // No trailing zeros, so the order of the texts is the order of the values.
  return a.fraction.compare(b.fraction);
}
int compare_bounds(const DecimalBound& a, const DecimalBound& b) {
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  return a.negative ? compare_magnitudes(b, a) : compare_magnitudes(a, b);
}

DecimalBound negated(DecimalBound bound) {
  bound.negative = !bound.negative && (bound.whole != "0" || !bound.fraction.empty());
  return bound;
}

/// Returns the smallest integer that satisfies a lower bound of at most 18 digits.
std::int64_t first_integer(const DecimalBound& bound) {
  const auto magnitude = static_cast<std::int64_t>(digits_value(bound.whole));
  if (bound.negative) return -magnitude + (bound.fraction.empty() && bound.exclusive ? 1 : 0);
  return magnitude + (!bound.fraction.empty() || bound.exclusive ? 1 : 0);
}

/// A decimal that is not negative, with a fixed number of fraction digits.
struct Magnitude {
  std::uint64_t whole = 0, fraction = 0;
  auto operator<=>(const Magnitude&) const = default;
};

/// Fractions of up to lowest.size() digits that, padded with zeros on the right, are in lowest ..
/// highest.
struct FractionTail {
  bool may_be_empty = false;
  std::optional<Expr> digits;  // fractions of at least one digit
};
FractionTail fraction_tail(std::string_view lowest, std::string_view highest) {
  const auto count = static_cast<std::uint32_t>(lowest.size());
  FractionTail tail;
  tail.may_be_empty = lowest.find_first_not_of('0') == lowest.npos;
  if (count == 0) return tail;
  if (tail.may_be_empty && highest.find_first_not_of('9') == highest.npos) {
    tail.digits = digits(1, count);
    return tail;
  }
  const std::string zeros(count - 1, '0'), nines(count - 1, '9');
  std::vector<Expr> parts;
  const auto add = [&](char first, char last, std::string_view low, std::string_view high) {
    FractionTail next = fraction_tail(low, high);
    Expr digit = digit_between(first, last);
    if (!next.digits) {
      parts.push_back(std::move(digit));
    } else {
      parts.push_back(sequence(std::move(digit), next.may_be_empty
                                                     ? optional(std::move(*next.digits))
                                                     : std::move(*next.digits)));
    }
  };
  char low = lowest[0], high = highest[0];
  if (low == high) {
    add(low, high, lowest.substr(1), highest.substr(1));
  } else {
    add(low, low, lowest.substr(1), nines);
    add(high, high, zeros, highest.substr(1));
    if (++low <= --high) add(low, high, zeros, nines);
  }
  tail.digits = choice(std::move(parts));
  return tail;
}

/// Returns `whole` with a fraction of up to `digits` digits in lowest .. highest.
Expr with_fraction(Expr whole, std::uint64_t lowest, std::uint64_t highest, std::uint32_t digits) {
  if (digits == 0) return whole;
  FractionTail tail = fraction_tail(digits_of(lowest, digits), digits_of(highest, digits));
  Expr fraction = sequence(text("."), std::move(*tail.digits));
  return sequence(std::move(whole),
                  tail.may_be_empty ? optional(std::move(fraction)) : std::move(fraction));
}

/// Appends the decimals low .. high; does nothing if there are none.
void add_decimals(Magnitude low, Magnitude high, std::uint32_t digits, std::string_view sign,
                  std::vector<Expr>& parts) {
  if (low > high) return;
  const std::uint64_t top = power_of_ten(digits) - 1;
  const auto add = [&](Expr whole, std::uint64_t lowest, std::uint64_t highest) {
    if (!sign.empty()) whole = sequence(text(std::string(sign)), std::move(whole));
    parts.push_back(with_fraction(std::move(whole), lowest, highest, digits));
  };
  if (low.whole == high.whole) return add(text(digits_of(low.whole)), low.fraction, high.fraction);
  if (low.fraction > 0) add(text(digits_of(low.whole++)), low.fraction, top);
  if (high.fraction < top) add(text(digits_of(high.whole--)), 0, high.fraction);
  if (low.whole <= high.whole) add(magnitudes_between(low.whole, high.whole), 0, top);
}

}  // namespace

DecimalBound decimal_bound(const Json& number, bool exclusive) {
  std::string shown = number.dump();
  DecimalBound bound;
  bound.exclusive = exclusive;
  bound.negative = shown.starts_with('-');
  if (bound.negative) shown.erase(0, 1);
  int exponent = 0;
  if (const auto at = shown.find_first_of("eE"); at != shown.npos) {
    const std::size_t digits = at + (shown[at + 1] == '+' ? 2 : 1);
    std::from_chars(shown.data() + digits, shown.data() + shown.size(), exponent);
    shown.erase(at);
  }
  const auto point = shown.find('.');
  bound.whole = shown.substr(0, point);
  bound.fraction = point == shown.npos ? "" : shown.substr(point + 1);
  for (; exponent > 0; --exponent) {  // runs at most 308 times
    bound.whole += bound.fraction.empty() ? '0' : bound.fraction[0];
    if (!bound.fraction.empty()) bound.fraction.erase(0, 1);
  }
  for (; exponent < 0; ++exponent) {
    bound.fraction.insert(bound.fraction.begin(), bound.whole.empty() ? '0' : bound.whole.back());
    if (!bound.whole.empty()) bound.whole.pop_back();
  }
  bound.whole.erase(0, std::min(bound.whole.find_first_not_of('0'), bound.whole.size()));
  if (bound.whole.empty()) bound.whole = "0";
  bound.fraction.erase(bound.fraction.find_last_not_of('0') + 1);
  if (bound.whole == "0" && bound.fraction.empty()) bound.negative = false;
  return bound;
}

DecimalBound larger_bound(const DecimalBound& a, const DecimalBound& b) {
  const int order = compare_bounds(a, b);
  return order > 0 || (order == 0 && a.exclusive) ? a : b;
}
DecimalBound smaller_bound(const DecimalBound& a, const DecimalBound& b) {
  const int order = compare_bounds(a, b);
  return order < 0 || (order == 0 && a.exclusive) ? a : b;
}
bool are_contradictory(const NumberBounds& bounds) {
  if (!bounds.lower || !bounds.upper) return false;
  const int order = compare_bounds(*bounds.lower, *bounds.upper);
  return order > 0 || (order == 0 && (bounds.lower->exclusive || bounds.upper->exclusive));
}

Expr fixed_width_between(std::uint64_t first, std::uint64_t last, std::uint32_t width) {
  return digits_between(digits_of(first, width), digits_of(last, width));
}

NumberRange integers_between(const NumberBounds& bounds) {
  std::optional<DecimalBound> lower = bounds.lower, upper = bounds.upper;
  const auto is_wide = [](const std::optional<DecimalBound>& bound) {
    return bound && bound->whole.size() > kMaxIntegerDigits;
  };
  if (is_wide(lower) && lower->negative) lower.reset();
  if (is_wide(upper) && !upper->negative) upper.reset();
  if (is_wide(lower) || is_wide(upper)) return {RangeProblem::kTooWide, {}};
  const bool wide = is_wide(bounds.lower) || is_wide(bounds.upper) ||
                    (lower && lower->whole.size() >= kUsualIntegerDigits) ||
                    (upper && upper->whole.size() >= kUsualIntegerDigits);
  const auto limit =
      static_cast<std::int64_t>(power_of_ten(wide ? kMaxIntegerDigits : kUsualIntegerDigits) - 1);
  const std::int64_t first = lower ? first_integer(*lower) : -limit;
  const std::int64_t last = upper ? -first_integer(negated(*upper)) : limit;
  if (first > last) return {RangeProblem::kEmpty, {}};
  std::vector<Expr> parts;
  if (last >= 0)
    parts.push_back(magnitudes_between(static_cast<std::uint64_t>(std::max<std::int64_t>(first, 0)),
                                       static_cast<std::uint64_t>(last)));
  if (first < 0)
    parts.push_back(sequence(
        text("-"), magnitudes_between(static_cast<std::uint64_t>(std::max<std::int64_t>(-last, 1)),
                                      static_cast<std::uint64_t>(-first))));
  return {RangeProblem::kNone, choice(std::move(parts))};
}

NumberRange decimals_between(const NumberBounds& bounds) {
  std::optional<DecimalBound> lower = bounds.lower, upper = bounds.upper;
  const auto is_wide = [](const std::optional<DecimalBound>& bound) {
    return bound && bound->whole.size() > kExactDigits;
  };
  if (is_wide(lower) && lower->negative) lower.reset();
  if (is_wide(upper) && !upper->negative) upper.reset();
  if (is_wide(lower) || is_wide(upper)) return {RangeProblem::kTooWide, {}};
  std::size_t before_point = 1;
  for (const auto& bound : {lower, upper})
    if (bound) before_point = std::max(before_point, bound->whole.size());
  const auto digits = static_cast<std::uint32_t>(kExactDigits - before_point);
  for (const auto& bound : {lower, upper})
    if (bound && bound->fraction.size() > digits) return {RangeProblem::kTooWide, {}};

  const std::uint64_t top = power_of_ten(digits) - 1;
  const Magnitude largest{power_of_ten(kExactDigits) - 1, top};
  const auto magnitude = [&](const DecimalBound& bound) {
    std::string fraction = bound.fraction;
    fraction.resize(digits, '0');
    return Magnitude{digits_value(bound.whole), fraction.empty() ? 0 : digits_value(fraction)};
  };
  const auto above = [&](Magnitude m) {
    return m.fraction < top ? Magnitude{m.whole, m.fraction + 1} : Magnitude{m.whole + 1, 0};
  };
  const auto below = [&](Magnitude m) {
    return m.fraction > 0 ? Magnitude{m.whole, m.fraction - 1} : Magnitude{m.whole - 1, top};
  };
  // Appends, with a sign, the numbers within the bounds whose magnitude is above zero or, if `zero`
  // is set, at least zero.
  const auto add_side = [&](const std::optional<DecimalBound>& from,
                            const std::optional<DecimalBound>& to, bool zero, const char* sign,
                            std::vector<Expr>& parts) {
    if (to && (to->negative || (compare_magnitudes(*to, {}) == 0 && (to->exclusive || !zero))))
      return;
    Magnitude low, high = largest;
    if (from && !from->negative) {
      low = magnitude(*from);
      if (from->exclusive) low = above(low);
    }
    if (!zero && low == Magnitude{}) low = above(low);
    if (to) {
      high = magnitude(*to);
      if (to->exclusive) high = below(high);
    }
    add_decimals(low, high, digits, sign, parts);
  };
  std::vector<Expr> parts;
  add_side(lower, upper, true, "", parts);
  const auto mirrored = [](const std::optional<DecimalBound>& bound) {
    return bound ? std::optional(negated(*bound)) : std::nullopt;
  };
  // There is no -0. A lower bound of at least zero excludes negative numbers.
  if (!lower || lower->negative) add_side(mirrored(upper), mirrored(lower), false, "-", parts);
  if (parts.empty()) return {RangeProblem::kEmpty, {}};
  return {RangeProblem::kNone, choice(std::move(parts))};
}

}  // namespace llmc::hosted::grammar
