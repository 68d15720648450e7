#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace llmc::ir {

/// A dimension that may be symbolic: constant + sum of coefficient * symbol, for example `past +
/// seq` or `4*seq`. Symbols are names such as "seq", "past", "total". The rounded quotient of a dim
/// and a number is a symbol whose name is its formula, `floor((samples + 1)/64)`. For any other
/// size, such as a product of two symbols, type inference creates a new symbol.
///
/// Two dims are equal if they are the same expression. Operations return std::nullopt if a
/// coefficient of the result would overflow or a sum would have more than 64 symbols.
class Dim {
 public:
  Dim() = default;
  Dim(std::int64_t constant) : constant_(constant) {}  // NOLINT: a number is a dimension
  static Dim symbol(std::string name) {
    Dim d;
    d.terms_.emplace(std::move(name), 1);
    return d;
  }

  bool is_constant() const { return terms_.empty(); }
  /// Returns the value if there are no symbols.
  std::optional<std::int64_t> constant() const {
    return is_constant() ? std::optional(constant_) : std::nullopt;
  }
  std::int64_t constant_part() const { return constant_; }
  const std::map<std::string, std::int64_t>& terms() const { return terms_; }

  friend bool operator==(const Dim&, const Dim&) = default;

  /// Returns the value with symbols replaced by their `bindings`; nullopt if a symbol has none or
  /// the result overflows. A quotient without a binding is computed from its symbols.
  std::optional<std::int64_t> evaluate(const std::map<std::string, std::int64_t>& bindings) const;
  /// Returns, for example, "4*past + seq + 1" or a decimal constant. parse_dim() reads this form.
  std::string to_string() const;

  friend std::optional<Dim> add(const Dim& a, const Dim& b);
  friend std::optional<Dim> sub(const Dim& a, const Dim& b);
  /// Returns nullopt if neither side is a constant (not affine) or on overflow.
  friend std::optional<Dim> mul(const Dim& a, const Dim& b);
  /// Returns the exact quotient; nullopt unless a is a multiple of b, or b is a nonzero constant
  /// that divides every coefficient of a.
  friend std::optional<Dim> div_exact(const Dim& a, const Dim& b);

 private:
  std::int64_t constant_ = 0;
  std::map<std::string, std::int64_t> terms_;  // no zero coefficients
};

std::optional<Dim> add(const Dim& a, const Dim& b);
std::optional<Dim> sub(const Dim& a, const Dim& b);
std::optional<Dim> mul(const Dim& a, const Dim& b);
std::optional<Dim> div_exact(const Dim& a, const Dim& b);
/// Returns floor(a / b) for b > 0. Equal quotients are equal dims where this is easy to see:
/// multiples of b are taken out of a, and floor(floor(n / c) / b) is floor(n / (b * c)). Returns
/// nullopt if coefficients overflow or the formula is too long for the name of a symbol.
std::optional<Dim> div_floor(const Dim& a, std::int64_t b);

/// floor(numerator / divisor), with divisor > 1.
struct DimQuotient {
  Dim numerator;
  std::int64_t divisor = 2;
};
/// Returns the meaning of a symbol that div_floor created; nullopt for other symbols.
std::optional<DimQuotient> quotient_of(std::string_view symbol);

/// Returns the dims as numbers; nullopt if one is symbolic.
std::optional<std::vector<std::int64_t>> as_numbers(const std::vector<Dim>& dims);

/// Parses the form of Dim::to_string(); nullopt if the text is malformed or longer than 4096 bytes,
/// or if a coefficient overflows.
std::optional<Dim> parse_dim(std::string_view text);

}  // namespace llmc::ir
