#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/hosted/grammar/grammar.h"
#include "runtime/hosted/grammar/json_document.h"

/// Numbers between two bounds, as expressions over their decimal digits.
namespace llmc::hosted::grammar {

/// A bound of a schema as its exact decimal value, read from the shortest decimal text of the
/// number.
struct DecimalBound {
  bool negative = false;
  bool exclusive = false;
  std::string whole = "0";  // digits, without leading zeros
  std::string fraction;     // digits, without trailing zeros
};

/// Either may be absent.
struct NumberBounds {
  std::optional<DecimalBound> lower, upper;
};

/// The bound that a JSON number is.
DecimalBound decimal_bound(const Json& number, bool exclusive);
/// The stricter of two lower bounds.
DecimalBound larger_bound(const DecimalBound& a, const DecimalBound& b);
/// The stricter of two upper bounds.
DecimalBound smaller_bound(const DecimalBound& a, const DecimalBound& b);
/// Whether no number is between the bounds.
bool are_contradictory(const NumberBounds& bounds);

/// Why no expression was made.
enum class RangeProblem : std::uint8_t {
  kNone,
  kEmpty,    // no number of this kind is between the bounds
  kTooWide,  // a bound has more digits than the expression can tell apart
};
struct NumberRange {
  RangeProblem problem = RangeProblem::kNone;
  Expr expr;
};

/// Integers between the bounds: no exponent, no fraction, no -0. A side without a bound has up to
/// 16 digits, or 18 where the other bound has as many; bounds beyond 18 digits restrict nothing on
/// their own side and are kTooWide on the other.
NumberRange integers_between(const NumberBounds& bounds);
/// Numbers between the bounds without exponent, with fractions of as many digits as leave 15
/// significant ones at the bounds: those differ as doubles, too. Up to 15 digits before the point.
NumberRange decimals_between(const NumberBounds& bounds);
/// The numbers first .. last with `width` digits each, leading zeros included.
Expr fixed_width_between(std::uint64_t first, std::uint64_t last, std::uint32_t width);

}  // namespace llmc::hosted::grammar
