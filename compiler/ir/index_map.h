#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "compiler/ir/affine_index.h"
#include "compiler/ir/graph.h"

/// Index maps of view operators: which operand element each result element is. There is one rule
/// for each operator. r[k] is the index of the result along its axis k, and i[a] is the index of
/// the operand along its axis a:
///
///   Identity         i[a] = r[a]
///   Transpose        i[perm[k]] = r[k]
///   Squeeze          i[a] = r[k] for the k-th axis that is kept, 0 for those that are removed
///   Unsqueeze        i[a] = r[k], where k is the a-th axis that is not inserted
///   Expand           i[a] = r[a + lead], 0 if the operand has one element along a
///   Tile             i[a] = r[a + lead] mod dim(a)
///   Slice            i[a] = start[a] + step[a] * r[a]
///   Split            i[axis] = (sum of the sizes before this result) + r[axis]
///   Gather           i[axis] = indices[r[axis], …, r[axis + rank(indices) - 1]]
///   Concat           i[axis] = r[axis] - begin(n) for operand n, if begin(n) <= r[axis] <
///                    begin(n) + size(n): one map for each operand
///   Reshape          both indices are mixed-radix representations of the row-major position:
///                    i[a] = sum of step * ((r[k] / divisor) mod modulus) over the common digits
///
/// where lead = rank(result) - rank(operand). Rules do not list axes whose index is unchanged, nor
/// those after the axis of a Gather: i[a] = r[a + rank(indices) - 1]. Dims may be symbolic.
namespace llmc::ir {

/// step * ((r[axis] / divisor) mod modulus)
struct IndexTerm {
  std::size_t axis = 0;  // axis of the result
  Dim step = 1, divisor = 1;
  std::optional<Dim> modulus = {};

  bool is_linear() const { return !modulus && divisor == Dim(1); }
};

/// Index along one axis of the operand: start + sum of terms, or, with a table, table[start + sum
/// of terms].
struct AxisIndex {
  Dim start = 0;
  std::vector<IndexTerm> terms;
  std::vector<std::int64_t> table;  // empty: no table; all elements are >= 0

  /// Returns k if the index is r[k], otherwise nullopt.
  std::optional<std::size_t> result_axis() const;
  /// Returns the index if it is the same for all elements of a result with `dims`, otherwise
  /// nullopt.
  std::optional<Dim> fixed(const std::vector<Dim>& dims) const;
};

struct IndexMap {
  /// Result indices begin <= r[axis] < begin + size.
  struct Range {
    std::size_t axis = 0;
    Dim begin, size;
  };

  std::size_t operand = 0;      // position among the node's inputs
  std::vector<AxisIndex> axes;  // for each axis of the operand
  std::optional<Range> range;   // result indices to which the map applies; absent: all
};

/// Callbacks through which index_maps() reads integer operands (indices, starts, axes, steps). Each
/// may be empty, and may return nullopt for unknown values.
struct IndexOperands {
  std::function<std::optional<std::vector<Dim>>(ValueId)> elements;
  std::function<std::optional<AffineIndex>(ValueId)> affine;  // used first for indices of Gather
};

/// Returns whether the operator is Reshape, Squeeze or Unsqueeze, which keep the row-major position
/// of each element.
bool is_reshape(const Op& op);
inline bool is_reshape(const Node* node) {
  return node != nullptr && is_reshape(node->op);
}
/// Returns whether index_maps() has a rule for the operator: each result element is an element of
/// an operand, selected by its index and by integer operands.
bool is_view(const Op& op);

/// Returns the maps of output `slot` of `node`: one for each operand of a Concat, one for any other
/// view operator. Returns no map if the node is not a view or its map is unknown. The types of the
/// node's operands and outputs must be set.
std::vector<IndexMap> index_maps(const Graph& graph, const Node& node, std::size_t slot,
                                 const IndexOperands& operands);

/// Return the map of an Identity or a Transpose. An empty `perm` reverses the axes.
IndexMap identity_map(std::size_t rank);
IndexMap transpose_map(const std::vector<std::int64_t>& perm, std::size_t rank);
/// Returns the map of an Expand. `from` must be broadcastable to `to`.
IndexMap expand_map(const std::vector<Dim>& from, const std::vector<Dim>& to);
/// Returns the map of a Reshape, Squeeze or Unsqueeze; nullopt if the dims have no common digits,
/// such as [4, 6] and [3, 8].
std::optional<IndexMap> reshape_map(const std::vector<Dim>& from, const std::vector<Dim>& to);

/// Converts `x`, a function of the operand's index, to a function of the result's index. Returns
/// nullopt if that is not affine or overflows. Ignores `map.range`.
std::optional<AffineIndex> compose(const AffineIndex& x, const IndexMap& map,
                                   std::size_t result_rank);

/// Returns the map between the inner axes: those of the operand from `operand_lead` on and those of
/// the result from `result_lead` on. Returns nullopt if a leading axis depends on an inner one or
/// the reverse, or if `map.range` limits a leading axis.
std::optional<IndexMap> inner_axes(const IndexMap& map, std::size_t operand_lead,
                                   std::size_t result_lead);

/// One operand element.
struct ElementSource {
  std::size_t operand = 0;
  std::int64_t element = 0;
};
/// Returns the source of each element of a result with `dims`, row-major. operand_dims[m] are the
/// dims of the operand of maps[m]. Returns nullopt if a map is symbolic, an index is out of range,
/// or some result element is not defined by any map. The caller must limit the number of elements.
std::optional<std::vector<ElementSource>> element_sources(
    const std::vector<IndexMap>& maps, const std::vector<std::vector<std::int64_t>>& operand_dims,
    const std::vector<std::int64_t>& dims);

}  // namespace llmc::ir
