#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support_onnx/onnx_builder.h"

namespace llmc::testing {

enum class TinyLayout : std::uint8_t { kSequenceFirst, kHeadsFirst };

/// A Llama-style decoder (RMSNorm, RoPE, grouped-query attention, SwiGLU) with random weights,
/// small enough to write, import and run in milliseconds.
struct TinyLlamaConfig {
  std::int64_t layers = 2;
  std::int64_t heads = 4;
  std::int64_t kv_heads = 2;
  std::int64_t head_dim = 8;
  std::int64_t hidden = 24;
  std::int64_t intermediate = 40;
  std::int64_t vocabulary = 300;
  TinyLayout layout = TinyLayout::kSequenceFirst;
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
  std::uint64_t seed = 1;
};

/// Weights as the files hold them (rounded to weight_type; the embedding to bf16). Matrices are
/// [inputs, outputs], as MatMul takes them.
struct TinyLlama {
  struct Layer {
    std::vector<float> norm1, q, k, v, q_bias, k_bias, v_bias, o, norm2, gate, up, down;
  };
  TinyLlamaConfig config;
  std::vector<float> embedding;  // [vocabulary, hidden]
  std::vector<Layer> layers;
  std::vector<float> norm;  // final
  std::vector<float> head;  // [hidden, vocabulary]

  explicit TinyLlama(const TinyLlamaConfig& config);

  /// Writes the split export: block_i.onnx, lm.onnx, the embedding, llm_config.json, tokenizer.txt.
  void write(const std::filesystem::path& folder) const;
  /// One block, with its inputs and outputs by the convention's names.
  OnnxBuilder block(std::int64_t layer) const;
  OnnxBuilder lm() const;
  std::string config_json() const;
  /// Type 0: <unk>, <s>, </s>, the 256 bytes, then words "▁w0", "▁w1", … up to the vocabulary; a
  /// vocabulary below 259 holds words only.
  std::string tokenizer_text() const;

  /// Logits of the last of `ids`, computed in double without the ONNX graph: an oracle that shares
  /// nothing with the importer.
  std::vector<float> logits(const std::vector<std::int64_t>& ids) const;
  std::vector<std::int64_t> greedy(std::vector<std::int64_t> ids, std::int64_t count) const;
};

}  // namespace llmc::testing
