// The ONNX graphs of a split export, in the style of the TorchScript exporter.

#include "models/split/graph.h"

#include <climits>
#include <cmath>

namespace llmc::models {
namespace {

using Ints = std::vector<std::int64_t>;
constexpr std::int64_t kOne = 1;

Attribute axis(std::int64_t value) {
  return {"axis", value};
}

/// Builds one block. Each function appends nodes and returns the name of their result.
class BlockWriter {
 public:
  BlockWriter(const SplitConfig& config, const Weights& weights, OnnxBuilder& b)
      : c_(config), weights_(weights), b_(b) {}

  /// x / sqrt(mean(x^2) + epsilon) * weight
  std::string rms_norm(const std::string& x, const std::string& name, WeightId id,
                       std::int64_t size) {
    const auto square = b_.node("Pow", {x, b_.scalar(2)});
    const auto mean = b_.node("Add", {b_.reduce_mean(square, -1), b_.scalar(c_.norm_epsilon)});
    const auto inverse = b_.node("Div", {b_.scalar(1), b_.node("Sqrt", {mean})});
    const auto scaled = b_.node("Mul", {x, inverse});
    return b_.node("Mul", {weight(name, {size}, id), scaled});
  }

  void write(std::int64_t index) {
    layer_ = index;
    const auto x = b_.reshape("inputs_embeds", {1, -1, c_.hidden});
    const auto angles = rope_angles();
    const auto normed = rms_norm(x, "layer.norm1.weight", id(Role::kNorm1), c_.hidden);
    const auto q = rotate(heads(normed, "q", Role::kQ, Role::kQBias, c_.heads), angles);
    const auto k = rotate(heads(normed, "k", Role::kK, Role::kKBias, c_.kv_heads), angles);
    const auto v = heads(normed, "v", Role::kV, Role::kVBias, c_.kv_heads);
    const auto attended = attention(q, k, v);
    const auto after = b_.node(
        "Add", {x, product(attended, "layer.o", Role::kO, c_.heads * c_.head_dim, c_.hidden)});
    const auto normed2 = rms_norm(after, "layer.norm2.weight", id(Role::kNorm2), c_.hidden);
    const auto down = c_.experts > 0 ? experts(normed2) : mlp(normed2);
    const bool last = index + 1 == c_.layers && !c_.norm_in_head;
    const auto result = b_.node("Add", {after, down}, {}, last ? "" : "hidden_states");
    if (!last) return;
    const auto final_norm = rms_norm(result, "final.weight", {Role::kNorm, 0}, c_.hidden);
    const auto row = b_.node("Gather", {final_norm, b_.integer(-1)}, {axis(1)});
    b_.reshape(row, {1, 1, c_.hidden}, "hidden_states");
  }

 private:
  WeightId id(Role role) const { return {role, layer_}; }

  std::string gated(const std::string& gate, const std::string& up) {
    return b_.node("Mul", {b_.node("Mul", {gate, b_.node("Sigmoid", {gate})}), up});
  }

  std::string mlp(const std::string& x) {
    const auto gate = product(x, "layer.gate", Role::kGate, c_.hidden, c_.intermediate);
    const auto up = product(x, "layer.up", Role::kUp, c_.hidden, c_.intermediate);
    return product(gated(gate, up), "layer.down", Role::kDown, c_.intermediate, c_.hidden);
  }

  /// The sum of the experts that a softmax of the router chooses, as transformers exports them:
  /// their matrices are gathered for each token. Needs operator set 13.
  std::string experts(const std::string& x) {
    const std::int64_t used = c_.experts_used;
    const auto rows = b_.reshape(x, {-1, c_.hidden});
    const auto router = product(rows, "layer.router", Role::kRouter, c_.hidden, c_.experts);
    const auto chances = b_.node("Softmax", {router}, {axis(1)});
    b_.raw_node("TopK", {chances, b_.integers({used})}, {"router.weights", "router.ids"},
                {axis(1)});
    const auto ids = b_.reshape("router.ids", {-1});
    const auto copies = b_.node("Tile", {b_.unsqueeze(rows, {1}), b_.integers({1, used, 1})});
    // y[tokens * used, n] of x[tokens * used, k]
    const auto multiply = [&](const std::string& inputs, const std::string& name, Role role,
                              std::int64_t n, std::int64_t k) {
      const auto stack = weight(name + ".weight", {c_.experts, n, k}, id(role));
      const auto matrices = b_.node("Gather", {stack, ids}, {axis(0)});
      return b_.reshape(b_.node("MatMul", {matrices, b_.reshape(inputs, {-1, k, 1})}), {-1, n});
    };
    const auto both =
        multiply(copies, "layer.gate_up", Role::kExpertGateUp, 2 * c_.intermediate, c_.hidden);
    const auto half = [&](std::int64_t begin) {
      return b_.node("Slice", {both, b_.integers({begin}), b_.integers({begin + c_.intermediate}),
                               b_.integers({1})});
    };
    const auto down = multiply(gated(half(0), half(c_.intermediate)), "layer.down",
                               Role::kExpertDown, c_.hidden, c_.intermediate);
    const auto weighted = b_.node("Mul", {down, b_.reshape("router.weights", {-1, 1})});
    const auto sum =
        b_.node("ReduceSum", {b_.reshape(weighted, {-1, used, c_.hidden}), b_.integers({1})},
                {{"keepdims", std::int64_t{0}}});
    return b_.reshape(sum, {1, -1, c_.hidden});
  }

