#include "tests/support_onnx/tiny_llama.h"

#include <cmath>

#include "compiler/support/half.h"

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

std::string base64(std::string_view bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j)
      group = group << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0u);
    for (std::size_t j = 0; j < 4; ++j)
      out += i + j <= bytes.size() ? kDigits[group >> (18 - 6 * j) & 63] : '=';
  }
  return out;
}

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

std::string TinyLlama::config_json() const {
  const bool sequence_first = config.layout == TinyLayout::kSequenceFirst;
  const auto number = [](std::int64_t value) { return std::to_string(value); };
  return "{\n  \"hidden_size\": " + number(config.hidden) +
         ",\n  \"layer_nums\": " + number(config.layers) +
         ",\n  \"attention_mask\": \"float\",\n  \"key_value_shape\": [2, 1, " +
         (sequence_first ? "0, " + number(config.kv_heads) : number(config.kv_heads) + ", 0") +
         ", " + number(config.head_dim) +
         "],\n  \"prompt_template\": \"%s\",\n  \"is_visual\": false,\n  \"is_single\": false\n}\n";
}

std::string TinyLlama::tokenizer_text() const {
  std::string text = "430 0\n2 1 1\n1 2 2 1\n" + std::to_string(config.vocabulary) + "\n";
  std::int64_t count = 0;
  const auto add = [&](const std::string& token, const std::string& rest) {
    text += base64(token) + " " + rest + "\n";
    ++count;
  };
  add("<unk>", "0.0 2");
  add("<s>", "0.0 3");
  add("</s>", "0.0 3");
  constexpr char kHex[] = "0123456789ABCDEF";
  if (config.vocabulary >= 259)
    for (int byte = 0; byte < 256; ++byte)
      add(std::string("<0x") + kHex[byte >> 4] + kHex[byte & 15] + ">", "0.0 6");
  for (std::int64_t word = 0; count < config.vocabulary; ++word)
    add("\xe2\x96\x81w" + std::to_string(word), "-" + std::to_string(word) + ".0 1");
  return text;
}

void TinyLlama::write(const std::filesystem::path& folder) const {
  const bool external = config.external_data;
  for (std::int64_t i = 0; i < config.layers; ++i)
    block(i).save(folder / ("block_" + std::to_string(i) + ".onnx"), external);
  lm().save(folder / "lm.onnx", external);
  write_bytes(folder / "llm_config.json", config_json());
  write_bytes(folder / "tokenizer.txt", tokenizer_text());
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
