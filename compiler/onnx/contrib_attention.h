#pragma once

#include <cstdint>

#include "compiler/onnx/node_context.h"

namespace llmc::importer {

/// Operands and attributes that the attention operators of com.microsoft share.
struct AttentionCore {
  ir::ValueId q, k, v;  // [B, heads, S, D], [B, kv_heads, T, D], [B, kv_heads, T, value_dim]
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0, value_dim = 0;
  double scale = 1, softcap = 0, hidden = -3.4028234663852886e38;  // hidden: masked score
  bool causal = false;
  std::int64_t window = 0;  // if causal: number of keys per query, including its own; 0: all
  ir::ValueId bias;         // added to the scores
  ir::ValueId visible;      // bool, false for masked keys; broadcast to the scores
};

/// Returns softmax(scale q k^T, with softcap, bias and masks) v as [B, S, heads * value_dim].
ir::ValueId attend_core(NodeContext& n, const AttentionCore& core);

/// Returns x [B, S, heads * D] as [B, S, heads, D].
ir::ValueId by_head(NodeContext& n, ir::ValueId x, std::int64_t heads);

}  // namespace llmc::importer
