#include <array>

#include "passes/index_analysis.h"
#include "passes/transforms.h"

namespace llmc::passes {

namespace {

using ir::AffineIndex;
using ir::Dim;
using ir::ValueId;

/// The number factor * (past + seq) + offset.
struct Length {
  std::int64_t factor = 0, offset = 0;
};

/// Returns `number` as a Length; nullopt if it does not have this form.
std::optional<Length> length_of(const std::optional<Dim>& number) {
  if (!number) return std::nullopt;
  if (number->is_constant()) return Length{0, number->constant_part()};
  const auto& terms = number->terms();
  const auto past = terms.find("past"), seq = terms.find("seq");
  if (terms.size() != 2 || past == terms.end() || seq == terms.end() || past->second != seq->second)
    return std::nullopt;
  return Length{past->second, number->constant_part()};
}

/// Returns whether `d kind 0` holds for all lengths from 1 to `context`; nullopt if it holds for
/// some of them only. It suffices to evaluate the first and the last length, because `d` is linear
/// and `kind` is an ordering.
std::optional<bool> truth(ir::BinaryKind kind, const AffineIndex& d, std::int64_t context) {
  std::optional<bool> result;
  for (const std::int64_t length : {std::int64_t{1}, context}) {
    const auto number = d.start.evaluate({{"past", length - 1}, {"seq", 1}});
    if (!number) return std::nullopt;
    const auto holds = ir::holds_everywhere(kind, ir::uniform_index(Dim(*number), 0), {});
    if (!holds || (result && result != holds)) return std::nullopt;
    result = holds;
  }
  return result;
}

class LengthComparisons {
 public:
  LengthComparisons(Rewriter& rw, const PassContext& context)
      : rw_(rw), indices_(rw), context_(context.options.context) {}

  /// Replaces the result of node `i` if it compares a length with a number.
  void replace(NodeIndex i) {
    const ir::Node& node = rw_.node(i);
    const auto* op = std::get_if<ir::Binary>(&node.op);
    const ValueId result = node.outputs[0];
    const bool orders =
        op && (op->kind == ir::BinaryKind::kLess || op->kind == ir::BinaryKind::kLessOrEqual ||
               op->kind == ir::BinaryKind::kGreater || op->kind == ir::BinaryKind::kGreaterOrEqual);
    if (!orders || ir::element_count(rw_.type(result)) != 1 || rw_.is_output(result)) return;
    const auto left = indices_.uniform(node.inputs[0]), right = indices_.uniform(node.inputs[1]);
    const std::array<std::optional<Length>, 2> lengths{length_of(left), length_of(right)};
    const auto d = indices_.difference(node);
    if (!lengths[0] || !lengths[1] || !d || lengths[0]->factor == lengths[1]->factor) return;
    if (const auto known = truth(op->kind, *d, context_)) {
      const std::vector<std::int64_t> dims(rw_.type(result).rank(), 1);
      const auto bit = static_cast<std::byte>(*known ? 1 : 0);
      rw_.replace(result,
                  rw_.emit_constant(ir::make_constant(ir::ElementType::kBool, dims, {bit}), i));
      return;
    }
    std::vector<ValueId> inputs = node.inputs;
    for (std::size_t k = 0; k < 2; ++k)
      if (lengths[k]->factor != 0) inputs[k] = of_call(*lengths[k], inputs[k], i);
    if (inputs[0].exists() && inputs[1].exists())
      rw_.replace(result, rw_.emit(ir::Binary{op->kind}, std::move(inputs), i));
  }

 private:
  /// Emits `length`, computed from the input last_position, with the type of `like`. Returns
  /// kNoValue for multiples of the length.
  ValueId of_call(const Length& length, ValueId like, NodeIndex anchor) {
    if (length.factor != 1) return ir::kNoValue;
    const ir::TensorType type = rw_.type(like);
    if (!last_position_.exists())
      last_position_ = rw_.add_input(
          {"last_position", {ir::ElementType::kI64, {}}, ir::InputKind::kLastPosition});
    ValueId value = last_position_;
    if (length.offset != -1) {
      const ValueId more = rw_.emit_constant(ir::make_i64({}, {length.offset + 1}), anchor);
      value = rw_.emit(ir::Binary{ir::BinaryKind::kAdd}, {value, more}, anchor);
    }
    value = emit_reshape(rw_, value, type.dims, anchor);
    if (value.exists() && type.element != ir::ElementType::kI64)
      value = rw_.emit(ir::Cast{type.element}, {value}, anchor);
    return value;
  }

  Rewriter& rw_;
  IndexAnalysis indices_;
  std::int64_t context_;
  ValueId last_position_;
};

}  // namespace

Result<ir::Graph> choose_by_length(ir::Graph graph, const PassContext& context) {
  Rewriter rw(std::move(graph));
  LengthComparisons comparisons(rw, context);
  for (const NodeIndex i : rw.nodes<ir::Binary>()) comparisons.replace(i);
  return std::move(rw).finish();
}

}  // namespace llmc::passes
