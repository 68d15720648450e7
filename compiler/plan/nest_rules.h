#pragma once

#include <functional>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/plan/view.h"

/// Rules of operators that run as loop nests. Each operator has a line in both; without one,
/// nest_rules.cpp does not compile.
namespace llmc::plan {

/// The row axes of a node's operands and first result, and its constant operands.
struct RowAxes {
  const ir::Graph& graph;
  const ir::Node& node;
  std::function<ir::ConstantPtr(ir::ValueId)> constant;  // nullptr for other values
  std::vector<const Sizes*> dims;                        // of the operands, for one row
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
