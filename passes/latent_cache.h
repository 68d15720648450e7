#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// Caches the latent row from which keys and values are computed, if it is narrower than they are
/// (multi-head latent attention, DeepSeek-V2, arXiv 2405.04434, section 2.1.2):
///
///   k[h] = concat(c . Wk[h], s), v[h] = c . Wv[h]     c[S, rank], s[S, rotary] for all heads h
///   y[h] = attention(q[h], k[h], v[h], past[2, 1, heads, past, head_dim])
/// ->
///   q'[h] = concat(q[h] . Wk[h]^T, rest of q[h]), k' = v' = concat(c, s)
///   y'[h] = attention(q'[h], k', v', past[2, 1, 1, past, rank + rotary])
///   y[h] = y'[h][: rank] . Wv[h]
///
/// because q . (c . Wk) = (q . Wk^T) . c, and a weighted sum of values over tokens is the same sum
/// of rows c, times Wv. k and v may be parts of one product, in any order, and consist of several
/// parts. Applies to all attentions of a decoder or to none, and only if it at least halves the
/// cache and the widths rank and rank + rotary are multiples of 8.
Result<ir::Graph> latent_cache(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes
