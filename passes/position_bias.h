#pragma once

#include <map>
#include <optional>

#include "compiler/reference/tensor.h"
#include "passes/index_analysis.h"
#include "passes/mask_analysis.h"

/// Analysis of terms that depend on positions and are added to the scores of attention: relative
/// position bias (Raffel et al. 2020), ALiBi (Press et al. 2022).
namespace llmc::passes {

/// What a bias depends on besides the head.
enum class BiasIndex : std::uint8_t { kNothing, kDistance, kKey };

/// Returns the index on which the sum of two terms depends. Returns nullopt if a term is unknown,
/// or if one term depends on the distance and the other on the key.
std::optional<BiasIndex> combined(std::optional<BiasIndex> a, std::optional<BiasIndex> b);

/// Analyses values that are computed from positions alone: by elementwise operators, lookups in
/// constant tables and views of integers that are affine in their index (index_analysis.h). A whole
/// term may also be a slice of a constant table for all lengths, each row of which is an arithmetic
/// progression.
class PositionBias {
 public:
  PositionBias(const Rewriter& rw, IndexAnalysis& indices, MaskShape shape)
      : rw_(rw), indices_(indices), shape_(std::move(shape)) {}

  /// Returns whether the bias of query q and key k is a function of q - k, of k, or of neither;
  /// nullopt if it is none of these or unknown. The last axis of `value` is the keys, the one
  /// before it the queries.
  std::optional<BiasIndex> find(ir::ValueId value);

  /// Returns the bias of one query at position `count` - 1: f32[heads, count] of `count` keys.
  /// find() must have returned an index for `value`. Returns nullopt if it cannot be evaluated.
  std::optional<reference::Tensor> table(ir::ValueId value, std::int64_t heads, std::int64_t count);

 private:
  /// What an axis of a value is: a query or a key at position index + offset, or something else.
  struct Axis {
    enum class Kind : std::uint8_t { kOther, kQuery, kKey } kind = Kind::kOther;
    ir::Dim offset = 0;
    friend bool operator==(const Axis&, const Axis&) = default;
  };
  using Axes = std::vector<Axis>;

  std::optional<BiasIndex> find(ir::ValueId value, const Axes& axes);
  std::optional<BiasIndex> compute(ir::ValueId value, const Axes& axes);
  std::optional<BiasIndex> of_affine(const ir::AffineIndex& index, const Axes& axes) const;
  std::optional<BiasIndex> of_elementwise(const ir::Node& node, const Axes& axes);
  std::optional<BiasIndex> of_lookup(const ir::Node& node, const Axes& axes);
  bool is_slice_of_arithmetic_table(ir::ValueId value, const Axes& axes) const;
  std::optional<BiasIndex> of_view(const ir::Node& node, ir::ValueId value, const Axes& axes);
  /// Returns the elements of a value at the sizes `sizes_`; nullptr if they cannot be computed.
  const reference::Tensor* evaluate(ir::ValueId value);
  std::optional<reference::Tensor> compute_elements(ir::ValueId value);

  const Rewriter& rw_;
  IndexAnalysis& indices_;
  MaskShape shape_;
  int depth_ = 0;
  /// Results of find(). A value is queried with few different axes.
  std::map<ir::ValueId, std::vector<std::pair<Axes, std::optional<BiasIndex>>>> found_;
  std::map<std::string, std::int64_t> sizes_;                       // by symbol, for evaluate()
  std::map<ir::ValueId, std::optional<reference::Tensor>> values_;  // of evaluate()
};

}  // namespace llmc::passes
