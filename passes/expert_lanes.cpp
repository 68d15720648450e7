#include "passes/expert_lanes.h"

#include <algorithm>
#include <numeric>

namespace llmc::passes {

namespace {

using ir::Dim;
using ir::ValueId;

constexpr int kMaxNesting = 200;

}  // namespace

/// Returns x [rows…, N] for each expert if `value` is x, or repeats x along the first dim.
std::optional<Lane> ExpertSplitter::repeated(ValueId value) {
  const std::vector<Dim> dims = rw_.type(value).dims;
  std::vector<Dim> one = rows_;
  one.push_back(dims.back());
  const auto lane_of = [&](ValueId x) -> std::optional<Lane> {
    if (without_ones(rw_.type(x).dims) != without_ones(one)) return std::nullopt;
    const ValueId shaped = emit_reshape(rw_, x, one, anchor_);
    if (!shaped.exists()) return std::nullopt;
    return Lane(static_cast<std::size_t>(experts_), shaped);
  };
  if (without_ones(dims) == without_ones(one)) return lane_of(value);  // broadcast
  if (rw_.op<ir::Expand>(value)) return lane_of(rw_.producer(value)->inputs[0]);
  // Copies stacked along the rows: [E * T, N] as [E, T, N].
  const ValueId copies = strip_views(rw_, value);
  if (rw_.op<ir::Expand>(copies) && rw_.type(copies).dims[0] == Dim(experts_))
    return lane_of(rw_.producer(copies)->inputs[0]);
  if (!rw_.op<ir::Tile>(copies)) return std::nullopt;
  const ir::Node& tile = *rw_.producer(copies);
  const auto repeats = integer_constant(rw_, tile.inputs[1]);
  if (!repeats || (*repeats)[0] != experts_ ||
      std::accumulate(repeats->begin(), repeats->end(), std::int64_t{1}, std::multiplies<>()) !=
          experts_)
    return std::nullopt;
  return lane_of(tile.inputs[0]);
}

std::optional<Lane> ExpertSplitter::split_constant(const ir::ConstantPtr& data, ValueId value,
                                                   std::size_t rank, bool matrix) {
  const std::vector<std::int64_t>& dims = data->dims();
  // One constant for all experts: it has fewer dims, which are aligned at the end.
  if (dims.size() < rank || dims[0] != experts_) {
    const bool fits = dims.size() <= 1 || data->element_count() == 1;
    if (matrix || !fits) return std::nullopt;
    if (dims.size() <= 1) return Lane(static_cast<std::size_t>(experts_), value);
    const ValueId element = rw_.emit_constant(ir::reshaped(data, {1}), anchor_);
    return Lane(static_cast<std::size_t>(experts_), element);
  }
  const std::int64_t size = data->element_count() / std::max<std::int64_t>(experts_, 1);
  const std::int64_t last = dims.back();
  if (last < 1 || (!matrix && size != last)) return std::nullopt;
  const ir::ConstantPtr all = ir::reshaped(data, {experts_ * (size / last), last});
  Lane lane;
  for (std::int64_t e = 0; e < experts_; ++e) {
    std::vector<std::int64_t> rows(static_cast<std::size_t>(size / last));
    std::iota(rows.begin(), rows.end(), e * (size / last));
    ir::ConstantPtr part = ir::reorder_rows(all, std::move(rows));
    if (!matrix) part = ir::reshaped(part, {last});
    const std::string name = rw_.name(value);
    lane.push_back(rw_.emit_constant(std::move(part), anchor_,
                                     name.empty() ? name : name + "[" + std::to_string(e) + "]"));
  }
  return lane;
}

std::optional<Lane> ExpertSplitter::operand(ValueId value, std::size_t rank, bool matrix) {
  if (const ir::ConstantPtr data = rw_.constant(value))
    return split_constant(data, value, matrix ? 3 : rank, matrix);
  if (const auto* cast = rw_.op<ir::Cast>(value);
      cast && rw_.constant(rw_.producer(value)->inputs[0])) {  // weights of a narrower type
    const ir::Cast widening = *cast;
    auto lane = operand(rw_.producer(value)->inputs[0], rank, matrix);
    if (!lane) return std::nullopt;
    for (ValueId& part : *lane) part = rw_.emit(widening, {part}, anchor_);
    return lane;
  }
  if (!matrix) return split(value);
  // A transposed stack of matrices.
  const auto* transpose = rw_.op<ir::Transpose>(value);
  if (!transpose || transpose->perm != std::vector<std::int64_t>{0, 2, 1}) return std::nullopt;
  const ir::ConstantPtr data = rw_.constant(rw_.producer(value)->inputs[0]);
  auto lane = data ? split_constant(data, rw_.producer(value)->inputs[0], 3, true) : std::nullopt;
  if (!lane) return std::nullopt;
  for (ValueId& part : *lane) part = rw_.emit(ir::Transpose{{1, 0}}, {part}, anchor_);
  return lane;
}

std::optional<Lane> ExpertSplitter::split(ValueId value) {
  if (const auto known = known_.find(value); known != known_.end()) return known->second;
  const std::vector<Dim> dims = rw_.type(value).dims;
  const ir::Node* node = rw_.producer(value);
  if (depth_ >= kMaxNesting || dims.size() < 2) return std::nullopt;
  std::vector<Dim> one = rows_;
  one.push_back(dims.back());
  std::optional<Lane> lane = repeated(value);
  if (!lane && node && dims[0] == Dim(experts_) &&
      without_ones({dims.begin() + 1, dims.end()}) == without_ones(one)) {
    ++depth_;
    lane = split_node(value, *node);
    --depth_;
    if (lane && rw_.type(lane->front()).dims != one) lane = std::nullopt;
  }
  return known_[value] = lane;
}

std::optional<Lane> ExpertSplitter::split_node(ValueId value, const ir::Node& node) {
  if (ir::is_reshape(node.op)) {  // only dims of 1 may change; the experts stay the first dim
    const auto& from = rw_.type(node.inputs[0]).dims;
    return !from.empty() && without_ones(from) == without_ones(rw_.type(value).dims) &&
                   from[0] == Dim(experts_)
               ? split(node.inputs[0])
               : std::nullopt;
  }
  ir::Op op = node.op;
  const bool product = std::holds_alternative<ir::MatMul>(op);
  const bool slice = std::holds_alternative<ir::Slice>(op);
  const std::size_t rank = rw_.type(value).rank(), slot = rw_.slot(value);
  if (auto* parts = std::get_if<ir::Split>(&op)) {
    if (!is_last_axis(parts->axis, rank) || node.inputs.size() != 1) return std::nullopt;
    parts->axis = static_cast<std::int64_t>(rows_.size());
  } else if (!product && !slice &&
             !ir::is_any<ir::Unary, ir::Binary, ir::Where, ir::Cast, ir::GatedActivation>(op)) {
    return std::nullopt;
  }
  std::vector<Lane> operands;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (!node.inputs[i].exists()) return std::nullopt;
    if (slice && i > 0) {
      const auto numbers = integer_constant(rw_, node.inputs[i]);
      if (!numbers || numbers->size() != 1 || (i == 3 && !is_last_axis(*numbers, rank)))
        return std::nullopt;
      const ValueId same = i == 3 ? emit_integers(rw_, {-1}, anchor_) : node.inputs[i];
      operands.emplace_back(static_cast<std::size_t>(experts_), same);
      continue;
    }
    auto lane = operand(node.inputs[i], rank, product && i == 1);
    if (!lane) return std::nullopt;
    operands.push_back(*std::move(lane));
  }
  if (slice && operands.size() < 4) return std::nullopt;
  Lane lane;
  for (std::size_t e = 0; e < static_cast<std::size_t>(experts_); ++e) {
    std::vector<ValueId> inputs;
    for (const Lane& from : operands) inputs.push_back(from[e]);
    lane.push_back(rw_.emit_all(op, std::move(inputs), anchor_)[slot]);
  }
  return lane;
}

}  // namespace llmc::passes
