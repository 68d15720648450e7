#pragma once

#include "passes/match.h"

/// When a mask lets query i of S new tokens see exactly the keys 0 .. P+i.
namespace llmc::passes {

/// The name under which importers pass the additive mask. Exporters' runtimes fill it with 0 where
/// a key may be seen and the type's lowest number elsewhere, causally: it carries nothing that
/// position and length do not say, so a graph that adds it to its scores is causal by convention.
inline constexpr std::string_view kMaskInput = "attention_mask";

/// The scores' shape: queries S, cached tokens P, keys P + S.
struct MaskShape {
  ir::Dim queries, past, keys;
};

/// Whether adding `value` to scores [1, heads, S, P+S] makes them causal:
///   the graph input `attention_mask` f32[1, 1, S, P+S], or
///   where(allowed, 0, x) with is_causal_condition(allowed) and x <= -1e4.
bool is_causal_bias(const Rewriter& rw, ir::ValueId value, const MaskShape& shape);

/// Whether a bool value, broadcast to the scores, is true exactly where a key may be seen:
///   comparisons of key index and query index made by range, in any of their spellings
///   (k <= q, q >= k, k < q + 1, not(k > q), …); and(c, c) of two such, or of one and of something
///   that is true everywhere (a padding mask of ones).
bool is_causal_condition(const Rewriter& rw, ir::ValueId value, const MaskShape& shape,
                         bool negated = false);

}  // namespace llmc::passes
