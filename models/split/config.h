#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <string>

namespace llmc::models {

/// Axes of past_key_values: [2, 1, past, kv_heads, head_dim], or heads before past.
enum class CacheLayout : std::uint8_t { kSequenceFirst, kHeadsFirst };

/// A Llama-style decoder (RMSNorm, RoPE, grouped-query attention, SwiGLU) as a split export
/// (llm-export's convention) has it. Without a word it is one small enough to write, import and run
/// in milliseconds.
struct SplitConfig {
  std::int64_t layers = 2;
  std::int64_t heads = 4;
  std::int64_t kv_heads = 2;
  std::int64_t head_dim = 8;
  std::int64_t hidden = 24;
  std::int64_t intermediate = 40;
  std::int64_t vocabulary = 300;
  CacheLayout layout = CacheLayout::kSequenceFirst;
  bool bias = false;             // on q, k and v
  bool norm_in_head = false;     // final norm in lm.onnx, which then takes a row per token
  bool token_id_head = false;    // lm.onnx gives token_id by ArgMax
  bool embedding_graph = false;  // embedding.onnx in place of embeddings_bf16.bin
  bool external_data = false;
  bool quirky_types = false;  // declared dims as the exporter writes them wrong for Qwen2
  std::int64_t opset = 15;
  int weight_type = onnx::TensorProto::FLOAT;  // FLOAT, FLOAT16 or BFLOAT16, for the whole graph
  float rope_theta = 10000;
  float norm_epsilon = 1e-5f;
  std::uint64_t seed = 1;  // of the weights
};

/// llm_config.json
std::string config_json(const SplitConfig& config);

/// tokenizer.txt of type 0: <unk>, <s>, </s>, the 256 bytes, then words "▁w0", "▁w1", … up to the
/// vocabulary, which takes no training; a vocabulary below 259 holds words only.
std::string tokenizer_text(const SplitConfig& config);

}  // namespace llmc::models
