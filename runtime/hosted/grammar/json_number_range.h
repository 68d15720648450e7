#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/hosted/grammar/grammar.h"
#include "runtime/hosted/grammar/json_document.h"

/// Converts ranges of numbers to expressions over decimal digits.
namespace llmc::hosted::grammar {

/// A bound in a schema as an exact decimal value: the number's shortest decimal text.
struct DecimalBound {
  bool negative = false;
  bool exclusive = false;
  std::string whole = "0";  // digits without leading zeros
  std::string fraction;     // digits without trailing zeros
};

/// The bounds of a number; nullopt: no bound on that side.
struct NumberBounds {
  std::optional<DecimalBound> lower, upper;
};

/// Converts a JSON number.
DecimalBound decimal_bound(const Json& number, bool exclusive);
/// Returns the stricter of two lower bounds.
DecimalBound larger_bound(const DecimalBound& a, const DecimalBound& b);
/// Returns the stricter of two upper bounds.
DecimalBound smaller_bound(const DecimalBound& a, const DecimalBound& b);
/// Returns whether no real number satisfies both bounds.
bool are_contradictory(const NumberBounds& bounds);

/// The reason why there is no expression.
enum class RangeProblem : std::uint8_t {
  kNone,
  kEmpty,    // no number of this kind satisfies the bounds
  kTooWide,  // a bound has more digits than are supported
};
struct NumberRange {
  RangeProblem problem = RangeProblem::kNone;
  Expr expr;
};

/// Returns the integers within the bounds, without exponent, fraction or -0. Without a bound on one
/// side, they have up to 16 digits, or 18 if the other bound has at least 16. A bound of more than
/// 18 digits is ignored if it excludes none of these integers; otherwise the problem is kTooWide.
NumberRange integers_between(const NumberBounds& bounds);
/// Returns the decimal numbers within the bounds, without exponent. They have at most 15 digits
/// before the point. If the bounds have up to D digits before the point, fractions have up to 15 -
/// D digits, so that different decimals with at most D digits before the point, which include those
/// near the bounds, are different doubles.
NumberRange decimals_between(const NumberBounds& bounds);
/// Returns the integers first .. last, each padded with zeros to `width` digits.
Expr fixed_width_between(std::uint64_t first, std::uint64_t last, std::uint32_t width);

}  // namespace llmc::hosted::grammar
