// Convolutions.

#include <algorithm>

#include "compiler/onnx/lowering.h"
#include "compiler/onnx/operators.h"
#include "compiler/onnx/window.h"

namespace llmc::importer {
namespace {

using ir::BinaryKind;
using ir::ValueId;

/// Returns the number of windows along each spatial dim of x if they touch each other and cover x
/// (up to a rest at the end), so that each element is read at most once; otherwise nullopt.
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
/// linear layer.
void convert_patches(NodeContext& n, ValueId x, ValueId weight, ValueId bias, const Window& w,
                     const std::vector<std::int64_t>& counts) {
  const auto rank = static_cast<std::int64_t>(w.rank());
  const auto rows = known_dim(n, weight, 0), channels = known_dim(n, weight, 1);
  if (!rows || !channels) return n.unsupported("a weight of unknown size is not supported");
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
  ValueId y = n.make(ir::MatMul{}, {reshaped(n, moved, shape), matrix});
  if (bias.exists()) y = binary(n, BinaryKind::kAdd, y, bias);
  n.emit(ir::Transpose{back}, {y});
}

void convert_conv(NodeContext& n) {
  const ValueId x = n.in(0), weight = n.in(1), bias = n.optional_in(2);
  const std::int64_t groups = n.integer("group", 1);
  const auto w = window_of(n, x, kernel_of(n, weight));
  if (!w || n.failed()) return;
  if (!ir::is_float(n.type(x).element) || n.type(x).element == ir::ElementType::kF64)
    return n.unsupported("a convolution of " + ir::to_string(n.type(x)) + " is not supported");
  const auto counts = patches(n, x, *w);
  const bool one_group = groups == 1 && n.type(weight).rank() == n.type(x).rank() &&
                         ir::compatible(n.type(weight).dims[1], n.type(x).dims[1]);
  const bool bias_fits = !bias.exists() || n.rank(bias) == 1;
  if (counts && one_group && bias_fits) return convert_patches(n, x, weight, bias, *w, *counts);
  const ValueId source = w->has_pads() ? padded(n, x, w->pads_begin, w->pads_end, 0) : x;
  const ValueId y = n.make(ir::Conv{w->strides, w->dilations, groups}, {source, weight});
  n.bind(0, with_bias(n, y, bias));
}

}  // namespace

std::vector<OperatorRule> conv_rules() {
  return {
      {"",
       "Conv",
       1,
       kAnyLater,
       2,
       3,
       {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"},
       convert_conv},
  };
}

}  // namespace llmc::importer
