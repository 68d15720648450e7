// Pooling over windows and over all spatial dims.

#include <algorithm>
#include <limits>
#include <numeric>

#include "compiler/onnx/lowering.h"
#include "compiler/onnx/operators.h"
#include "compiler/onnx/window.h"

namespace llmc::importer {
namespace {

using ir::BinaryKind;
using ir::ElementType;
using ir::ReduceKind;
using ir::UnaryKind;
using ir::ValueId;

/// Maximum number of taps along a dim, each of which becomes a node.
constexpr std::int64_t kMaxTaps = 512;
/// Maximum number of positions for which a table holds the divisor of the mean.
constexpr std::size_t kMaxCounts = std::size_t{1} << 24;

/// Returns the elements that tap `tap` of dim d reads at all positions.
ValueId at_tap(NodeContext& n, ValueId x, const Window& w, std::size_t d, std::int64_t tap) {
  const auto axis = static_cast<std::int64_t>(d) + 2;
  const std::int64_t start = tap * w.dilations[d], after = w.extent(d) - 1 - start;
  std::int64_t end = after == 0 ? INT64_MAX : -after;
  if (const auto size = known_dim(n, x, axis)) {
    const std::int64_t last = (*size - w.extent(d)) / w.strides[d] * w.strides[d];
    end = start + last + 1;
  }
  return n.make(ir::Slice{}, {x, n.make_integers({start}), n.make_integers({end}),
                              n.make_integers({axis}), n.make_integers({w.strides[d]})});
}

/// Returns the sum or maximum of each window, one dim after the other from the last.
ValueId joined(NodeContext& n, ValueId x, const Window& w, BinaryKind kind) {
  for (std::size_t d = w.rank(); d-- > 0;) {
    if (n.failed()) return ir::kNoValue;
    const auto axis = static_cast<std::int64_t>(d) + 2;
    const auto size = known_dim(n, x, axis);
    if (size && *size < w.extent(d))
      return n.bad("the window is larger than " + ir::to_string(n.type(x))), ir::kNoValue;
    if (size && *size == w.kernel[d]) {
      x = reduce(n, kind == BinaryKind::kMax ? ReduceKind::kMax : ReduceKind::kSum, x, {axis});
      continue;
    }
    if (!size && w.strides[d] != 1)
      return n.unsupported("strides need the sizes of its operand " + ir::to_string(n.type(x)),
                           "give them with --dim name=value"),
             ir::kNoValue;
    if (w.kernel[d] > kMaxTaps)
      return n.unsupported("a window of more than " + std::to_string(kMaxTaps) +
                           " elements along a dim is not supported"),
             ir::kNoValue;
    ValueId sum = at_tap(n, x, w, d, 0);
    for (std::int64_t tap = 1; tap < w.kernel[d]; ++tap)
      sum = binary(n, kind, sum, at_tap(n, x, w, d, tap));
    x = sum;
  }
  return x;
}

std::optional<Window> pool_window(NodeContext& n, ValueId x, std::vector<std::int64_t>& ceil_pads) {
  const auto kernel = n.integers("kernel_shape");
  if (n.failed()) return std::nullopt;
  if (!kernel) return n.bad("attribute 'kernel_shape' is missing"), std::nullopt;
  return padded_window(n, x, *kernel, &ceil_pads);
}

void convert_max_pool(NodeContext& n) {
  const ValueId x = n.in(0);
  std::vector<std::int64_t> ceil_pads;
  const auto w = pool_window(n, x, ceil_pads);
  n.ignore("storage_order");  // of the indices
  if (!w || n.failed()) return;
  if (n.wants(1)) return n.unsupported("the output of indices is not supported");
  const ElementType element = n.type(x).element;
  const double least = ir::is_float(element)         ? -std::numeric_limits<double>::infinity()
                       : element == ElementType::kI8 ? -128.0
                                                     : 0.0;
  if (!ir::is_float(element) && element != ElementType::kI8 && element != ElementType::kU8)
    return n.bad("a maximum of windows of " + ir::to_string(n.type(x)) + " does not exist");
  const ValueId source = w->has_pads() ? padded(n, x, w->pads_begin, w->pads_end, least) : x;
  n.bind(0, joined(n, source, *w, BinaryKind::kMax));
}

/// Returns the number of elements of x, and of its pads if `with_pads`, at each position along dim
/// d; nullopt if the size of x is not known and matters, or is too large.
std::optional<std::vector<double>> counts(NodeContext& n, ValueId x, const Window& w, std::size_t d,
                                          std::int64_t ceil_pad, bool with_pads) {
  const std::int64_t end = w.pads_end[d] - ceil_pad;
  const bool all_count = ceil_pad == 0 && (with_pads || (w.pads_begin[d] == 0 && end == 0));
  if (all_count) return std::vector<double>{static_cast<double>(w.kernel[d])};
  const auto size = known_dim(n, x, static_cast<std::int64_t>(d) + 2);
  if (!size) return std::nullopt;
  const std::int64_t first = with_pads ? -w.pads_begin[d] : 0;
  const std::int64_t limit = *size + (with_pads ? end : 0), step = w.dilations[d];
  const auto taps_below = [&](std::int64_t distance) {
    return std::clamp<std::int64_t>((distance + step - 1) / step, 0, w.kernel[d]);
  };
  std::vector<double> result;
  for (std::int64_t at = -w.pads_begin[d]; at + w.extent(d) <= *size + w.pads_end[d];
       at += w.strides[d]) {
    if (result.size() == kMaxCounts) return std::nullopt;
    result.push_back(static_cast<double>(taps_below(limit - at) - taps_below(first - at)));
  }
  return result;
}

void convert_average_pool(NodeContext& n) {
  const ValueId x = n.in(0);
  const bool with_pads = n.integer("count_include_pad", 0) != 0;
  std::vector<std::int64_t> ceil_pads;
  const auto w = pool_window(n, x, ceil_pads);
  if (!w || n.failed()) return;
  if (!ir::is_float(n.type(x).element))
    return n.bad("a mean of windows of " + ir::to_string(n.type(x)) + " does not exist");
  std::vector<std::int64_t> dims;
  std::vector<double> all{1};
  for (std::size_t d = 0; d < w->rank(); ++d) {
    const auto along = counts(n, x, *w, d, ceil_pads[d], with_pads);
    if (!along || all.size() * along->size() > kMaxCounts)
      return n.unsupported("pads that are not counted need the sizes of its operand " +
                               ir::to_string(n.type(x)) + ", at most " +
                               std::to_string(kMaxCounts) + " elements",
                           "give them with --dim name=value");
    std::vector<double> product;
    for (const double a : all)
      for (const double b : *along) product.push_back(a * b);
    all = std::move(product);
    dims.push_back(static_cast<std::int64_t>(along->size()));
  }
  const ValueId source = w->has_pads() ? padded(n, x, w->pads_begin, w->pads_end, 0) : x;
  const ValueId sum = joined(n, source, *w, BinaryKind::kAdd);
  if (n.failed()) return;
  const ValueId count =
      n.make_constant(ir::make_f32(std::move(dims), std::vector<float>(all.begin(), all.end())));
  n.bind(0, binary(n, BinaryKind::kDiv, sum, n.cast(count, n.type(x).element)));
}

/// Returns (sum of |x|^p)^(1/p). `sum` adds up the powers.
template <class Sum>
ValueId lp_norm(NodeContext& n, ValueId x, std::int64_t p, Sum&& sum) {
  if (n.failed()) return ir::kNoValue;
  if (p < 1) return n.bad("attribute 'p' is not positive"), ir::kNoValue;
  const ValueId size = unary(n, UnaryKind::kAbs, x);
  if (p == 1) return sum(size);
  if (p == 2) return unary(n, UnaryKind::kSqrt, sum(binary(n, BinaryKind::kMul, x, x)));
  const ValueId powers = with_scalar(n, BinaryKind::kPow, size, static_cast<double>(p));
  return with_scalar(n, BinaryKind::kPow, sum(powers), 1.0 / static_cast<double>(p));
}

void convert_lp_pool(NodeContext& n) {
  const ValueId x = n.in(0);
  const std::int64_t p = n.integer("p", 2);
  std::vector<std::int64_t> ceil_pads;
  const auto w = pool_window(n, x, ceil_pads);
  if (!w || n.failed()) return;
  const ValueId source = w->has_pads() ? padded(n, x, w->pads_begin, w->pads_end, 0) : x;
  n.bind(0, lp_norm(n, source, p,
                    [&](ValueId powers) { return joined(n, powers, *w, BinaryKind::kAdd); }));
}

/// Returns x reduced over all its spatial dims.
ValueId over_all(NodeContext& n, ReduceKind kind, ValueId x) {
  if (n.failed()) return ir::kNoValue;
  if (n.rank(x) < 3)
    return n.bad("operand " + ir::to_string(n.type(x)) + " has no spatial dims"), ir::kNoValue;
  return reduce(n, kind, x, axis_range(2, n.rank(x)));
}

template <ReduceKind kKind>
void convert_global_pool(NodeContext& n) {
  n.bind(0, over_all(n, kKind, n.in(0)));
}

void convert_global_lp_pool(NodeContext& n) {
  const ValueId x = n.in(0);
  n.bind(0, lp_norm(n, x, n.integer("p", 2),
                    [&](ValueId powers) { return over_all(n, ReduceKind::kSum, powers); }));
}

OperatorRule pool(std::string_view name, std::int64_t since, std::string_view own,
                  Converter convert) {
  return onnx_rule(name, since, 1, convert,
                   {"auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides", own});
}

}  // namespace

std::vector<OperatorRule> pool_rules() {
  return {
      pool("MaxPool", 1, "storage_order", convert_max_pool),
      pool("AveragePool", 1, "count_include_pad", convert_average_pool),
      pool("LpPool", 2, "p", convert_lp_pool),
      onnx_rule("GlobalAveragePool", 1, 1, convert_global_pool<ReduceKind::kMean>),
      onnx_rule("GlobalMaxPool", 1, 1, convert_global_pool<ReduceKind::kMax>),
      onnx_rule("GlobalLpPool", 2, 1, convert_global_lp_pool, {"p"}),
  };
}

}  // namespace llmc::importer
