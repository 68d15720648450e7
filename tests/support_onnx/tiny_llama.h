#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "models/split/config.h"
#include "tests/support_onnx/onnx_builder.h"

namespace llmc::testing {

using TinyLayout = models::CacheLayout;
using TinyLlamaConfig = models::SplitConfig;

/// A small decoder with random weights, as the files hold them (rounded to weight_type; the
/// embedding to bf16). Matrices are [inputs, outputs], as MatMul takes them.
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

  /// Logits of the last of `ids`, computed in double without the ONNX graph: an oracle that shares
  /// nothing with the importer.
  std::vector<float> logits(const std::vector<std::int64_t>& ids) const;
  std::vector<std::int64_t> greedy(std::vector<std::int64_t> ids, std::int64_t count) const;
};

}  // namespace llmc::testing
