#include "passes/fusions.h"
#include "passes/match.h"

namespace llmc::passes {

namespace {

using ir::BinaryKind;
using ir::ValueId;

/// Returns the axis over which `value` reduces `x` while keeping it as a dim of 1; nullopt if it is
/// another operator or reduces several axes.
std::optional<std::size_t> reduced_axis(const Rewriter& rw, ValueId value, ir::ReduceKind kind,
                                        ValueId x) {
  const auto* reduce = rw.op<ir::Reduce>(value);
  if (!reduce || reduce->kind != kind || !reduce->keep_dims || reduce->axes.size() != 1 ||
      rw.producer(value)->inputs[0] != x)
    return std::nullopt;
  return ir::normalize_axis(reduce->axes[0], rw.type(x).rank());
}

struct SoftmaxParts {
  ValueId x;
  std::size_t axis = 0;
};

std::optional<SoftmaxParts> match_parts(const Rewriter& rw, ValueId value) {
  const auto quotient = binary(rw, value, BinaryKind::kDiv);
  const auto exponent = quotient ? unary(rw, quotient->left, ir::UnaryKind::kExp) : std::nullopt;
  const auto shifted = exponent ? binary(rw, *exponent, BinaryKind::kSub) : std::nullopt;
  if (!shifted || !ir::is_float(rw.type(value).element)) return std::nullopt;
  const auto axis = reduced_axis(rw, shifted->right, ir::ReduceKind::kMax, shifted->left);
  if (!axis || reduced_axis(rw, quotient->right, ir::ReduceKind::kSum, quotient->left) != axis)
    return std::nullopt;
  return SoftmaxParts{shifted->left, *axis};
}

}  // namespace

Result<ir::Graph> fuse_softmax(ir::Graph graph, const PassContext&) {
  return rewrite_nodes<ir::Binary>(std::move(graph), [](Rewriter& rw, NodeIndex i) {
    const ValueId result = rw.node(i).outputs[0];
    if (const auto found = match_parts(rw, result))
      rw.replace(result,
                 rw.emit(ir::Softmax{static_cast<std::int64_t>(found->axis)}, {found->x}, i));
  });
}

}  // namespace llmc::passes
