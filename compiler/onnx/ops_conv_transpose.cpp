// Transposed convolution, as a convolution of its operand with zeros between the elements.

#include <algorithm>

#include "compiler/onnx/lowering.h"
#include "compiler/onnx/operators.h"
#include "compiler/onnx/window.h"

namespace llmc::importer {
namespace {

using ir::ValueId;

/// Sets the pads that 'output_shape' or 'auto_pad' asks for; `added` is 'output_padding'.
void set_pads(NodeContext& n, const std::vector<std::int64_t>& sizes, const std::string& mode,
              const std::vector<std::int64_t>& added, Window& w) {
  auto wanted = n.integers("output_shape");
  if (!wanted && (mode == "SAME_UPPER" || mode == "SAME_LOWER")) {
    wanted.emplace();
    for (std::size_t d = 0; d < sizes.size(); ++d) wanted->push_back(sizes[d] * w.strides[d]);
  }
  if (!wanted) return;
  // Some exporters repeat the batch size and the number of channels.
  if (wanted->size() == w.rank() + 2) wanted->erase(wanted->begin(), wanted->begin() + 2);
  if (wanted->size() != w.rank())
    return n.bad("attribute 'output_shape' does not have " + std::to_string(w.rank()) + " numbers");
  for (std::size_t d = 0; d < w.rank(); ++d) {
    const std::int64_t full = (sizes[d] - 1) * w.strides[d] + added[d] + w.extent(d);
    if ((*wanted)[d] < 1 || (*wanted)[d] > full + (std::int64_t{1} << 24))
      return n.bad("attribute 'output_shape' has an invalid size");
    // A larger output gets more elements at the end.
    const std::int64_t total = full - (*wanted)[d], half = std::max<std::int64_t>(total, 0) / 2;
    w.pads_begin[d] = mode == "SAME_UPPER" ? half : std::max<std::int64_t>(total, 0) - half;
    w.pads_end[d] = total - w.pads_begin[d];
  }
}

/// Returns x with stride - 1 zeros after each element of the spatial dims.
ValueId spread_out(NodeContext& n, ValueId x, const std::vector<std::int64_t>& sizes,
                   const std::vector<std::int64_t>& strides) {
  if (std::ranges::all_of(strides, [](std::int64_t stride) { return stride == 1; })) return x;
  const std::size_t rank = sizes.size();
  std::vector<std::int64_t> split{0, 0}, pads(2 * (2 + 2 * rank), 0), whole{0, 0};
  for (std::size_t d = 0; d < rank; ++d) {
    split.insert(split.end(), {sizes[d], 1});
    pads[2 + 2 * rank + 2 + 2 * d + 1] = strides[d] - 1;
    whole.push_back(sizes[d] * strides[d]);
  }
  const ValueId spread = n.make(ir::Pad{}, {reshaped(n, x, split), n.make_integers(pads)});
  return reshaped(n, spread, whole);
}

/// Returns weight[C, M / groups, kernel…] as [M, C / groups, kernel…], with its taps reversed.
ValueId transposed_weight(NodeContext& n, ValueId weight, std::int64_t groups) {
  const std::int64_t rank = n.rank(weight);
  const auto channels = known_dim(n, weight, 0), rows = known_dim(n, weight, 1);
  if (!channels || !rows || groups < 1 || *channels % groups != 0)
    return n.bad("the weight " + ir::to_string(n.type(weight)) + " does not divide into " +
                 std::to_string(groups) + " groups"),
           ir::kNoValue;
  std::vector<std::int64_t> split{groups, *channels / groups, *rows},
      joined{groups * *rows, *channels / groups};
  std::vector<std::int64_t> order{0, 2, 1};
  for (std::int64_t d = 2; d < rank; ++d) {
    split.push_back(*known_dim(n, weight, d));
    joined.push_back(split.back());
    order.push_back(d + 1);
  }
  const auto spatial = static_cast<std::size_t>(rank - 2);
  const ValueId reversed =
      n.make(ir::Slice{}, {weight, n.make_integers(std::vector<std::int64_t>(spatial, -1)),
                           n.make_integers(std::vector<std::int64_t>(spatial, INT64_MIN)),
                           n.make_integers(axis_range(2, rank)),
                           n.make_integers(std::vector<std::int64_t>(spatial, -1))});
  return reshaped(n, n.make(ir::Transpose{order}, {reshaped(n, reversed, split)}), joined);
}

void convert_conv_transpose(NodeContext& n) {
  const ValueId x = n.in(0), weight = n.in(1), bias = n.optional_in(2);
  const std::int64_t groups = n.integer("group", 1);
  std::string mode;
  auto w = explicit_window(n, x, kernel_of(n, weight), mode);
  if (!w || n.failed()) return;
  if (!ir::is_float(n.type(x).element) || n.type(x).element == ir::ElementType::kF64)
    return n.unsupported("a convolution of " + ir::to_string(n.type(x)) + " is not supported");
  std::vector<std::int64_t> sizes;
  for (std::size_t d = 0; d < w->rank(); ++d) {
    const auto size = known_dim(n, x, static_cast<std::int64_t>(d) + 2);
    if (!size)
      return n.unsupported("needs the sizes of its operand " + ir::to_string(n.type(x)),
                           "give them with --dim name=value");
    sizes.push_back(*size);
  }
  const auto added = n.integers("output_padding").value_or(std::vector<std::int64_t>(w->rank(), 0));
  if (added.size() != w->rank() || std::ranges::any_of(added, [](std::int64_t a) {
        return a < 0 || a > (std::int64_t{1} << 24);
      }))
    return n.bad("attribute 'output_padding' is invalid");
  set_pads(n, sizes, mode, added, *w);
  const ValueId matrix = transposed_weight(n, weight, groups);
  if (n.failed()) return;
  std::vector<std::int64_t> begin, end;
  for (std::size_t d = 0; d < w->rank(); ++d) {
    begin.push_back(w->extent(d) - 1 - w->pads_begin[d]);
    // spread_out() leaves stride - 1 zeros after the last element.
    end.push_back(w->extent(d) - 1 - w->pads_end[d] + added[d] - (w->strides[d] - 1));
  }
  const ValueId source = padded(n, spread_out(n, x, sizes, w->strides), begin, end, 0);
  const ValueId y = n.make(ir::Conv{std::vector<std::int64_t>(w->rank(), 1), w->dilations, groups},
                           {source, matrix});
  n.bind(0, with_bias(n, y, bias));
}

}  // namespace

std::vector<OperatorRule> conv_transpose_rules() {
  return {
      onnx_rule("ConvTranspose", 1, {2, 3}, convert_conv_transpose,
                {"auto_pad", "dilations", "group", "kernel_shape", "output_padding", "output_shape",
                 "pads", "strides"}),
  };
}

}  // namespace llmc::importer
