#pragma once

#include <cstdint>
#include <vector>

#include "compiler/ir/graph.h"

/// The matrix products of a graph of stages that have constant weights.
namespace llmc::calibrate {

/// Returns whether the node is a Linear, QkvProjection or ExpertLinear.
bool is_matrix_product(const ir::Node& node);
/// Returns the number of row blocks of the node's weight that have separate inputs: the experts of
/// an ExpertLinear, otherwise 1.
std::size_t blocks_of(const ir::Node& node);
/// Returns the role of a product's weight.
ir::WeightRole role_of(const ir::Node& node);

/// A Linear, QkvProjection or ExpertLinear with a constant weight.
struct Product {
  std::size_t node = 0;         // index in the graph: the product, or the Loop that contains it
  std::int64_t iteration = -1;  // of this loop; -1: outside loops
  std::size_t inner = 0;        // index of the product in the loop's body
  ir::ConstantPtr weight;
};
/// Returns the products of a graph of stages in the order of execution.
std::vector<Product> products_of(const ir::Graph& stages);
/// Returns the node of a product.
const ir::Node& node_of(const ir::Graph& stages, const Product& product);

}  // namespace llmc::calibrate
