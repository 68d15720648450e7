#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace llmc::passes {

/// Properties of a model, derived from its graph after the pipeline and shown by `llmc inspect`.
/// Sizes that are unknown, or differ between layers, are 0; `norm_epsilon` is absent then.
struct ModelProperties {
  std::int64_t layers = 0;  // number of attentions
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t hidden = 0, intermediate = 0, vocabulary = 0;
  std::optional<double> rope_theta;  // theta_of() of the first rotation, if it has one
  std::int64_t rotary_dim = 0;
  bool rope_interleaved = false, rope_table = false;
  bool image_positions = false;  // rotations read several positions of a token
  std::optional<float> norm_epsilon;
  ir::CacheLayout cache_layout = ir::CacheLayout::kSequenceFirst;
  bool qkv_bias = false;
  /// Whether the head's matrix is the embedding table: they are the same object, or 64 rows spread
  /// over the vocabulary are equal (after rounding to bf16 if either is bf16).
  bool tied = false;

  std::int64_t experts = 0;  // in the last feed-forward layer with experts; 0: none
  float softcap = 0;         // softcap of the last attention; 0: none
  /// Number of attentions for each window in tokens; window 0: all tokens.
  std::map<std::int64_t, std::int64_t> windows;
  /// The same for chunks: number of attentions for each chunk size in tokens.
  std::map<std::int64_t, std::int64_t> chunks;
  /// Number of feed-forward layers for each activation function, such as "silu", or "gated silu"
  /// with a gate.
  std::map<std::string, std::int64_t> activations;

  /// Numbers of fused patterns. A loop body is counted once per iteration. `norms`: RMS norms of
  /// rows. `head_norms`: RMS norms of single heads (of q or k). `mlps`: layers with an activation.
  struct Fused {
    std::int64_t norms = 0, layer_norms = 0, head_norms = 0, ropes = 0, attentions = 0,
                 cross_attentions = 0, mlps = 0, linears = 0, experts = 0;
  } fused;
  /// Number of elementwise stages (residual additions, embedding scale, logits softcap) by
  /// operator.
  std::map<std::string, std::int64_t> elementwise;
  /// Number of other operators, by name, except reshapes, lookups and identities.
  std::map<std::string, std::int64_t> unfused;
  /// Number of all operators except constants and parameters, by name. A loop body is counted once
  /// per iteration.
  std::map<std::string, std::int64_t> operators;
};

/// Returns the properties of a graph after the pipeline. Layers may be rolled into a Loop.
ModelProperties recognise(const ir::Graph& graph);

/// Returns theta such that f_i = theta^(-2i/dim) for all dim/2 frequencies, with relative errors of
/// at most 1e-3; nullopt if there is none. Theta is rounded to 2 or 4 significant digits if the
/// change is at most 1e-3 or 1e-4 of it.
std::optional<double> theta_of(const std::vector<double>& frequencies);

}  // namespace llmc::passes
