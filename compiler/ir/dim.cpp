#include "compiler/ir/dim.h"

#include "compiler/ir/quote.h"
#include "compiler/support/checked_math.h"

namespace llmc::ir {
namespace {

/// Maximum length of the text of a dim expression, in bytes. Real models have far shorter ones.
constexpr std::size_t kMaxDimTextBytes = 4096;

/// Maximum number of symbols in a dim, which bounds the cost of each operation.
constexpr std::size_t kMaxTerms = 64;

/// Maximum length of the formula of a quotient, in bytes. It bounds the depth of nested quotients.
constexpr std::size_t kMaxQuotientBytes = 256;

constexpr std::string_view kQuotientBegin = "floor((", kQuotientMiddle = ")/";

/// Returns floor(a / b) for b > 0.
std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

class DimParser {
 public:
  explicit DimParser(std::string_view text) : rest_(text) {}

  std::optional<Dim> parse() {
    Dim sum;
    bool negative = eat('-');
    while (true) {
      auto term = parse_term(negative);
      if (!term) return std::nullopt;
      auto next = add(sum, *term);
      if (!next) return std::nullopt;
      sum = std::move(*next);
      skip_space();
      if (rest_.empty()) return sum;
      negative = rest_.front() == '-';
      if (!eat('-') && !eat('+')) return std::nullopt;
    }
  }

