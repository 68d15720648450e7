#include <algorithm>
#include <array>

#include "models/random/random_model.h"

namespace llmc::models {
namespace {

struct Sizes {
  std::int64_t hidden, intermediate, layers, heads, kv_heads, head_dim, vocabulary;
};

/// As OLMoE: experts, and norms of q and k.
RandomShape with_experts(RandomShape shape, std::int64_t experts, std::int64_t used) {
  shape.config.experts = experts;
  shape.config.experts_used = used;
  shape.config.qk_norm = true;
  return shape;
}

RandomShape shape(std::string_view name, const Sizes& sizes, bool tied, bool bias, float theta,
                  float epsilon) {
  return {name,
          {.layers = sizes.layers,
           .heads = sizes.heads,
           .kv_heads = sizes.kv_heads,
           .head_dim = sizes.head_dim,
           .hidden = sizes.hidden,
           .intermediate = sizes.intermediate,
           .vocabulary = sizes.vocabulary,
           .bias = bias,
           .weight_type = onnx::TensorProto::FLOAT16,
           .rope_theta = theta,
           .norm_epsilon = epsilon},
          tied};
}

}  // namespace

std::span<const RandomShape> random_shapes() {
  // From the models' published config.json.
  static const std::array kShapes{
      shape("tiny", {64, 176, 3, 4, 2, 16, 512}, true, true, 1e4f, 1e-6f),
      shape("qwen1.5-0.5b", {1024, 2816, 24, 16, 16, 64, 151936}, true, true, 1e6f, 1e-6f),
      shape("llama-3.2-1b", {2048, 8192, 16, 32, 8, 64, 128256}, true, false, 5e5f, 1e-5f),
      shape("qwen2.5-1.5b", {1536, 8960, 28, 12, 2, 128, 151936}, true, true, 1e6f, 1e-6f),
      shape("qwen1.5-1.8b", {2048, 5504, 24, 16, 16, 128, 151936}, false, true, 1e6f, 1e-6f),
      with_experts(shape("tiny-moe", {64, 48, 3, 4, 2, 16, 512}, false, false, 1e4f, 1e-5f), 8, 2),
      with_experts(
          shape("olmoe-1b-7b", {2048, 1024, 16, 16, 16, 128, 50304}, false, false, 1e4f, 1e-5f), 64,
          8),
      shape("qwen1.5-4b", {2560, 6912, 40, 20, 20, 128, 151936}, false, true, 5e6f, 1e-6f),
      shape("llama-2-7b", {4096, 11008, 32, 32, 32, 128, 32000}, false, false, 1e4f, 1e-5f),
  };
  return kShapes;
}

const RandomShape* find_random_shape(std::string_view name) {
  for (const RandomShape& s : random_shapes())
    if (s.name == name) return &s;
  return nullptr;
}

std::uint64_t parameter_count(const RandomShape& shape) {
  const SplitConfig& c = shape.config;
  const std::int64_t width = c.heads * c.head_dim, kv_width = c.kv_heads * c.head_dim;
  const std::int64_t attention = c.hidden * (2 * width + 2 * kv_width);
  const std::int64_t biases = c.bias ? width + 2 * kv_width : 0;
  const std::int64_t norms = 2 * c.hidden + (c.qk_norm ? width + kv_width : 0);
  const std::int64_t mlps = std::max<std::int64_t>(c.experts, 1);
  const std::int64_t layer =
      attention + biases + c.hidden * c.experts + mlps * 3 * c.hidden * c.intermediate + norms;
  const std::int64_t tables = (shape.tied ? 1 : 2) * c.vocabulary * c.hidden;
  return static_cast<std::uint64_t>(c.layers * layer + tables + c.hidden);
}

std::uint64_t file_bytes(const RandomShape& shape) {
  const SplitConfig& c = shape.config;
  const std::int64_t again = shape.tied ? c.vocabulary * c.hidden : 0;
  return 2 * (parameter_count(shape) + static_cast<std::uint64_t>(again));
}

}  // namespace llmc::models
