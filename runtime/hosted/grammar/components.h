#pragma once

#include <cstdint>
#include <vector>

namespace llmc::hosted::grammar {

/// The strongly connected components of a graph.
struct Components {
  /// Grouped by component; a component comes after the components that it can reach.
  std::vector<std::uint32_t> nodes;
  std::vector<std::uint32_t> of;  // by node: number of its component, in the same order
  std::uint32_t count = 0;
};
/// Returns the components of the graph in which node n has the successors next[n]. An iterative
/// form of R. Tarjan, "Depth-first search and linear graph algorithms", 1972.
Components components(const std::vector<std::vector<std::uint32_t>>& next);

}  // namespace llmc::hosted::grammar
