#include "compiler/plan/size.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "compiler/support/checked_math.h"

namespace llmc::plan {
namespace {

using Monomial = Size::Monomial;

Monomial multiplied(const Monomial& a, const Monomial& b) {
  Monomial result;
  std::ranges::merge(a, b, std::back_inserter(result), {}, &OpenDim::name, &OpenDim::name);
  return result;
}

/// Returns a / b; nullopt if b does not divide a.
std::optional<Monomial> divided(const Monomial& a, const Monomial& b) {
  Monomial rest;
  auto next = b.begin();
  for (const OpenDimPtr& dim : a) {
    if (next != b.end() && *next == dim) {
      ++next;
    } else {
      rest.push_back(dim);
    }
  }
  return next == b.end() ? std::optional(std::move(rest)) : std::nullopt;
}

/// Returns the monomial with its open dims at the end of their ranges, none of which is negative.
/// Returns nullopt on overflow.
std::optional<std::int64_t> at_end(const Monomial& monomial, bool largest) {
  std::optional<std::int64_t> product = 1;
  for (const OpenDimPtr& dim : monomial)
    if (product) product = checked_mul(*product, largest ? dim->range.max : dim->range.min);
  return product;
}

}  // namespace

bool Size::Order::operator()(const Monomial& a, const Monomial& b) const {
  if (a.size() != b.size()) return a.size() < b.size();
  return std::ranges::lexicographical_compare(a, b, {}, &OpenDim::name, &OpenDim::name);
}

Size::Size(OpenDimPtr dim) {
  set_terms({{Monomial{std::move(dim)}, 1}});
}

void Size::set_terms(Terms terms) {
  std::erase_if(terms, [](const auto& term) { return term.second == 0; });
  terms_ = terms.empty() ? nullptr : std::make_shared<const Terms>(std::move(terms));
}

std::int64_t Size::extreme(bool largest) const {
  if (!terms_) return number_;
  std::int64_t sum = number_;
  for (const auto& [monomial, factor] : *terms_) {
    const auto value = at_end(monomial, largest == (factor > 0));
    const auto term = value ? checked_mul(factor, *value) : std::nullopt;
    const auto next = term ? checked_add(sum, *term) : std::nullopt;
    if (!next) return largest ? INT64_MAX : INT64_MIN;
    sum = *next;
  }
  return sum;
}

std::optional<std::int64_t> Size::least_without_quotients() const {
  // Multiplied by its divisor, a quotient is its numerator minus a remainder.
  std::optional<std::int64_t> scale = 1;
  const auto quotient_in = [](const Monomial& monomial) -> const OpenDim* {
    return monomial.size() == 1 && monomial[0]->numerator ? monomial[0].get() : nullptr;
  };
  for (const auto& [monomial, factor] : *terms_)
    if (const OpenDim* const dim = quotient_in(monomial); dim != nullptr && scale)
      scale = checked_mul(*scale / std::gcd(*scale, dim->divisor), dim->divisor);
  // The limit keeps the arithmetic of polynomials, which is not checked, far from overflow.
  constexpr std::int64_t kMaxScale = std::int64_t{1} << 20;
  if (!scale || *scale == 1 || *scale > kMaxScale) return std::nullopt;
  const auto limit = magnitude();
  if (!limit || *limit > INT64_MAX / kMaxScale / 4) return std::nullopt;
  Size sum = number_ * *scale;
  for (const auto& [monomial, factor] : *terms_) {
    const OpenDim* const dim = quotient_in(monomial);
    if (dim == nullptr) {
      Size term = 0;
      term.set_terms({{monomial, factor * *scale}});
      sum += term;
      continue;
    }
    const std::int64_t times = factor * (*scale / dim->divisor);
    sum += *dim->numerator * Size(times);
    if (times > 0) sum -= times * (dim->divisor - 1);
  }
  const std::int64_t least = sum.least();
  return least / *scale + (least % *scale > 0 ? 1 : 0);
}

std::int64_t Size::least() const {
  const std::int64_t plain = extreme(false);
  if (!terms_ || plain >= 0) return plain;
  return std::max(plain, least_without_quotients().value_or(INT64_MIN));
}

std::optional<std::int64_t> Size::magnitude() const {
  if (number_ == INT64_MIN) return std::nullopt;
  std::optional<std::int64_t> sum = std::abs(number_);
  if (!terms_) return sum;
  for (const auto& [monomial, factor] : *terms_) {
    const auto value = at_end(monomial, true);
    if (!value || factor == INT64_MIN) return std::nullopt;
    const auto term = checked_mul(std::abs(factor), *value);
    sum = term ? checked_add(*sum, *term) : std::nullopt;
    if (!sum) return std::nullopt;
  }
  return sum;
}

std::int64_t Size::at(const std::map<std::string, std::int64_t>& sizes) const {
  std::int64_t sum = number_;
  if (!terms_) return sum;
  for (const auto& [monomial, factor] : *terms_) {
    std::int64_t value = factor;
    for (const OpenDimPtr& dim : monomial)
      value *= dim->numerator ? dim->numerator->at(sizes) / dim->divisor : sizes.at(dim->name);
    sum += value;
  }
  return sum;
}

std::size_t Size::term_count() const {
  return (terms_ ? terms_->size() : 0) + (number_ != 0 ? 1 : 0);
}

std::string Size::text(const std::function<std::string(const OpenDim&)>& name) const {
  if (!terms_) return fmt::format("{}", number_);
  std::string text;
  const auto add = [&](std::int64_t factor, std::string product) {
    if (std::abs(factor) != 1 || product.empty())
      product = fmt::format("{}{}{}", std::abs(factor), product.empty() ? "" : " * ", product);
    if (text.empty()) {
      text = (factor < 0 ? "-" : "") + product;
    } else {
      text += (factor < 0 ? " - " : " + ") + product;
    }
  };
  for (const auto& [monomial, factor] : *terms_) {
    std::string product;
    for (const OpenDimPtr& dim : monomial) product += (product.empty() ? "" : " * ") + name(*dim);
    add(factor, product);
  }
  if (number_ != 0) add(number_, {});
  return text;
}

Size& Size::operator+=(const Size& other) {
  number_ += other.number_;
  if (!other.terms_) return *this;
  Terms sum = terms_ ? *terms_ : Terms{};
  for (const auto& [monomial, factor] : *other.terms_) sum[monomial] += factor;
  set_terms(std::move(sum));
  return *this;
}

Size operator*(const Size& a, const Size& b) {
  Size result = a.number_ * b.number_;
  if (!a.terms_ && !b.terms_) return result;
  Size::Terms terms;
  if (a.terms_)
    for (const auto& [monomial, factor] : *a.terms_) terms[monomial] += factor * b.number_;
  if (b.terms_)
    for (const auto& [monomial, factor] : *b.terms_) terms[monomial] += factor * a.number_;
  if (a.terms_ && b.terms_)
    for (const auto& [x, x_factor] : *a.terms_)
      for (const auto& [y, y_factor] : *b.terms_) terms[multiplied(x, y)] += x_factor * y_factor;
  result.set_terms(std::move(terms));
  return result;
}

bool operator==(const Size& a, const Size& b) {
  if (a.number_ != b.number_ || a.is_constant() != b.is_constant()) return false;
  return a.terms_ == b.terms_ || *a.terms_ == *b.terms_;
}

std::optional<Size> quotient(Size a, const Size& b) {
  // Long division by the leading term; each step removes the leading term of `a`.
  const auto leading = [](const Size& x) {
    return x.terms_ ? *std::prev(x.terms_->end())
                    : std::pair<const Monomial, std::int64_t>{{}, x.number_};
  };
  const auto [divisor, divisor_factor] = leading(b);
  if (divisor_factor == 0) return std::nullopt;
  Size result = 0;
  while (a != Size(0)) {
    const auto [first, factor] = leading(a);
    auto monomial = divided(first, divisor);
    if (!monomial || factor % divisor_factor != 0) return std::nullopt;
    Size term = factor / divisor_factor;
    if (!monomial->empty()) {
      Size product = 0;
      product.set_terms({{*std::move(monomial), 1}});
      term *= product;
    }
    result += term;
    a -= term * b;
  }
  return result;
}

std::string to_string(const Size& size) {
  return size.text([](const OpenDim& dim) { return dim.name; });
}

Size product(const Sizes& dims) {
  Size count = 1;
  for (const Size& dim : dims) count *= dim;
  return count;
}

bool all_constant(const Sizes& sizes) {
  return std::ranges::all_of(sizes, &Size::is_constant);
}

Sizes part(const Sizes& sizes, std::size_t begin, std::size_t end) {
  return {sizes.begin() + static_cast<std::ptrdiff_t>(begin),
          sizes.begin() + static_cast<std::ptrdiff_t>(end)};
}

std::vector<std::int64_t> bounds(const Sizes& sizes) {
  std::vector<std::int64_t> result;
  for (const Size& size : sizes) result.push_back(size.bound());
  return result;
}

}  // namespace llmc::plan
