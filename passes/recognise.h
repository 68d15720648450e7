#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace llmc::passes {

/// Properties of a model, read from a stage-level graph, that `llmc inspect` shows. A number that
/// is unknown, or differs between layers, is 0 or absent.
struct ModelProperties {
  std::int64_t layers = 0;  // attentions
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t hidden = 0, intermediate = 0, vocabulary = 0;
  std::optional<double> rope_theta;  // when frequencies are theta^(-2i/rotary_dim)
  std::int64_t rotary_dim = 0;
  bool rope_interleaved = false, rope_table = false;
  std::optional<float> norm_epsilon;
  ir::CacheLayout cache_layout = ir::CacheLayout::kSequenceFirst;
  bool qkv_bias = false;
  /// Whether the head's matrix is the embedding table: the same object, or equal in 64 rows spread
  /// over the vocabulary after rounding to the narrower of the two element types.
  bool tied = false;

  float softcap = 0;  // of attention; 0: none
  /// Attentions by window; 0: all tokens.
  std::map<std::int64_t, std::int64_t> windows;
  /// Functions of the feed-forward layers, "silu" or with a gate "gated silu", with their number.
  std::map<std::string, std::int64_t> activations;

  /// Number of fused patterns; bodies of loops count once per iteration. `norms` are RMS norms over
  /// rows, `head_norms` those of single heads (on q or k); an MLP is a layer with an activation.
  struct Fused {
    std::int64_t norms = 0, layer_norms = 0, head_norms = 0, ropes = 0, attentions = 0, mlps = 0,
                 linears = 0;
  } fused;
  /// Elementwise stages (residual additions, embedding scale, logits softcap), with their number.
  std::map<std::string, std::int64_t> elementwise;
  /// Other operators that are neither stages (last section of ir/op.h) nor views, with their
  /// number.
  std::map<std::string, std::int64_t> unfused;
  /// All operators except constants, with their number; bodies of loops count once per iteration.
  std::map<std::string, std::int64_t> operators;
};

/// Returns the properties of a graph after the pipeline, rolled or not. Never fails; unknown ones
/// are empty.
ModelProperties recognise(const ir::Graph& graph);

/// Returns theta such that f_i = theta^(-2i/dim) for all dim/2 frequencies to within 1e-3, or
/// nullopt.
std::optional<double> theta_of(const std::vector<double>& frequencies);

}  // namespace llmc::passes