  std::string weight(const std::string& name, const Ints& dims, WeightId which) {
    weights_.add(b_, name, dims, which);
    return name;
  }

  std::string product(const std::string& x, const std::string& name, Role role, std::int64_t rows,
                      std::int64_t columns) {
    return b_.node("MatMul", {x, weight(name + ".weight", {rows, columns}, id(role))});
  }

  /// Projects x to heads: [1, seq, count, head_dim].
  std::string heads(const std::string& x, const std::string& which, Role role, Role bias,
                    std::int64_t count) {
    const std::int64_t width = count * c_.head_dim;
    auto y = product(x, "layer." + which, role, c_.hidden, width);
    if (c_.bias) y = b_.node("Add", {weight("layer." + which + ".bias", {width}, id(bias)), y});
    if (c_.qk_norm && role != Role::kV)
      y = rms_norm(y, "layer." + which + "_norm.weight",
                   id(role == Role::kQ ? Role::kQNorm : Role::kKNorm), width);
    return b_.reshape(y, {1, -1, count, c_.head_dim});
  }

  /// Returns cos and sin, each [1, seq, 1, head_dim], of position * theta^(-2i/head_dim), each
  /// repeated twice.
  std::pair<std::string, std::string> rope_angles() {
    std::vector<float> inverse;
    for (std::int64_t i = 0; i < c_.head_dim / 2; ++i)
      inverse.push_back(
          std::pow(c_.rope_theta, -2.0f * static_cast<float>(i) / static_cast<float>(c_.head_dim)));
    const auto positions =
        b_.node("Cast", {"position_ids"}, {{"to", std::int64_t{onnx::TensorProto::FLOAT}}});
    OnnxBuilder& b = b_;
    // Angles are always f32: half precision cannot represent positions.
    auto& table = *b.graph().add_initializer();
    table.set_name("rope.theta");
    table.set_data_type(onnx::TensorProto::FLOAT);
    table.add_dims(c_.head_dim / 2);
    table.set_raw_data(encode_floats(inverse, onnx::TensorProto::FLOAT));
    const auto half = b.node("Mul", {b.reshape(positions, {-1, 1}), "rope.theta"});
    const auto both = b.node("Concat", {half, half}, {axis(-1)});
    const auto angle = b.unsqueeze(b.unsqueeze(both, {1}), {0});
    return {to_weight_type(b.node("Cos", {angle})), to_weight_type(b.node("Sin", {angle}))};
  }

  std::string to_weight_type(const std::string& x) {
    if (c_.weight_type == onnx::TensorProto::FLOAT) return x;
    return b_.node("Cast", {x}, {{"to", std::int64_t{c_.weight_type}}});
  }

  std::string slice(const std::string& x, std::int64_t begin, std::int64_t end) {
    return b_.node("Slice", {x, b_.integers({begin}), b_.integers({end}), b_.integers({3})});
  }

  /// x cos + rotate_half(x) sin
  std::string rotate(const std::string& x, const std::pair<std::string, std::string>& angles) {
    const std::int64_t half = c_.head_dim / 2;
    const auto turned = b_.node(
        "Concat", {b_.node("Neg", {slice(x, half, INT64_MAX)}), slice(x, 0, half)}, {axis(-1)});
    return b_.node("Add",
                   {b_.node("Mul", {x, angles.first}), b_.node("Mul", {turned, angles.second})});
  }

