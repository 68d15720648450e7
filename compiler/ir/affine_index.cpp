#include "compiler/ir/affine_index.h"

#include <algorithm>

#include "compiler/ir/shape_value.h"

namespace llmc::ir {

namespace {

/// Returns the largest (or smallest) value over `dims`; nullopt if a step is symbolic or the result
/// overflows.
std::optional<Dim> extreme(const AffineIndex& x, const std::vector<Dim>& dims, bool largest) {
  std::optional<Dim> result = x.start;
  for (std::size_t a = 0; a < x.steps.size() && result; ++a) {
    if (is_zero(x.steps[a])) continue;
    if (!x.steps[a].is_constant()) return std::nullopt;
    if ((*x.steps[a].constant() > 0) != largest) continue;
    const auto last = sub(dims[a], Dim(1));
    const auto offset = last ? mul(*last, x.steps[a]) : std::nullopt;
    result = offset ? add(*result, *offset) : std::nullopt;
  }
  return result;
}

bool at_least(const std::optional<Dim>& x, std::int64_t n) {
  const auto rest = x ? sub(*x, Dim(n)) : std::nullopt;
  return rest && is_non_negative(*rest);
}

bool at_most(const std::optional<Dim>& x, std::int64_t n) {
  const auto rest = x ? sub(Dim(n), *x) : std::nullopt;
  return rest && is_non_negative(*rest);
}

}  // namespace

bool AffineIndex::is_uniform() const {
  return std::ranges::all_of(steps, is_zero);
}

std::optional<AffineIndex> fit_index(const std::vector<std::int64_t>& values,
                                     const std::vector<std::int64_t>& dims) {
  if (values.empty()) return std::nullopt;
  AffineIndex index{Dim(values[0]), std::vector<Dim>(dims.size(), Dim(0))};
  std::vector<std::int64_t> steps(dims.size(), 0);
  std::int64_t stride = 1;
  for (std::size_t a = dims.size(); a-- > 0; stride *= dims[a])
    if (dims[a] > 1 &&
        __builtin_sub_overflow(values[static_cast<std::size_t>(stride)], values[0], &steps[a]))
      return std::nullopt;
  for (std::size_t flat = 0; flat < values.size(); ++flat) {
    std::int64_t expected = values[0];
    auto rest = static_cast<std::int64_t>(flat);
    for (std::size_t a = dims.size(); a-- > 0; rest /= dims[a]) {
      std::int64_t offset = 0;
      if (__builtin_mul_overflow(steps[a], rest % dims[a], &offset) ||
          __builtin_add_overflow(expected, offset, &expected))
        return std::nullopt;
    }
    if (expected != values[flat]) return std::nullopt;
  }
  for (std::size_t a = 0; a < dims.size(); ++a) index.steps[a] = Dim(steps[a]);
  return index;
}

AffineIndex uniform_index(const Dim& value, std::size_t rank) {
  return {value, std::vector<Dim>(rank, Dim(0))};
}

std::optional<AffineIndex> aligned(const AffineIndex& x, std::size_t rank) {
  if (x.steps.size() > rank) return std::nullopt;
  AffineIndex result{x.start, std::vector<Dim>(rank - x.steps.size(), Dim(0))};
  result.steps.insert(result.steps.end(), x.steps.begin(), x.steps.end());
  return result;
}

std::optional<AffineIndex> sum(const AffineIndex& a, const AffineIndex& b) {
  const auto start = add(a.start, b.start);
  if (!start || a.steps.size() != b.steps.size()) return std::nullopt;
  AffineIndex result{*start, {}};
  for (std::size_t axis = 0; axis < a.steps.size(); ++axis) {
    const auto step = add(a.steps[axis], b.steps[axis]);
    if (!step) return std::nullopt;
    result.steps.push_back(*step);
  }
  return result;
}

std::optional<AffineIndex> difference(const AffineIndex& a, const AffineIndex& b) {
  const auto minus = scaled(b, Dim(-1));
  return minus ? sum(a, *minus) : std::nullopt;
}

std::optional<AffineIndex> scaled(const AffineIndex& x, const Dim& factor) {
  const auto start = mul(x.start, factor);
  if (!start) return std::nullopt;
  AffineIndex result{*start, {}};
  for (const Dim& step : x.steps) {
    const auto product = mul(step, factor);
    if (!product) return std::nullopt;
    result.steps.push_back(*product);
  }
  return result;
}

std::optional<bool> holds_everywhere(BinaryKind kind, const AffineIndex& d,
                                     const std::vector<Dim>& dims) {
  const auto low = extreme(d, dims, false), high = extreme(d, dims, true);
  bool yes = false, no = false;
  switch (kind) {
    case BinaryKind::kEqual:
      yes = low && high && is_zero(*low) && is_zero(*high);
      no = at_least(low, 1) || at_most(high, -1);
      break;
    case BinaryKind::kLess:
      yes = at_most(high, -1);
      no = at_least(low, 0);
      break;
    case BinaryKind::kLessOrEqual:
      yes = at_most(high, 0);
      no = at_least(low, 1);
      break;
    case BinaryKind::kGreater:
      yes = at_least(low, 1);
      no = at_most(high, 0);
      break;
    case BinaryKind::kGreaterOrEqual:
      yes = at_least(low, 0);
      no = at_most(high, -1);
      break;
    default:
      break;
  }
  return yes || no ? std::optional(yes) : std::nullopt;
}

bool reduce_index(ReduceKind kind, const Dim& size, const Dim& step, Dim& start) {
  std::optional<Dim> result;
  switch (kind) {
    case ReduceKind::kSum:
      if (is_zero(step)) result = mul(start, size);
      break;
    case ReduceKind::kMin:
      if (is_non_negative(step)) result = start;
      break;
    case ReduceKind::kMax: {
      const auto last = sub(size, Dim(1));
      const auto offset = last ? mul(*last, step) : std::nullopt;
      if (offset && is_non_negative(step)) result = add(start, *offset);
      break;
    }
    case ReduceKind::kMean:
      if (is_zero(step)) result = start;
      break;
    case ReduceKind::kProd:
      if (is_zero(step) && (start == Dim(1) || is_zero(start))) result = start;
      break;
  }
  if (!result) return false;
  start = *result;
  return true;
}

}  // namespace llmc::ir
