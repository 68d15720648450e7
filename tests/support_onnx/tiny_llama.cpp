#include "tests/support_onnx/tiny_llama.h"

#include <cmath>

#include "models/split/graph.h"

namespace llmc::testing {
namespace {

/// splitmix64 (Steele et al. 2014), so that the same seed gives the same model anywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::vector<float> uniform(std::int64_t count, double center, double scale, int type) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (auto& value : values)
      value = round_to(static_cast<float>(center + scale * (2 * next() - 1)), type);
    return values;
  }

 private:
  double next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return static_cast<double>((z ^ z >> 31) >> 11) * 0x1p-53;
  }
  std::uint64_t state_;
};

/// Weights that are in memory.
class MemoryWeights final : public models::Weights {
 public:
  explicit MemoryWeights(const TinyLlama& model) : model_(model) {}
  void add(models::OnnxBuilder& b, const std::string& name, const std::vector<std::int64_t>& dims,
           models::WeightId id) const override {
    b.floats(name, dims, values(id));
  }

 private:
  const std::vector<float>& values(models::WeightId id) const {
    using models::Role;
    if (id.role == Role::kNorm) return model_.norm;
    if (id.role == Role::kHead) return model_.head;
    const TinyLlama::Layer& layer = model_.layers[static_cast<std::size_t>(id.layer)];
    switch (id.role) {
      case Role::kNorm1:
        return layer.norm1;
      case Role::kQ:
        return layer.q;
      case Role::kK:
        return layer.k;
      case Role::kV:
        return layer.v;
      case Role::kQBias:
        return layer.q_bias;
      case Role::kKBias:
        return layer.k_bias;
      case Role::kVBias:
        return layer.v_bias;
      case Role::kO:
        return layer.o;
      case Role::kNorm2:
        return layer.norm2;
      case Role::kGate:
        return layer.gate;
      case Role::kUp:
        return layer.up;
      default:
        return layer.down;
    }
  }
  const TinyLlama& model_;
};

}  // namespace

TinyLlama::TinyLlama(const TinyLlamaConfig& c) : config(c) {
  Random random(c.seed);
  const int type = c.weight_type;
  const auto matrix = [&](std::int64_t rows, std::int64_t columns) {
    return random.uniform(rows * columns, 0, 1.5 / std::sqrt(static_cast<double>(rows)), type);
  };
  embedding =
      random.uniform(c.vocabulary * c.hidden, 0, 1,
                     c.embedding_graph ? type : static_cast<int>(onnx::TensorProto::BFLOAT16));
  const std::int64_t width = c.heads * c.head_dim, kv_width = c.kv_heads * c.head_dim;
  for (std::int64_t i = 0; i < c.layers; ++i) {
    Layer layer;
    layer.norm1 = random.uniform(c.hidden, 1, 0.2, type);
    layer.q = matrix(c.hidden, width);
    layer.k = matrix(c.hidden, kv_width);
    layer.v = matrix(c.hidden, kv_width);
    layer.q_bias = random.uniform(width, 0, 0.1, type);
    layer.k_bias = random.uniform(kv_width, 0, 0.1, type);
    layer.v_bias = random.uniform(kv_width, 0, 0.1, type);
    layer.o = matrix(width, c.hidden);
    layer.norm2 = random.uniform(c.hidden, 1, 0.2, type);
    layer.gate = matrix(c.hidden, c.intermediate);
    layer.up = matrix(c.hidden, c.intermediate);
    layer.down = matrix(c.intermediate, c.hidden);
    layers.push_back(std::move(layer));
  }
  norm = random.uniform(c.hidden, 1, 0.2, type);
  head = matrix(c.hidden, c.vocabulary);
}

OnnxBuilder TinyLlama::block(std::int64_t index) const {
  OnnxBuilder b(config.opset, config.weight_type);
  models::build_block(config, MemoryWeights(*this), index, b);
  return b;
}

OnnxBuilder TinyLlama::lm() const {
  OnnxBuilder b(config.opset, config.weight_type);
  models::build_head(config, MemoryWeights(*this), b);
  return b;
}

void TinyLlama::write(const std::filesystem::path& folder) const {
  const bool external = config.external_data;
  for (std::int64_t i = 0; i < config.layers; ++i)
    block(i).save(folder / ("block_" + std::to_string(i) + ".onnx"), external);
  lm().save(folder / "lm.onnx", external);
  write_bytes(folder / "llm_config.json", models::config_json(config));
  write_bytes(folder / "tokenizer.txt", models::tokenizer_text(config));
  if (!config.embedding_graph) {
    write_bytes(folder / "embeddings_bf16.bin",
                encode_floats(embedding, onnx::TensorProto::BFLOAT16));
    return;
  }
  OnnxBuilder b(config.opset, config.weight_type);
  b.input("input_ids", onnx::TensorProto::INT64, {"length"});
  const auto table = b.floats("embed.weight", {config.vocabulary, config.hidden}, embedding);
  b.unsqueeze(b.node("Gather", {table, "input_ids"}, {{"axis", std::int64_t{0}}}), {1},
              "inputs_embeds");
  b.float_output("inputs_embeds", {"length", std::int64_t{1}, config.hidden});
  b.save(folder / "embedding.onnx", external);
}

}  // namespace llmc::testing
