#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/hosted/grammar/grammar.h"
#include "runtime/hosted/grammar/json_document.h"

/// Ranges of numbers as expressions over decimal digits.
namespace llmc::hosted::grammar {

/// A bound of a schema as an exact decimal value: that of the number's shortest decimal text.
struct DecimalBound {
  bool negative = false;
  bool exclusive = false;
  std::string whole = "0";  // digits without leading zeros
  std::string fraction;     // digits without trailing zeros
};

/// nullopt: unbounded on that side.
struct NumberBounds {
  std::optional<DecimalBound> lower, upper;
};

/// Converts a JSON number.
DecimalBound decimal_bound(const Json& number, bool exclusive);
/// Returns the stricter of two lower bounds.
DecimalBound larger_bound(const DecimalBound& a, const DecimalBound& b);
/// Returns the stricter of two upper bounds.
DecimalBound smaller_bound(const DecimalBound& a, const DecimalBound& b);
/// Whether no real number satisfies both bounds.
bool are_contradictory(const NumberBounds& bounds);

/// Why there is no expression.
enum class RangeProblem : std::uint8_t {
  kNone,
  kEmpty,    // no number of this kind satisfies the bounds
  kTooWide,  // a bound has more digits than are supported
};
struct NumberRange {
  RangeProblem problem = RangeProblem::kNone;
  Expr expr;
};

/// Returns the integers within the bounds, without exponent, fraction or -0. On an unbounded side
/// they have up to 16 digits, or 18 if the other bound has at least 16. A bound of more than 18
/// digits is ignored where it restricts nothing, else kTooWide.
NumberRange integers_between(const NumberBounds& bounds);
/// Returns the decimals within the bounds, without exponent. If a bound has up to D digits before
/// the point, fractions have up to 15 - D digits: different decimals are then different doubles. At
/// most 15 digits precede the point.
NumberRange decimals_between(const NumberBounds& bounds);
/// Returns first .. last, each padded with zeros to `width` digits.
Expr fixed_width_between(std::uint64_t first, std::uint64_t last, std::uint32_t width);

}  // namespace llmc::hosted::grammar
