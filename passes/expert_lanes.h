#pragma once

#include <map>
#include <optional>
#include <vector>

#include "passes/match.h"

namespace llmc::passes {

/// One value for each expert, such as the result of its product.
using Lane = std::vector<ir::ValueId>;

/// Splits values that a graph computes for all experts at once, with the experts as first dim, into
/// one value for each expert:
///
///   f(x[1, T, K] . W[E, K, N])[E, T, N]  ->  f(x[T, K] . W[e, K, N])[T, N] for each e
class ExpertSplitter {
 public:
  /// `rows`: dims of the value of one expert, without the last one.
  ExpertSplitter(Rewriter& rw, std::int64_t experts, std::vector<ir::Dim> rows, NodeIndex anchor)
      : rw_(rw), experts_(experts), rows_(std::move(rows)), anchor_(anchor) {}

  /// Emits the value [rows…, N] of each expert for `value` [E, …, N], whose middle dims are `rows`
  /// except for dims of 1. A value without the first dim is the same for all experts. Returns
  /// nullopt if an operator mixes experts or cannot be split.
  std::optional<Lane> split(ir::ValueId value);

 private:
  std::optional<Lane> split_node(ir::ValueId value, const ir::Node& node);
  std::optional<Lane> split_constant(const ir::ConstantPtr& data, ir::ValueId value,
                                     std::size_t rank, bool matrix);
  std::optional<Lane> repeated(ir::ValueId value);
  std::optional<Lane> operand(ir::ValueId value, std::size_t rank, bool matrix);

  Rewriter& rw_;
  std::int64_t experts_;
  std::vector<ir::Dim> rows_;
  NodeIndex anchor_;
  std::map<ir::ValueId, std::optional<Lane>> known_;
  int depth_ = 0;
};

}  // namespace llmc::passes
