#pragma once

#include <functional>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/plan/view.h"

/// Two rules for each operator, for loop nests: keeps_rows() and sizes_agree(). If an operator has
/// no case in one of them, nest_rules.cpp does not compile.
namespace llmc::plan {

/// A node, the dims of its operands and first result, and its constant operands. The row axes
/// follow from the types in `graph`.
struct RowAxes {
  const ir::Graph& graph;
  const ir::Node& node;
  std::function<ir::ConstantPtr(ir::ValueId)> constant;  // nullptr for other values
  /// Of the operands, for one row; nullptr if absent or unknown.
  std::vector<const Sizes*> dims;
  const Sizes* result_dims = nullptr;
};
/// Returns whether each row of the results depends only on the same row of the operands, so that
/// the operator can be computed token by token.
bool keeps_rows(const RowAxes& axes);

/// The sizes of a node's operands and results.
struct NodeSizes {
  const ir::Node& node;
  std::vector<const Sizes*> operands;  // nullptr if absent or unknown
  std::vector<const Sizes*> results;
};
/// Returns whether the sizes agree for all values of the open dims.
bool sizes_agree(const NodeSizes& sizes);

}  // namespace llmc::plan
