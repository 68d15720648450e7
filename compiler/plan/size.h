#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

/// Sizes in a plain graph. Some of them are known only at run time.
namespace llmc::plan {

/// Maximum number of elements of a value; larger values are rejected. Arithmetic on sizes within
/// this limit does not overflow.
inline constexpr std::int64_t kMaxElements = std::int64_t{1} << 40;

/// Range of a dim, both ends included; a fixed dim has min == max.
struct DimRange {
  std::int64_t min = 0, max = 0;

  DimRange() = default;
  DimRange(std::int64_t number) : min(number), max(number) {}  // NOLINT: a number is a range
  DimRange(std::int64_t from, std::int64_t to) : min(from), max(to) {}
  bool is_number() const { return min == max; }
  friend bool operator==(const DimRange&, const DimRange&) = default;
};
/// Ranges by symbol name.
using DimRanges = std::map<std::string, DimRange>;

class Size;

/// A dim whose size differs from call to call. The call sets it, or it is a quotient of other
/// sizes, floor(*numerator / divisor). range.min < range.max; range.min is at least 1, or at least
/// 0 for a quotient.
struct OpenDim {
  std::string name;  // the model's symbol, or the formula of a quotient; untrusted text
  DimRange range;
  std::shared_ptr<const Size> numerator = nullptr;  // of a quotient; nullptr: set by the call
  std::int64_t divisor = 1;                         // > 1 for a quotient
};
using OpenDimPtr = std::shared_ptr<const OpenDim>;

/// A polynomial in open dims with integer coefficients; in most cases a constant. Two sizes are
/// equal if they are the same polynomial, so an open dim never equals a constant. A program has
/// exactly one OpenDim object for each open dim. Arithmetic is not checked for overflow: callers
/// limit the sizes that they compute (kMaxElements in nest_lower.h).
class Size {
 public:
  /// Factors of a product of open dims, ordered by name, possibly repeated; not empty.
  using Monomial = std::vector<OpenDimPtr>;
  struct Order {
    bool operator()(const Monomial& a, const Monomial& b) const;
  };
  using Terms = std::map<Monomial, std::int64_t, Order>;  // coefficients are not 0

  Size(std::int64_t number = 0) : number_(number) {}  // NOLINT: a number is a size
  explicit Size(OpenDimPtr dim);

  bool is_constant() const { return terms_ == nullptr; }
  /// Returns the number if there are no open dims.
  std::optional<std::int64_t> constant() const {
    return is_constant() ? std::optional(number_) : std::nullopt;
  }
  /// Returns nullptr for a number.
  const Terms* terms() const { return terms_.get(); }
  /// Return an upper and a lower bound for all values of the open dims. They are exact for
  /// constants, dims and their products, and saturate to the limits of std::int64_t. The lower
  /// bound uses that floor(n / d) is at most n / d and less than 1 below it.
  std::int64_t bound() const { return extreme(true); }
  std::int64_t least() const;
  /// Returns the sum of the absolute values of the terms at the upper bounds of the open dims;
  /// nullopt on overflow. No coefficient has a greater absolute value, so callers can check it
  /// before they add or multiply sizes.
  std::optional<std::int64_t> magnitude() const;
  /// Returns the value for the given sizes of open dims by name, which must include every open dim
  /// that is not a quotient.
  std::int64_t at(const std::map<std::string, std::int64_t>& sizes) const;
  /// Returns, for example, "4 * past * seq - 1"; `name` spells the open dims.
  std::string text(const std::function<std::string(const OpenDim&)>& name) const;
  /// Returns the number of terms; a nonzero constant counts as one.
  std::size_t term_count() const;

  Size& operator+=(const Size& other);
  Size& operator-=(const Size& other) { return *this += other * Size(-1); }
  Size& operator*=(const Size& other) { return *this = *this * other; }
  friend Size operator+(Size a, const Size& b) { return a += b; }
  friend Size operator-(Size a, const Size& b) { return a -= b; }
  friend Size operator*(const Size& a, const Size& b);
  friend bool operator==(const Size& a, const Size& b);
  /// Returns a / b if the division is exact for all values of the open dims, otherwise nullopt.
  friend std::optional<Size> quotient(Size a, const Size& b);

 private:
  std::int64_t extreme(bool largest) const;
  std::optional<std::int64_t> least_without_quotients() const;
  void set_terms(Terms terms);

  std::int64_t number_ = 0;
  std::shared_ptr<const Terms> terms_;  // nullptr: a constant
};

std::optional<Size> quotient(Size a, const Size& b);

/// Returns whether a <= b for all values of the open dims; false if this cannot be proved.
inline bool at_most(const Size& a, const Size& b) {
  return (b - a).least() >= 0;
}

/// Formats a size with the model's names.
std::string to_string(const Size& size);

using Sizes = std::vector<Size>;

/// Returns the product of the dims.
Size product(const Sizes& dims);
bool all_constant(const Sizes& sizes);
/// Returns sizes[begin .. end).
Sizes part(const Sizes& sizes, std::size_t begin, std::size_t end);
/// Returns the upper bounds of the sizes.
std::vector<std::int64_t> bounds(const Sizes& sizes);

}  // namespace llmc::plan
