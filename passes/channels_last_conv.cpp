#include <algorithm>

#include "passes/channels.h"
#include "passes/match.h"
#include "passes/transforms.h"

namespace llmc::passes {

namespace {

using ir::ValueId;

/// Sizes of a block and a panel of quantized matrices. Smaller matrices would mostly be padding, so
/// they keep floats.
constexpr std::int64_t kMinColumns = 32, kMinRows = 8;
/// Minimum number of channels of a depthwise convolution: a vector.
constexpr std::int64_t kMinChannels = 8;
constexpr std::int64_t kMaxColumns = std::int64_t{1} << 24;

/// Returns the weight [M, K] of the layer from that of the convolution, [M, C, kernel…]: C is
/// innermost in a row.
ir::ConstantPtr matrix_of(const ir::ConstantPtr& weight) {
  const std::vector<std::int64_t>& dims = weight->dims();
  const std::int64_t channels = dims[1], columns = weight->element_count() / dims[0];
  const std::int64_t taps = columns / channels;
  const ir::ConstantPtr matrix = ir::reshaped(weight, {dims[0], columns});
  if (channels == 1 || taps == 1) return matrix;
  std::vector<std::int64_t> order;
  for (std::int64_t tap = 0; tap < taps; ++tap)
    for (std::int64_t c = 0; c < channels; ++c) order.push_back(c * taps + tap);
  return ir::transposed(ir::reorder_rows(ir::transposed(matrix), std::move(order)));
}

/// Returns the float constant (not f64) that is `value` or the operand of a Cast to f32 with this
/// result; otherwise nullptr.
ir::ConstantPtr weight_constant(const Rewriter& rw, ValueId value) {
  if (const auto* cast = rw.op<ir::Cast>(value); cast && cast->to == ir::ElementType::kF32)
    value = rw.producer(value)->inputs[0];
  const ir::ConstantPtr data = rw.constant(value);
  return data && ir::is_float(data->element()) && data->element() != ir::ElementType::kF64
             ? data
             : nullptr;
}

/// Returns the only node that reads `value`; nullptr if there are several or `value` is an output.
const ir::Node* only_user(const Rewriter& rw, ValueId value) {
  return rw.use_count(value) == 1 && rw.users(value).size() == 1 ? &rw.node(rw.users(value)[0])
                                                                 : nullptr;
}

/// Returns the bias f32[rows] that `user` adds to each channel of `product`, or nullptr.
ir::ConstantPtr added_bias(const Rewriter& rw, const ir::Node* user, ValueId product,
                           std::int64_t rows) {
  const auto* add = ir::op_as<ir::Binary>(user);
  if (!add || add->kind != ir::BinaryKind::kAdd) return nullptr;
  const ValueId bias = user->inputs[user->inputs[0] == product ? 1 : 0];
  const ir::ConstantPtr data = rw.constant(bias);
  const std::size_t rank = rw.type(product).rank();
  if (!data || data->element() != ir::ElementType::kF32 || data->element_count() != rows ||
      data->dims().size() > rank || data->dims().size() + 1 < rank)
    return nullptr;
  return data->dims()[data->dims().size() + 1 - rank] == rows ? ir::reshaped(data, {rows})
                                                              : nullptr;
}

/// Returns `x` with its channels last. Moves a Pad that nothing else reads after the transpose, so
/// that one copy does both.
ValueId moved_channels(Rewriter& rw, ValueId x, NodeIndex i) {
  const ir::Transpose last{channels_last(rw.type(x).rank())};
  const ir::Node* pad = rw.producer(x);
  if (!ir::op_as<ir::Pad>(pad) || !integer_constant(rw, pad->inputs[1]) || rw.use_count(x) != 1)
    return rw.emit(last, {x}, i);
  return pad_channels_last(rw, *pad, rw.emit(last, {pad->inputs[0]}, i), i);
}

/// Replaces `result` by `value`, which has the channels last.
void replace_by_channels_last(Rewriter& rw, ValueId result, ValueId value, NodeIndex i) {
  rw.replace(result, rw.emit(ir::Transpose{channels_first(rw.type(value).rank())}, {value}, i));
}

/// Converts a convolution of each channel with a kernel of its own.
void convert_depthwise(Rewriter& rw, NodeIndex i, const ir::ConstantPtr& weight) {
  const ir::Node& node = rw.node(i);
  const auto& op = std::get<ir::Conv>(node.op);
  const std::int64_t channels = weight->dims()[0];
  if (channels < kMinChannels) return;
  const ValueId result = node.outputs[0], w = node.inputs[1];
  std::vector<std::int64_t> dims(weight->dims().begin() + 2, weight->dims().end());
  const ir::ConstantPtr taps = ir::reshaped(weight, {channels, weight->element_count() / channels});
  dims.push_back(channels);
  const ValueId x = moved_channels(rw, node.inputs[0], i);
  const ValueId kernel =
      rw.emit_constant(ir::reshaped(ir::transposed(taps), std::move(dims)), i, rw.name(w));
  replace_by_channels_last(rw, result,
                           rw.emit(ir::DepthwiseConv{op.strides, op.dilations}, {x, kernel}, i), i);
}

/// Returns whether each channel has a kernel of its own.
bool is_depthwise(const ir::Conv& op, const ir::TensorType& weight) {
  return op.groups > 1 && weight.dims[0] == ir::Dim(op.groups) && weight.dims[1] == ir::Dim(1);
}

/// Returns whether at least a sixth of the convolutions have groups and are not depthwise. They
/// need the channels first, so the transposes around them would cost more than float layers gain.
bool has_many_groups(const ir::Graph& graph) {
  constexpr int kPart = 6;
  int all = 0, grouped = 0;
  for (const ir::Node& node : graph.nodes()) {
    const auto* conv = ir::op_as<ir::Conv>(&node);
    if (!conv) continue;
    ++all;
    if (conv->groups > 1 && !is_depthwise(*conv, graph.value(node.inputs[1]).type)) ++grouped;
  }
  return grouped > 0 && grouped * kPart >= all;
}

void convert(Rewriter& rw, NodeIndex i) {
  const ir::Node& node = rw.node(i);
  const auto& op = std::get<ir::Conv>(node.op);
  const ValueId x = node.inputs[0], w = node.inputs[1];
  const ir::ConstantPtr weight = weight_constant(rw, w);
  if (!weight || weight->element_count() == 0 || !is_f32(rw, x) ||
      weight->dims().size() != rw.type(x).rank())
    return;
  if (is_depthwise(op, rw.type(w)) && weight->element() == ir::ElementType::kF32)
    return convert_depthwise(rw, i, weight);
  if (op.groups != 1) return;
  const std::int64_t rows = weight->dims()[0], columns = weight->element_count() / rows;
  if (columns > kMaxColumns) return;
  ValueId result = node.outputs[0];
  const ir::Origin origin = rw.origin(result);
  const ir::Node* user = only_user(rw, result);
  const ir::ConstantPtr bias = added_bias(rw, user, result, rows);
  const std::string name = rw.name(w);

  const std::vector<std::int64_t> kernel(weight->dims().begin() + 2, weight->dims().end());
  const auto is_one = [](std::int64_t n) { return n == 1; };
  ValueId source = moved_channels(rw, x, i);
  if (!std::ranges::all_of(kernel, is_one) || !std::ranges::all_of(op.strides, is_one))
    source = rw.emit(ir::Unfold{kernel, op.strides, op.dilations}, {source}, i);
  std::vector<ValueId> inputs{source, rw.emit_constant(matrix_of(weight), i, name)};
  if (bias) {
    const ValueId added = user->inputs[user->inputs[0] == result ? 1 : 0];
    inputs.push_back(rw.emit_constant(bias, i, rw.name(added)));
    result = user->outputs[0];
  }
  ir::Linear layer;
  if (rows < kMinRows || columns < kMinColumns) layer.format = ir::WeightFormat::kF32;
  const ValueId product = rw.emit(layer, std::move(inputs), i);
  rw.set_origin(product, origin);
  replace_by_channels_last(rw, result, product, i);
}

}  // namespace

Result<ir::Graph> channels_last_conv(ir::Graph graph, const PassContext& context) {
  if (!ir::is_quantized(context.options.weights.format) && has_many_groups(graph)) return graph;
  return rewrite_nodes<ir::Conv>(std::move(graph), convert);
}

}  // namespace llmc::passes
