#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <string>

namespace llmc::models {

/// Axes of past_key_values: [2, 1, past, kv_heads, head_dim], or heads before past.
enum class CacheLayout : std::uint8_t { kSequenceFirst, kHeadsFirst };

/// A Llama-style decoder (RMSNorm, RoPE, grouped-query attention, SwiGLU) as a split export
/// (llm-export's convention). The default is small enough to write, import and run in milliseconds.
struct SplitConfig {
  std::int64_t layers = 2;
  std::int64_t heads = 4;
  std::int64_t kv_heads = 2;
  std::int64_t head_dim = 8;
  std::int64_t hidden = 24;
  std::int64_t intermediate = 40;
  std::int64_t vocabulary = 300;
  /// Experts of each block's MLP, each of size `intermediate`, and how many a token uses; 0: an MLP
  /// without experts.
  std::int64_t experts = 0, experts_used = 0;
  CacheLayout layout = CacheLayout::kSequenceFirst;
  bool bias = false;             // biases of q, k and v
  bool qk_norm = false;          // RMS norms of q and of k over all heads, as in OLMoE
  bool norm_in_head = false;     // final norm in lm.onnx, whose input is then one row per token
  bool token_id_head = false;    // lm.onnx returns token_id, computed by ArgMax
  bool embedding_graph = false;  // embedding.onnx instead of embeddings_bf16.bin
  bool external_data = false;
  bool quirky_types = false;  // wrong declared dims, as the exporter writes them for Qwen2
  std::int64_t opset = 15;
  int weight_type = onnx::TensorProto::FLOAT;  // FLOAT, FLOAT16 or BFLOAT16, for the whole graph
  float rope_theta = 10000;
  float norm_epsilon = 1e-5f;
  std::uint64_t seed = 1;  // seed of the weights
};

/// Returns llm_config.json.
std::string config_json(const SplitConfig& config);

/// Returns a tokenizer.txt of type 0 without trained data: <unk>, <s>, </s>, the 256 bytes, then
/// words "▁w0", "▁w1", … up to the size of the vocabulary. If the vocabulary has fewer than 259
/// entries, all are words.
std::string tokenizer_text(const SplitConfig& config);

}  // namespace llmc::models
