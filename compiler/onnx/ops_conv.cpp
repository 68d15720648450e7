// Convolutions.

#include <algorithm>

#include "compiler/onnx/fused_activation.h"
#include "compiler/onnx/lowering.h"
#include "compiler/onnx/operators.h"
#include "compiler/onnx/window.h"
#include "compiler/support/checked_math.h"

namespace llmc::importer {
namespace {

using ir::BinaryKind;
using ir::ValueId;

/// Returns the convolution of x, or kNoValue after an error.
ValueId convolution(NodeContext& n, ValueId x, ValueId weight, ValueId bias) {
  const std::int64_t groups = n.integer("group", 1);
  const auto w = padded_window(n, x, kernel_of(n, weight));
  if (!w || n.failed()) return ir::kNoValue;
  if (!ir::is_float(n.type(x).element) || n.type(x).element == ir::ElementType::kF64) {
    n.unsupported("a convolution of " + ir::to_string(n.type(x)) + " is not supported");
    return ir::kNoValue;
  }
  const ValueId source = w->has_pads() ? padded(n, x, w->pads_begin, w->pads_end, 0) : x;
  const ValueId y = n.make(ir::Conv{w->strides, w->dilations, groups}, {source, weight});
  return with_bias(n, y, bias);
}

void convert_conv(NodeContext& n) {
  const ValueId x = n.in(0), weight = n.in(1), bias = n.optional_in(2);
  n.bind(0, convolution(n, x, weight, bias));
}

/// A convolution and an activation. The activation's parameters are one list.
void convert_fused_conv(NodeContext& n) {
  if (n.has(3)) return n.unsupported("the operand that is added is not supported");
  const ValueId x = n.in(0), weight = n.in(1), bias = n.optional_in(2);
  const auto given = n.numbers("activation_params").value_or(std::vector<float>{});
  const std::vector<std::optional<float>> parameters(given.begin(), given.end());
  n.bind(0, activated(n, convolution(n, x, weight, bias), parameters));
}

/// Returns the channels begin .. end - 1 of each group of x. A group has `channels` channels.
ValueId channels_of_groups(NodeContext& n, ValueId x, std::int64_t groups, std::int64_t channels,
                           std::int64_t begin, std::int64_t end) {
  if (groups == 1)
    return n.make(ir::Slice{},
                  {x, n.make_integers({begin}), n.make_integers({end}), n.make_integers({1})});
  std::vector<std::int64_t> indices;
  for (std::int64_t g = 0; g < groups; ++g)
    for (std::int64_t c = begin; c < end; ++c) indices.push_back(g * channels + c);
  return n.make(ir::Gather{1}, {x, n.make_integers(std::move(indices))});
}

/// Returns the number of windows along each spatial dim of x if they are adjacent, without overlap
/// or gaps, so that each element is read at most once. A remainder at the end of x is not read.
/// Returns nullopt for other windows, and for windows of one element.
std::optional<std::vector<std::int64_t>> patches(NodeContext& n, ValueId x, const Window& w) {
  if (w.has_pads()) return std::nullopt;
  std::vector<std::int64_t> counts;
  for (std::size_t d = 0; d < w.rank(); ++d) {
    const auto size = known_dim(n, x, static_cast<std::int64_t>(d) + 2);
    const bool touches = w.kernel[d] == w.strides[d] && w.dilations[d] == 1;
    if (!size || *size < w.kernel[d] || !touches) return std::nullopt;
    counts.push_back(*size / w.kernel[d]);
  }
  const bool one_element = std::ranges::all_of(w.kernel, [](std::int64_t k) { return k == 1; });
  return one_element ? std::nullopt : std::optional(std::move(counts));
}

/// Computes the product of each patch of x[N, C, …] with the rows of weight[M, C, kernel…], a
/// matrix product.
ValueId of_patches(NodeContext& n, ValueId x, ValueId weight, const Window& w,
                   const std::vector<std::int64_t>& counts) {
  const auto rank = static_cast<std::int64_t>(w.rank());
  const auto rows = known_dim(n, weight, 0), channels = known_dim(n, weight, 1);
  if (!rows || !channels) {
    n.unsupported("a weight of unknown size is not supported");
    return ir::kNoValue;
  }
  std::vector<std::int64_t> ends, split{0, *channels}, order{0}, back{0, rank + 1}, shape{0};
  std::int64_t depth = *channels;
  for (std::int64_t d = 0; d < rank; ++d) {
    const auto i = static_cast<std::size_t>(d);
    ends.push_back(counts[i] * w.kernel[i]);
    split.insert(split.end(), {counts[i], w.kernel[i]});
    order.push_back(2 + 2 * d);
    back.push_back(1 + d);
    shape.push_back(counts[i]);
    depth *= w.kernel[i];
  }
  order.push_back(1);
  for (std::int64_t d = 0; d < rank; ++d) order.push_back(3 + 2 * d);
  shape.push_back(depth);
  const ValueId whole =
      n.make(ir::Slice{}, {x, n.make_integers(std::vector<std::int64_t>(w.rank(), 0)),
                           n.make_integers(ends), n.make_integers(axis_range(2, 2 + rank))});
  const ValueId moved = n.make(ir::Transpose{order}, {reshaped(n, whole, split)});
  const ValueId matrix = n.make(ir::Transpose{{1, 0}}, {reshaped(n, weight, {*rows, depth})});
  const ValueId y = n.make(ir::MatMul{}, {reshaped(n, moved, shape), matrix});
  return n.make(ir::Transpose{back}, {y});
}

/// Returns as i32 the convolution of x and weight, which are integers stored as f32. `largest` is
/// the maximum absolute value of a product of two elements. Splits the channels so that all sums
/// are exact in f32.
ValueId integer_convolution(NodeContext& n, ValueId x, ValueId weight, std::int64_t largest) {
  constexpr std::int64_t kExact = std::int64_t{1} << 24;
  const std::int64_t groups = n.integer("group", 1);
  const std::vector<std::int64_t> kernel = kernel_of(n, weight);
  const auto taps = checked_product(kernel);
  const auto channels = known_dim(n, weight, 1);
  if (n.failed()) return ir::kNoValue;
  if (!taps || *taps < 1 || !channels || groups < 1 || *channels > kMaxHidden / groups) {
    n.unsupported("a weight of unknown or too large size is not supported");
    return ir::kNoValue;
  }
  const std::int64_t at_once = kExact / largest / *taps;
  if (*channels <= at_once)
    return n.cast(convolution(n, x, weight, ir::kNoValue), ir::ElementType::kI32);
  if (at_once < 1) {
    const auto w = padded_window(n, x, kernel);
    const auto counts = w ? patches(n, x, *w) : std::nullopt;
    if (counts && groups == 1)
      return of_patches(n, n.cast(x, ir::ElementType::kI32), n.cast(weight, ir::ElementType::kI32),
                        *w, *counts);
    n.unsupported("a kernel of " + std::to_string(*taps) +
                  " elements is not supported: its sums are not exact in f32");
    return ir::kNoValue;
  }
  ValueId sum;
  for (std::int64_t begin = 0; begin < *channels && !n.failed(); begin += at_once) {
    const std::int64_t end = std::min(begin + at_once, *channels);
    const ValueId y =
        convolution(n, channels_of_groups(n, x, groups, *channels, begin, end),
                    channels_of_groups(n, weight, 1, *channels, begin, end), ir::kNoValue);
    const ValueId part = n.cast(y, ir::ElementType::kI32);
    sum = sum.exists() ? binary(n, BinaryKind::kAdd, sum, part) : part;
  }
  return sum;
}

/// Returns the largest absolute value of a code, or of the difference of two codes.
std::int64_t largest_code(const NodeContext& n, ValueId codes, bool has_zero_point) {
  return has_zero_point || n.type(codes).element != ir::ElementType::kI8 ? 255 : 128;
}

/// The convolution of codes minus their zero points.
void convert_conv_integer(NodeContext& n) {
  const ValueId codes = n.in(0);
  if (n.failed()) return;
  const bool floats = ir::is_float(n.type(codes).element);  // not quantized: float_products()
  const ValueId weight_codes = n.in(1);
  if (n.failed()) return;
  ValueId x = n.cast(codes, ir::ElementType::kF32);
  ValueId weight = n.cast(weight_codes, ir::ElementType::kF32);
  if (floats) {
    n.ignore_operand(2);
  } else if (n.has(2)) {
    x = binary(n, BinaryKind::kSub, x, n.cast(n.in(2), ir::ElementType::kF32));
  }
  if (n.has(3)) {
    ValueId zero = n.cast(n.in(3), ir::ElementType::kF32);
    if (n.failed()) return;
    if (n.rank(zero) == 1) {
      std::vector<std::int64_t> shape(static_cast<std::size_t>(n.rank(weight)), 1);
      if (!shape.empty()) shape[0] = -1;
      zero = reshaped(n, zero, shape);
    }
    weight = binary(n, BinaryKind::kSub, weight, zero);
  }
  if (n.failed()) return;
  n.bind(0, floats ? convolution(n, x, weight, ir::kNoValue)
                   : integer_convolution(n, x, weight,
                                         largest_code(n, codes, n.has(2)) *
                                             largest_code(n, weight_codes, n.has(3))));
}

}  // namespace

std::vector<OperatorRule> conv_rules() {
  const std::vector<std::string_view> windows{"auto_pad",     "dilations", "group",
                                              "kernel_shape", "pads",      "strides"};
  std::vector<std::string_view> fused = windows;
  fused.insert(fused.end(), {"activation", "activation_params"});
  return {
      onnx_rule("Conv", 1, {2, 3}, convert_conv, windows),
      onnx_rule("ConvInteger", 10, {2, 4}, convert_conv_integer, windows),
      contrib_rule("FusedConv", {2, 4}, convert_fused_conv, fused),
  };
}

}  // namespace llmc::importer
