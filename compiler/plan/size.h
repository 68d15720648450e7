#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

/// Sizes of a plain graph, some of which are known at run time only.
namespace llmc::plan {

/// Values of a dim, both ends included; a number is a range of one value.
struct DimRange {
  std::int64_t min = 0, max = 0;

  DimRange() = default;
  DimRange(std::int64_t number) : min(number), max(number) {}  // NOLINT: a number is a range
  DimRange(std::int64_t from, std::int64_t to) : min(from), max(to) {}
  bool is_number() const { return min == max; }
  friend bool operator==(const DimRange&, const DimRange&) = default;
};
/// By the names of symbols.
using DimRanges = std::map<std::string, DimRange>;

/// A dim whose size each call gives. 1 <= range.min < range.max.
struct OpenDim {
  std::string name;  // the model's symbol; untrusted text
  DimRange range;
};
using OpenDimPtr = std::shared_ptr<const OpenDim>;

/// A polynomial with integer coefficients in open dims; almost always a number. Two sizes are equal
/// if they are the same polynomial: an open dim is never taken for a number. One object for each
/// open dim of a program. Callers bound what they compute with (check_sizes of lower_nests.cpp), so
/// that nothing overflows.
class Size {
 public:
  /// Open dims in the order of their names, with repeats; not empty.
  using Monomial = std::vector<OpenDimPtr>;
  struct Order {
    bool operator()(const Monomial& a, const Monomial& b) const;
  };
  using Terms = std::map<Monomial, std::int64_t, Order>;  // no coefficient is 0

  Size(std::int64_t number = 0) : number_(number) {}  // NOLINT: a number is a size
  explicit Size(OpenDimPtr dim);

  bool is_constant() const { return terms_ == nullptr; }
  /// Returns the number if there are no open dims.
  std::optional<std::int64_t> constant() const {
    return is_constant() ? std::optional(number_) : std::nullopt;
  }
  /// nullptr for a number.
  const Terms* terms() const { return terms_.get(); }
  /// Upper and lower bound for all values of the open dims; exact for a number, a dim and products
  /// of them. The largest and the smallest std::int64_t where they do not fit.
  std::int64_t bound() const { return extreme(true); }
  std::int64_t least() const { return extreme(false); }
  /// Sum of the absolute values of the terms at the bounds of the open dims; nullopt if it does not
  /// fit. Limits the coefficients of sums and products.
  std::optional<std::int64_t> magnitude() const;
  /// Returns the value for these sizes of the open dims, which must include all of them.
  std::int64_t at(const std::map<std::string, std::int64_t>& sizes) const;
  /// Returns, for example, "4 * past * seq - 1"; `name` spells the open dims.
  std::string text(const std::function<std::string(const OpenDim&)>& name) const;
  /// The number of terms, the number among them if it is not 0.
  std::size_t term_count() const;

  Size& operator+=(const Size& other);
  Size& operator-=(const Size& other) { return *this += other * Size(-1); }
  Size& operator*=(const Size& other) { return *this = *this * other; }
  friend Size operator+(Size a, const Size& b) { return a += b; }
  friend Size operator-(Size a, const Size& b) { return a -= b; }
  friend Size operator*(const Size& a, const Size& b);
  friend bool operator==(const Size& a, const Size& b);
  /// a / b if that is exact for all values of the open dims.
  friend std::optional<Size> quotient(Size a, const Size& b);

 private:
  std::int64_t extreme(bool largest) const;
  void set_terms(Terms terms);

  std::int64_t number_ = 0;
  std::shared_ptr<const Terms> terms_;  // nullptr: none
};

std::optional<Size> quotient(Size a, const Size& b);

/// Whether a <= b for all values of the open dims; false where that is not known.
inline bool at_most(const Size& a, const Size& b) {
  return (b - a).least() >= 0;
}

/// With the model's names.
std::string to_string(const Size& size);

using Sizes = std::vector<Size>;

/// Product of the dims.
Size product(const Sizes& dims);
bool all_constant(const Sizes& sizes);
/// The sizes at the bounds of their open dims.
std::vector<std::int64_t> bounds(const Sizes& sizes);

}  // namespace llmc::plan