 private:
  void skip_space() {
    while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
  }
  bool eat(char c) {
    skip_space();
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  /// number | symbol | number '*' symbol
  std::optional<Dim> parse_term(bool negative) {
    skip_space();
    if (rest_.empty()) return std::nullopt;
    if (rest_.front() < '0' || rest_.front() > '9') {
      auto symbol = parse_symbol();
      if (!symbol) return std::nullopt;
      return mul(Dim(negative ? -1 : 1), *symbol);
    }
    // Accumulate with the sign: INT64_MIN has no positive counterpart.
    std::int64_t value = 0;
    while (!rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9') {
      const std::int64_t digit = rest_.front() - '0';
      if (__builtin_mul_overflow(value, 10, &value) ||
          __builtin_add_overflow(value, negative ? -digit : digit, &value))
        return std::nullopt;
      rest_.remove_prefix(1);
    }
    if (!eat('*')) return Dim(value);
    auto symbol = parse_symbol();
    if (!symbol) return std::nullopt;
    return mul(Dim(value), *symbol);
  }

  std::optional<Dim> parse_symbol() {
    skip_space();
    const auto name = take_name(rest_);
    if (!name || name->empty()) return std::nullopt;
    return Dim::symbol(*name);
  }

  std::string_view rest_;
};

}  // namespace

std::optional<std::int64_t> Dim::evaluate(
    const std::map<std::string, std::int64_t>& bindings) const {
  std::int64_t sum = constant_;
  for (const auto& [symbol, coefficient] : terms_) {
    const auto bound = bindings.find(symbol);
    std::optional<std::int64_t> value;
    if (bound != bindings.end()) {
      value = bound->second;
    } else if (const auto quotient = quotient_of(symbol)) {
      value = quotient->numerator.evaluate(bindings);
      if (value) value = floor_div(*value, quotient->divisor);
    }
    std::int64_t product = 0;
    if (!value || __builtin_mul_overflow(coefficient, *value, &product) ||
        __builtin_add_overflow(sum, product, &sum))
      return std::nullopt;
  }
  return sum;
}

std::string Dim::to_string() const {
  if (terms_.empty()) return std::to_string(constant_);
  std::string out;
  const auto append = [&](std::int64_t value, const std::string* symbol) {
    // Print the unsigned magnitude: INT64_MIN has no positive counterpart.
    const bool negative = value < 0;
    const std::uint64_t magnitude =
        negative ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
    if (out.empty()) {
      if (negative) out += "-";
    } else {
      out += negative ? " - " : " + ";
    }
    if (!symbol || magnitude != 1) out += std::to_string(magnitude);
    if (symbol && magnitude != 1) out += "*";
    if (symbol) out += name_text(*symbol);
  };
  for (const auto& [symbol, coefficient] : terms_) append(coefficient, &symbol);
  if (constant_ != 0) append(constant_, nullptr);
  return out;
}

std::optional<Dim> add(const Dim& a, const Dim& b) {
  Dim result = a;
  if (__builtin_add_overflow(a.constant_, b.constant_, &result.constant_)) return std::nullopt;
  for (const auto& [symbol, coefficient] : b.terms_) {
    std::int64_t& sum = result.terms_[symbol];
    if (__builtin_add_overflow(sum, coefficient, &sum)) return std::nullopt;
    if (sum == 0) result.terms_.erase(symbol);
    if (result.terms_.size() > kMaxTerms) return std::nullopt;
  }
  return result;
}

std::optional<Dim> sub(const Dim& a, const Dim& b) {
  const auto negated = mul(b, Dim(-1));
  return negated ? add(a, *negated) : std::nullopt;
}

std::optional<Dim> mul(const Dim& a, const Dim& b) {
  if (!a.is_constant() && !b.is_constant()) return std::nullopt;
  const std::int64_t factor = a.is_constant() ? a.constant_ : b.constant_;
  const Dim& other = a.is_constant() ? b : a;
  Dim result;
  if (factor == 0) return result;
  if (__builtin_mul_overflow(other.constant_, factor, &result.constant_)) return std::nullopt;
  for (const auto& [symbol, coefficient] : other.terms_) {
    const auto product = checked_mul(coefficient, factor);
    if (!product) return std::nullopt;
    result.terms_.emplace(symbol, *product);
  }
  return result;
}

std::optional<Dim> div_exact(const Dim& a, const Dim& b) {
  if (!b.is_constant()) {
    const auto& [symbol, divisor] = *b.terms_.begin();
    const auto coefficient = a.terms_.find(symbol);
    if (coefficient == a.terms_.end() || divisor < 0) return std::nullopt;
    const std::int64_t times = coefficient->second / divisor;
    return mul(b, Dim(times)) == a ? std::optional(Dim(times)) : std::nullopt;
  }
  if (b.constant_ == 0) return std::nullopt;
  if (b.constant_ == -1) return mul(a, b);
  if (a.constant_ % b.constant_ != 0) return std::nullopt;
  Dim result(a.constant_ / b.constant_);
  for (const auto& [symbol, coefficient] : a.terms_) {
    if (coefficient % b.constant_ != 0) return std::nullopt;
    result.terms_.emplace(symbol, coefficient / b.constant_);
  }
  return result;
}

std::optional<Dim> div_floor(const Dim& a, std::int64_t b) {
  Dim whole(floor_div(a.constant_part(), b)),
      rest(a.constant_part() - floor_div(a.constant_part(), b) * b);
  for (const auto& [symbol, coefficient] : a.terms()) {
    const std::int64_t times = floor_div(coefficient, b);
    const auto outside = mul(Dim(times), Dim::symbol(symbol));
    const auto inside = mul(Dim(coefficient - times * b), Dim::symbol(symbol));
    const auto next_whole = outside ? add(whole, *outside) : std::nullopt;
    const auto next_rest = inside ? add(rest, *inside) : std::nullopt;
    if (!next_whole || !next_rest) return std::nullopt;
    whole = *next_whole;
    rest = *next_rest;
  }
  if (rest.is_constant()) return whole;
  if (const auto& [symbol, coefficient] = *rest.terms().begin();
      rest.terms().size() == 1 && coefficient == 1) {
    if (const auto inner = quotient_of(symbol)) {
      // (floor(n / c) + k) / b = (n + k * c) / (b * c), each rounded down.
      const auto shift = checked_mul(rest.constant_part(), inner->divisor);
      const auto numerator = shift ? add(inner->numerator, Dim(*shift)) : std::nullopt;
      const auto divisor = checked_mul(b, inner->divisor);
      const auto flat = numerator && divisor ? div_floor(*numerator, *divisor) : std::nullopt;
      return flat ? add(whole, *flat) : std::nullopt;
    }
  }
  std::string name(kQuotientBegin);
  name += rest.to_string() + std::string(kQuotientMiddle) + std::to_string(b) + ")";
  if (name.size() > kMaxQuotientBytes) return std::nullopt;
  return add(whole, Dim::symbol(std::move(name)));
}

std::optional<DimQuotient> quotient_of(std::string_view symbol) {
  if (symbol.size() > kMaxQuotientBytes || !symbol.starts_with(kQuotientBegin) ||
      !symbol.ends_with(")"))
    return std::nullopt;
  symbol.remove_prefix(kQuotientBegin.size());
  symbol.remove_suffix(1);
  const std::size_t middle = symbol.rfind(kQuotientMiddle);
  if (middle == std::string_view::npos) return std::nullopt;
  const auto numerator = parse_dim(symbol.substr(0, middle));
  const auto divisor = parse_dim(symbol.substr(middle + kQuotientMiddle.size()));
  if (!numerator || !divisor || divisor->constant().value_or(0) < 2) return std::nullopt;
  return DimQuotient{*numerator, *divisor->constant()};
}

std::optional<std::vector<std::int64_t>> as_numbers(const std::vector<Dim>& dims) {
  std::vector<std::int64_t> numbers;
  for (const Dim& dim : dims) {
    if (!dim.is_constant()) return std::nullopt;
    numbers.push_back(dim.constant_part());
  }
  return numbers;
}

std::optional<Dim> parse_dim(std::string_view text) {
  if (text.size() > kMaxDimTextBytes) return std::nullopt;
  return DimParser(text).parse();
}

}  // namespace llmc::ir
