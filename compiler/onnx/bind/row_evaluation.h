#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "compiler/ir/graph.h"

/// Values of a graph of one token per call that follow from positions and sizes alone. In such a
/// graph the dims `seq` are the rows, each of which is one token with its own past.
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
/// the scores of a token and that depends on the distance between the token and the key.
struct DistanceBias {
  std::int64_t heads = 1, distances = 1;
  std::vector<float> values;  // f32[distances][heads]; of larger distances: the last ones

  bool is_zero() const;
};

/// Integers that are the same for all rows, or the position of each row's token.
struct RowIntegers {
  /// start + rows * (number of rows) + past * (number of past tokens) + source * (rows of the
  /// source).
  struct Element {
    std::int64_t start = 0, rows = 0, past = 0, source = 0;

    /// Returns the integer for these sizes; nullopt if it does not fit.
    std::optional<std::int64_t> at(const RowSizes& sizes) const;
  };
  std::size_t rank = 0;
  std::vector<Element> elements;

  /// Returns whether it is one element that grows with each past token.
  bool is_position() const;
};

/// The values of a graph for one choice of sizes.
class RowEvaluation;

/// Evaluates values for several numbers of rows, past tokens and rows of the source. Results are
/// what all of these evaluations agree with. Each evaluation has limited memory; a value that
/// needs more is unknown.
class RowAnalysis {
 public:
  RowAnalysis(const ir::Graph& graph, const KnownInputs& inputs);
  ~RowAnalysis();

  /// Returns the bias by distance that `term` is; nullopt if it is none, or one that differs for
  /// distances beyond those of known models.
  std::optional<DistanceBias> distance_bias(ir::ValueId term) const;
  /// Returns whether a term of the scores is 0 for all rows of any source.
  bool is_zero_for_sources(ir::ValueId term) const;
  /// Returns at most 8 integers of rank 0 or 1, or a position of any rank; nullopt for other
  /// values.
  std::optional<RowIntegers> integers(ir::ValueId value);

 private:
  static constexpr std::size_t kChoices = 8;  // of sizes for integers

  const ir::Graph& graph_;
  const ir::UseDef uses_;
  const KnownInputs inputs_;
  std::array<std::unique_ptr<RowEvaluation>, kChoices> evaluations_;  // of integers
};

}  // namespace llmc::importer
