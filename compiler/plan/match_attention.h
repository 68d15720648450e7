#pragma once

#include <optional>
#include <vector>

#include "compiler/ir/graph.h"

namespace llmc::plan {

/// softmax(scale * q k + bias, last dim) v as a graph spells it, k being [.., dim, keys] already;
/// or with a mask, softmax(where(mask, scale * q k, fill)) v. No dim of the products is 0.
struct AttentionPattern {
  ir::ValueId q, k, v;
  float scale = 1;
  ir::ValueId bias = ir::kNoValue;  // added to the scores
  ir::ValueId mask = ir::kNoValue;  // bool: where it is `kept` the score stays, else `fill`
  bool kept = true;
  float fill = 0;
  std::vector<const ir::Node*> inner;  // nodes whose results nobody else reads
};

/// The attention whose last product is `product`; nullopt for anything that is not exactly one.
/// A mask's fill is not 0, which a kernel takes for 'nothing hidden'.
std::optional<AttentionPattern> match_attention(const ir::Graph& graph, const ir::UseDef& uses,
                                                const ir::Node& product);

}  // namespace llmc::plan