  /// Appends k and v to the cache, the output `presents`, and computes attention: [1, seq, heads *
  /// head_dim].
  std::string attention(const std::string& q, std::string k, std::string v) {
    const bool sequence_first = c_.layout == CacheLayout::kSequenceFirst;
    const Attribute swap{"perm", Ints{0, 2, 1, 3}};
    if (!sequence_first) {
      k = b_.node("Transpose", {k}, {swap});
      v = b_.node("Transpose", {v}, {swap});
    }
    const Attribute length_axis = axis(sequence_first ? 1 : 2);
    const auto past = [&](std::int64_t i) {
      return b_.node("Gather", {"past_key_values", b_.integer(i)}, {axis(0)});
    };
    k = b_.node("Concat", {past(0), k}, {length_axis});
    v = b_.node("Concat", {past(1), v}, {length_axis});
    b_.node("Concat", {b_.unsqueeze(k, {0}), b_.unsqueeze(v, {0})}, {axis(0)}, "presents");
    k = repeat(k, sequence_first);
    v = repeat(v, sequence_first);
    const Attribute keys{"perm", sequence_first ? Ints{0, 2, 3, 1} : Ints{0, 1, 3, 2}};
    const auto scores =
        b_.node("MatMul", {b_.node("Transpose", {q}, {swap}), b_.node("Transpose", {k}, {keys})});
    const auto scale = b_.scalar(std::sqrt(static_cast<float>(c_.head_dim)));
    const auto masked = b_.node("Add", {b_.node("Div", {scores, scale}), "attention_mask"});
    const auto weights = b_.node("Softmax", {masked}, {axis(c_.opset < 13 ? 3 : -1)});
    if (sequence_first) v = b_.node("Transpose", {v}, {swap});
    const auto mixed = b_.node("Transpose", {b_.node("MatMul", {weights, v})}, {swap});
    return b_.reshape(mixed, {1, -1, c_.heads * c_.head_dim});
  }

  /// Repeats each KV head for all query heads that share it.
  std::string repeat(const std::string& x, bool sequence_first) {
    const std::int64_t times = c_.heads / c_.kv_heads;
    if (times == 1) return x;
    const auto wide = b_.unsqueeze(x, {sequence_first ? 3 : 2});
    const auto shape = sequence_first ? Ints{1, 1, 1, times, 1} : Ints{1, 1, times, 1, 1};
    return b_.reshape(
        b_.node("Expand", {wide, b_.integers(shape)}),
        sequence_first ? Ints{1, -1, c_.heads, c_.head_dim} : Ints{1, c_.heads, -1, c_.head_dim});
  }

  const SplitConfig& c_;
  const Weights& weights_;
  OnnxBuilder& b_;
  std::int64_t layer_ = 0;
};

}  // namespace

void build_block(const SplitConfig& c, const Weights& weights, std::int64_t index, OnnxBuilder& b) {
  const bool sequence_first = c.layout == CacheLayout::kSequenceFirst;
  const auto past = [&](DeclaredDim length) -> std::vector<DeclaredDim> {
    if (sequence_first) return {std::int64_t{2}, kOne, length, c.kv_heads, c.head_dim};
    return {std::int64_t{2}, kOne, c.kv_heads, length, c.head_dim};
  };
  b.float_input("inputs_embeds", {"seq_len", kOne, c.hidden});
  if (c.quirky_types) {
    b.float_input("attention_mask", {kOne, kOne, "seq_len", "seq_len"});
    b.input("position_ids", onnx::TensorProto::INT64, {"seq_len", std::int64_t{3}});
    b.float_input("past_key_values", past(std::int64_t{0}));
  } else {
    b.float_input("attention_mask", {kOne, kOne, "seq_len", "total_len"});
    b.input("position_ids", onnx::TensorProto::INT64, {kOne, "seq_len"});
    b.float_input("past_key_values", past("history_len"));
  }
  BlockWriter(c, weights, b).write(index);
  b.float_output("hidden_states", {kOne, "seq_len", c.hidden});
  b.float_output("presents", past("total_len"));
}

void build_head(const SplitConfig& c, const Weights& weights, OnnxBuilder& b) {
  std::string x = "hidden_states";
  if (c.norm_in_head) {
    b.float_input(x, {kOne, "seq_len", c.hidden});
    x = BlockWriter(c, weights, b).rms_norm(x, "final.weight", {Role::kNorm, 0}, c.hidden);
    x = b.reshape(b.node("Gather", {x, b.integer(-1)}, {axis(1)}), {1, c.hidden});
  } else {
    b.float_input(x, {kOne, c.hidden});
  }
  const std::string weight = "lm.weight";
  weights.add(b, weight, {c.hidden, c.vocabulary}, {Role::kHead, 0});
  if (!c.token_id_head) {
    b.node("MatMul", {x, weight}, {}, "logits");
    b.float_output("logits", {kOne, c.vocabulary});
    return;
  }
  const auto flat = b.reshape(b.node("MatMul", {x, weight}), {-1});
  const auto id = b.node("ArgMax", {flat}, {axis(0), {"keepdims", std::int64_t{0}}});
  b.reshape(id, {1}, "token_id");
  b.output("token_id", onnx::TensorProto::INT64, {kOne});
}

}  // namespace llmc::models
