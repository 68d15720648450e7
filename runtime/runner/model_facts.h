#pragma once

#include "llmc/model.h"
#include "protocol.h"

namespace llmc::runner {

/// Returns the facts of a model for the Hello message. `grammar_bytes`: size of the tables of the
/// compiled-in grammar.
inline ModelFacts facts_of(const llmc_model& model, uint64_t grammar_bytes) {
  ModelFacts facts{.vocab = model.vocab,
                   .hidden = model.hidden,
                   .layers = model.layers,
                   .heads = model.heads,
                   .kv_heads = model.kv_heads,
                   .head_dim = model.head_dim,
                   .ctx = model.ctx,
                   .chunk = model.chunk,
                   .kv_block = model.kv_block,
                   .threads_max = model.threads_max,
                   .sequences = model.sequences,
                   .batch = model.batch,
                   .weights_bytes = model.weights_bytes,
                   .weights_hash = model.weights_hash,
                   .arena_bytes = model.arena_bytes,
                   .embedded_weights = model.weights != nullptr,
                   .grammar_bytes = static_cast<uint32_t>(grammar_bytes),
                   .prompt_tokens = model.prefix_tokens,
                   .source_min = model.source_min,
                   .source_max = model.source_max,
                   .source_width = model.source_width,
                   .source_vocab = model.source_vocab,
                   .sources = model.sources,
                   .embedding_width = model.embedding_width,
                   .position_axes = model.position_axes,
                   .image_rows = model.image_rows,
                   .shard = model.shard,
                   .shards = model.shards,
                   .single_steps = model.state_bytes > 0 || model.by_length != 0,
                   .program_hash = model.program_hash,
                   .target = {}};
  for (size_t i = 0; model.target[i] != 0 && i + 1 < sizeof facts.target; ++i)
    facts.target[i] = model.target[i];
  return facts;
}

}  // namespace llmc::runner
