#pragma once

#include "compiler/onnx/lowering.h"

/// Elementwise functions in f64, expressed by simpler operators: for operators whose intermediate
/// results lose precision or overflow in the type of their operand.
namespace llmc::importer {

/// Computes f(x) in f64 and rounds once to the type of x, the node's only operand.
template <ir::ValueId (*kFunction)(NodeContext&, ir::ValueId)>
void convert_in_f64(NodeContext& n) {
  const ir::ValueId x = n.in(0);
  if (n.failed()) return;
  const ir::ValueId y = kFunction(n, n.cast(x, ir::ElementType::kF64));
  if (!n.failed()) n.bind(0, n.cast(y, n.type(x).element));
}

/// Returns `yes` where the condition is true, `no` elsewhere.
inline ir::ValueId chosen(NodeContext& n, ir::ValueId condition, ir::ValueId yes, ir::ValueId no) {
  return n.make(ir::Where{}, {condition, yes, no});
}

/// exp(x) - 1 without cancellation: (u - 1) x / log(u) with u = exp(x), in which the error of u
/// cancels (Kahan; Higham, Accuracy and Stability of Numerical Algorithms, 1.14.1).
ir::ValueId exp_minus_1(NodeContext& n, ir::ValueId x);
/// log(1 + x) for x >= 0, up to 1 by the method of exp_minus_1.
ir::ValueId log_of_1_plus(NodeContext& n, ir::ValueId x);

}  // namespace llmc::importer
