#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "compiler/ir/graph.h"

/// Evaluation of values that follow from positions and sizes alone, in graphs that compute one
/// token per call. In such a graph, dim `seq` counts the rows. Each row is one token with its own
/// past.
namespace llmc::importer {

/// Inputs that are known for each number of past tokens. A value may be kNoValue.
struct KnownInputs {
  ir::ValueId positions;    // the position of the token, which is the number of past tokens
  ir::ValueId ones;         // the padding mask of all keys
  ir::ValueId source_ones;  // the padding mask of the source
};

/// Sizes for which values are evaluated.
struct RowSizes {
  std::int64_t rows = 1, past = 0, source = 1;
};

/// A term f32[1, heads or 1, 1, past + 1], possibly without its first dims, that a graph adds to
/// the scores of a token and that depends only on the distance between the token and the key.
struct DistanceBias {
  std::int64_t heads = 1, distances = 1;
  std::vector<float> values;  // [distances][heads]; the last row is also for larger distances

  bool is_zero() const;
};

/// Integers that are the same for all rows, or the position of each row's token.
struct RowIntegers {
  /// start + rows * (number of rows) + past * (number of past tokens) + source * (rows of the
  /// source).
  struct Element {
    std::int64_t start = 0, rows = 0, past = 0, source = 0;

    /// Returns the integer for these sizes; nullopt if it overflows.
    std::optional<std::int64_t> at(const RowSizes& sizes) const;
  };
  std::size_t rank = 0;
  std::vector<Element> elements;

  /// Returns whether there is one element, the number of past tokens plus a constant.
  bool is_position() const;
};

/// Evaluates the values of a graph for one choice of sizes.
class RowEvaluation;

/// Evaluates values for several numbers of rows, past tokens and rows of the source. A result is
/// returned only if it agrees with all of these evaluations. Each evaluation has limited memory; a
/// value that needs more is unknown.
class RowAnalysis {
 public:
  RowAnalysis(const ir::Graph& graph, const KnownInputs& inputs);
  ~RowAnalysis();

  /// Returns `term` as a bias by distance; nullopt if it depends on anything else, or if it is not
  /// constant over the upper half of the evaluated distances.
  std::optional<DistanceBias> distance_bias(ir::ValueId term) const;
  /// Returns whether a term of the scores is 0 for all rows of the source, for all evaluated sizes.
  bool is_zero_for_sources(ir::ValueId term) const;
  /// Returns `value` as integers: at most 8 of rank 0 or 1, or a position of any rank. Returns
  /// nullopt for other values.
  std::optional<RowIntegers> integers(ir::ValueId value);

 private:
  static constexpr std::size_t kChoices = 8;  // choices of sizes for integers()

  const ir::Graph& graph_;
  const ir::UseDef uses_;
  const KnownInputs inputs_;
  std::array<std::unique_ptr<RowEvaluation>, kChoices> evaluations_;  // for integers()
};

}  // namespace llmc::importer
