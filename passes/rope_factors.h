#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "passes/index_analysis.h"
#include "passes/match.h"

/// Analysis for fuse_rope: finds values that consist of the factors of rotations.
namespace llmc::passes {

/// A factor that depends only on the token: 1, a position p, an angle p*f, its cosine or sine, or a
/// column of a table of cosines or sines.
struct RopeFactor {
  enum class Kind : std::uint8_t { kOne, kPosition, kAngle, kCos, kSin, kColumn };
  Kind kind = Kind::kOne;
  ir::ValueId positions;    // integers, one for each token, or the input of kind kPositionAxes
  std::int64_t axis = 0;    // row of that input
  double frequency = 0;     // kAngle, kCos, kSin
  ir::ConstantPtr table;    // kColumn: f32[max_positions, n]
  std::int64_t column = 0;  // kColumn: the first column known to have the same elements
  friend bool operator==(const RopeFactor&, const RopeFactor&) = default;
};

/// The factors of a value, row-major over `shape`: the dims of the value, with the token dim
/// replaced by 1.
struct RopeFactors {
  std::vector<std::int64_t> shape;
  std::optional<std::size_t> tokens;  // axis of the tokens; absent for a single token
  std::vector<RopeFactor> elements;
};

/// Computes factors from positions through products with constants, lookups in tables, cosines and
/// sines, and views of any axes (ir/index_map.h). With multimodal RoPE, the frequencies for time,
/// height and width are factors with different RopeFactor::axis.
class RopeFactorAnalysis {
 public:
  /// Maximum numbers of factors of a value, of columns of a table, and of nested operators.
  static constexpr std::int64_t kMaxFactors = 1 << 14;
  static constexpr std::int64_t kMaxColumns = 1 << 12;
  static constexpr int kMaxDepth = 64;

  explicit RopeFactorAnalysis(const Rewriter& rw) : rw_(rw), indices_(rw) {}

  /// Returns the factors of `value`; nullptr if it contains anything else.
  const RopeFactors* find(ir::ValueId value);

 private:
  /// Returns the factors of `value` if all of them are positions, otherwise nullptr.
  const RopeFactors* positions(ir::ValueId value);
  std::optional<RopeFactors> one_position(ir::ValueId value);
  std::vector<ir::IndexMap> maps(const ir::Node& node, std::size_t slot);
  std::optional<RopeFactors> compute(ir::ValueId value);
  std::optional<RopeFactors> angles(const ir::Node& node, const ir::TensorType& type);
  std::optional<RopeFactors> columns(const ir::Node& node, const ir::TensorType& type);
  std::optional<RopeFactors> view(const ir::Node& node, ir::ValueId value);

  const Rewriter& rw_;
  IndexAnalysis indices_;
  std::map<ir::ValueId, std::optional<RopeFactors>> known_;
  std::map<ir::ConstantPtr, std::vector<std::int64_t>> columns_;  // canonical_columns by table
  int depth_ = 0;
};

}  // namespace llmc::passes
