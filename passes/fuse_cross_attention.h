#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// Fuses the attention of a decoder to the source of an encoder-decoder. Keys and values are a
/// graph input, source f32[2, kv_heads, T, D]:
///
///   softmax(s + masks) . values     s = scale * q . keys^T, or with a softcap c * tanh(s / c);
///                                   keys = source[0], values = source[1]
/// ->
///   cross_attention(q, source)
///
/// All masks must be known to hide no key: the runtime encodes one source without padding. Heads
/// may be repeated, and views may be between any of these operators. Otherwise unchanged, as are
/// plain graphs.
Result<ir::Graph> fuse_cross_attention(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes
