#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "compiler/ir/affine_index.h"
#include "compiler/ir/graph.h"

/// Index maps of view operators: the operand element of each result element, by one rule for each
/// operator. With r[k] the index of the result along its axis k and i[a] the index of the operand
/// along its axis a:
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
/// where lead = rank(result) - rank(operand). Axes that a rule does not mention are unchanged. Dims
/// may be symbolic.
namespace llmc::ir {

/// step * ((r[axis] / divisor) mod modulus)
struct IndexTerm {
  std::size_t axis = 0;  // of the result
  Dim step = 1, divisor = 1;
  std::optional<Dim> modulus = {};

  bool is_linear() const { return !modulus && divisor == Dim(1); }
};

/// Index along one axis of the operand: start + sum of terms, or the table's element at that place.
struct AxisIndex {
  Dim start = 0;
  std::vector<IndexTerm> terms;
  std::vector<std::int64_t> table;  // empty: none; all elements are >= 0

  /// k if the index is r[k].
  std::optional<std::size_t> result_axis() const;
  /// The index if it is the same for all elements of a result with `dims`.
  std::optional<Dim> fixed(const std::vector<Dim>& dims) const;
};

struct IndexMap {
  /// Result indices begin <= r[axis] < begin + size.
  struct Range {
    std::size_t axis = 0;
    Dim begin, size;
  };

  std::size_t operand = 0;      // which input of the node
  std::vector<AxisIndex> axes;  // of that input
  std::optional<Range> range;   // where the map applies; absent: everywhere
};

/// How index_maps reads integer operands (indices, starts, axes). Each function may be absent and
/// may return nullopt for unknown values.
struct IndexOperands {
  std::function<std::optional<std::vector<Dim>>(ValueId)> elements;
  std::function<std::optional<AffineIndex>(ValueId)> affine;  // preferred for indices of Gather
};

/// Whether the operator is Reshape, Squeeze or Unsqueeze: elements keep their row-major position.
bool is_reshape(const Op& op);
/// Whether index_maps has a rule for the operator: its results hold elements of its operands, at
/// places that do not depend on floats.
bool is_view(const Op& op);

/// Maps of result `slot` of `node`, whose types must be set: one for each operand of a Concat, one
/// for other view operators. Empty if the node is not a view or its map is unknown.
std::vector<IndexMap> index_maps(const Graph& graph, const Node& node, std::size_t slot,
                                 const IndexOperands& operands);

/// Rules as functions of dims.
IndexMap identity_map(std::size_t rank);
/// An empty `perm` reverses the axes.
IndexMap transpose_map(const std::vector<std::int64_t>& perm, std::size_t rank);
/// Requires that `from` broadcasts to `to` in one direction.
IndexMap expand_map(const std::vector<Dim>& from, const std::vector<Dim>& to);
/// nullopt if the dims have no common digits, such as [4, 6] and [3, 8].
std::optional<IndexMap> reshape_map(const std::vector<Dim>& from, const std::vector<Dim>& to);

/// `x`, a function of the operand's index, as a function of the result's index; nullopt if that is
/// not affine or overflows. Ignores `range`.
std::optional<AffineIndex> compose(const AffineIndex& x, const IndexMap& map,
                                   std::size_t result_rank);

/// The map restricted to the operand's axes from `operand_lead` on and the result's axes from
/// `result_lead` on; nullopt if leading and inner axes depend on each other.
std::optional<IndexMap> inner_axes(const IndexMap& map, std::size_t operand_lead,
                                   std::size_t result_lead);

/// One element of one of the operands, by its row-major position.
struct ElementSource {
  std::size_t operand = 0;
  std::int64_t element = 0;
};
/// The source of each element of a result with `dims`, row-major. operand_dims[m] are the dims of
/// the operand of maps[m]. nullopt if a map has symbols, reads out of range or leaves an element
/// undefined. The caller limits the number of elements.
std::optional<std::vector<ElementSource>> element_sources(
    const std::vector<IndexMap>& maps, const std::vector<std::vector<std::int64_t>>& operand_dims,
    const std::vector<std::int64_t>& dims);

}  // namespace llmc::ir
