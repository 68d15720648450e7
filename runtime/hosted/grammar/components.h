#pragma once

#include <cstdint>
#include <vector>

namespace llmc::hosted::grammar {

/// The strongly connected components of a graph.
struct Components {
  std::vector<std::uint32_t> nodes;  // component by component, those that one leads to before it
  std::vector<std::uint32_t> of;     // by node: its component, numbered in that order
  std::uint32_t count = 0;
};
/// `next`: by node, the nodes it leads to. R. Tarjan, "Depth-first search and linear graph
/// algorithms", 1972; without recursion.
Components components(const std::vector<std::vector<std::uint32_t>>& next);

}  // namespace llmc::hosted::grammar
