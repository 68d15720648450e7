#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// Fuses attention of a decoder to the source of an encoder-decoder, whose keys and values are an
/// input of the graph, source f32[2, kv_heads, T, D]:
///
///   softmax(scale * q . keys^T + masks) . values     keys = source[0], values = source[1]
/// ->
///   cross_attention(q, source)
///
/// Scores may have a softcap before the masks, which must be known to hide no key: the runtime
/// encodes one source without padding. Heads may be repeated, and views may be anywhere. Otherwise
/// unchanged, as are plain graphs.
Result<ir::Graph> fuse_cross_attention(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes
