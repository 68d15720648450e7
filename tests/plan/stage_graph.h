#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/graph.h"
#include "passes/assign_weight_formats.h"

/// Graphs of small decoders in the form that the passes produce (stages), with random weights.
namespace llmc::tests {

struct StageModel {
  std::int64_t hidden = 64, heads = 4, kv_heads = 2, head_dim = 16, intermediate = 96;
  std::int64_t vocabulary = 128;
  std::int64_t layers = 2;
  bool rolled = true;  // layers as one Loop
  bool qkv_bias = true;
  bool select_last_row = true;  // gather before the head; otherwise logits for every token
  bool rope = true;
  std::int64_t table_rows = 0;           // above 0: number of positions in a table of angles
  std::string node_prefix = "/layers/";  // prefix of every origin; may be a hostile name
  passes::QuantScheme quant = passes::kQ4Mixed;
};

class StageGraphBuilder {
 public:
  explicit StageGraphBuilder(const StageModel& model) : m_(model) {}

  ir::Graph build() {
    using ir::Dim;
    graph_.name = "stages";
    const Dim seq = Dim::symbol("seq");
    const auto ids =
        graph_.add_input({"input_ids", {ir::ElementType::kI64, {seq}}, ir::InputKind::kTokenIds});
    const auto positions = graph_.add_input(
        {"position_ids", {ir::ElementType::kI64, {1, seq}}, ir::InputKind::kPositions});
    std::vector<ir::ValueId> pasts;
    for (std::int64_t i = 0; i < m_.layers; ++i) {
      pasts.push_back(graph_.add_input({"past." + std::to_string(i), past_type(Dim::symbol("past")),
                                        ir::InputKind::kAttentionCache, i}));
    }
    const auto table =
        graph_.append_constant(random({m_.vocabulary, m_.hidden}, 1.0), "embedding.weight");
    auto x =
        graph_.append(ir::Embedding{}, {ids, table}, rows(m_.hidden), {"embedding.onnx", "Gather"});
    const auto frequencies = graph_.append_constant(
        m_.table_rows > 0 ? random({m_.table_rows, m_.head_dim}, 1.0)
                          : ir::make_f32({m_.head_dim / 2}, frequency_values()),
        "freqs", {"rotary.onnx", m_.node_prefix + "rotary/Cos"});

    std::vector<ir::ValueId> presents;
    if (m_.rolled) {
      x = add_loop(x, positions, frequencies, pasts, presents);
    } else {
      for (std::int64_t i = 0; i < m_.layers; ++i) {
        const Weights w = weights(i);
        std::vector<ir::ValueId> values;
        for (std::size_t p = 0; p < w.constants.size(); ++p) {
          values.push_back(graph_.append_constant(w.constants[p], w.names[p]));
        }
        auto [next, present] = add_layer(graph_, x, positions, frequencies,
                                         pasts[static_cast<std::size_t>(i)], values);
        x = next;
        presents.push_back(present);
      }
    }
    ir::TensorType last = rows(m_.hidden);
    if (m_.select_last_row) {
      const auto index = graph_.append_constant(ir::make_i64({1}, {-1}), "last");
      last = {ir::ElementType::kF32, {1, 1, m_.hidden}};
      x = graph_.append(ir::Gather{1}, {x, index}, last, {"lm.onnx", "Gather"});
    }
    const auto norm = graph_.append_constant(near_one(m_.hidden), "norm.weight");
    const auto head = graph_.append_constant(random({m_.vocabulary, m_.hidden}, 0.3), "lm.weight");
    last.dims.back() = m_.vocabulary;
    const auto logits =
        graph_.append(ir::Linear{.norm_epsilon = 1e-5f}, {x, head, ir::kNoValue, norm}, last,
                      {"lm.onnx", "MatMul"}, "logits");
    graph_.add_output(logits);
    for (const auto present : presents) graph_.add_output(present);
    return graph_;
  }

 private:
  struct Weights {
    std::vector<ir::ConstantPtr> constants;
    std::vector<std::string> names;
  };

  ir::ConstantPtr random(std::vector<std::int64_t> dims, double scale) {
    return ir::make_random(std::move(dims), ++seed_, scale);
  }
  ir::ConstantPtr near_one(std::int64_t n) {
    std::vector<float> values(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = 1.0f + 0.01f * static_cast<float>((i * 7 + ++seed_) % 13);
    }
    return ir::make_f32({n}, std::move(values));
  }
  std::vector<float> frequency_values() const {
    std::vector<float> values;
    for (std::int64_t i = 0; i < m_.head_dim / 2; ++i) {
      values.push_back(
          std::pow(10000.0f, -2.0f * static_cast<float>(i) / static_cast<float>(m_.head_dim)));
    }
    return values;
  }
  ir::TensorType rows(std::int64_t width) const {
    return {ir::ElementType::kF32, {1, ir::Dim::symbol("seq"), width}};
  }
  ir::TensorType past_type(const ir::Dim& length) const {
    return {ir::ElementType::kF32, {2, 1, length, m_.kv_heads, m_.head_dim}};
  }
  std::int64_t qkv_rows() const { return (m_.heads + 2 * m_.kv_heads) * m_.head_dim; }

  Weights weights(std::int64_t layer) {
    const std::string p = "blocks." + std::to_string(layer) + ".";
    Weights w;
    const auto add = [&](const char* name, ir::ConstantPtr data) {
      w.names.push_back(p + name);
      w.constants.push_back(std::move(data));
    };
    add("input_norm", near_one(m_.hidden));
    add("qkv", random({qkv_rows(), m_.hidden}, 0.2));
    add("qkv_bias", random({qkv_rows()}, 0.1));
    add("o", random({m_.hidden, m_.heads * m_.head_dim}, 0.2));
    add("post_norm", near_one(m_.hidden));
    add("gate_up", random({2 * m_.intermediate, m_.hidden}, 0.2));
    add("down", random({m_.hidden, m_.intermediate}, 0.2));
    return w;
  }

  std::pair<ir::ValueId, ir::ValueId> add_layer(ir::Graph& g, ir::ValueId x, ir::ValueId positions,
                                                ir::ValueId frequencies, ir::ValueId past,
                                                const std::vector<ir::ValueId>& w) {
    using ir::Dim;
    const Dim seq = Dim::symbol("seq");
    const auto heads_type = [&](std::int64_t heads) {
      return ir::TensorType{ir::ElementType::kF32, {1, seq, heads, m_.head_dim}};
    };
    const auto origin = [&](const char* name) {
      return ir::Origin{"block_0.onnx", m_.node_prefix + name};
    };
    ir::QkvProjection qkv;
    qkv.heads = m_.heads;
    qkv.kv_heads = m_.kv_heads;
    qkv.head_dim = m_.head_dim;
    qkv.norm_epsilon = 1e-5f;
    if (m_.rope) qkv.rope = ir::Rope{.rotary_dim = m_.head_dim, .table = m_.table_rows > 0};
    const auto q = g.add_value({"", heads_type(m_.heads)});
    const auto k = g.add_value({"", heads_type(m_.kv_heads)});
    const auto v = g.add_value({"", heads_type(m_.kv_heads)});
    g.add_node({qkv,
                {x, w[1], m_.qkv_bias ? w[2] : ir::kNoValue, w[0],
                 m_.rope ? positions : ir::kNoValue, m_.rope ? frequencies : ir::kNoValue},
                {q, k, v},
                origin("qkv/MatMul")});
    const auto a = g.add_value({"", rows(m_.heads * m_.head_dim)});
    const auto present = g.add_value({"", past_type(*add(Dim::symbol("past"), seq))});
    g.add_node({ir::Attention{.heads = m_.heads,
                              .kv_heads = m_.kv_heads,
                              .head_dim = m_.head_dim,
                              .scale = 1 / std::sqrt(static_cast<float>(m_.head_dim))},
                {q, k, v, past},
                {a, present},
                origin("attn/MatMul")});
    const auto x1 = g.append(ir::Linear{}, {a, w[3], ir::kNoValue, ir::kNoValue, x},
                             rows(m_.hidden), origin("o_proj/MatMul"));
    const auto h = g.append(
        ir::Linear{.function = ir::ActivationFn::kSilu, .gated = true, .norm_epsilon = 1e-5f},
        {x1, w[5], ir::kNoValue, w[4]}, rows(m_.intermediate), origin("mlp/Mul"));
    const auto x2 = g.append(ir::Linear{}, {h, w[6], ir::kNoValue, ir::kNoValue, x1},
                             rows(m_.hidden), origin("down/MatMul"));
    return {x2, present};
  }

  ir::ValueId add_loop(ir::ValueId x, ir::ValueId positions, ir::ValueId frequencies,
                       const std::vector<ir::ValueId>& pasts, std::vector<ir::ValueId>& presents) {
    ir::Loop loop;
    loop.count = m_.layers;
    loop.carried = 1;
    loop.per_iteration_inputs = 1;
    loop.per_iteration_outputs = 1;
    for (std::int64_t i = 0; i < m_.layers; ++i) {
      const Weights w = weights(i);
      loop.parameters.resize(w.constants.size());
      loop.parameter_names.resize(w.constants.size());
      for (std::size_t p = 0; p < w.constants.size(); ++p) {
        loop.parameters[p].push_back(w.constants[p]);
        loop.parameter_names[p].push_back(w.names[p]);
      }
    }
    auto body = std::make_shared<ir::Graph>();
    body->name = "layer";
    const auto in = body->add_input({"x", rows(m_.hidden)});
    const auto past = body->add_input({"past", past_type(ir::Dim::symbol("past"))});
    const auto pos = body->add_input({"positions", graph_.value(positions).type});
    const auto freq = body->add_input({"freqs", graph_.value(frequencies).type});
    std::vector<ir::ValueId> values;
    for (std::size_t p = 0; p < loop.parameters.size(); ++p) {
      const auto& dims = loop.parameters[p][0]->dims();
      values.push_back(body->append(ir::Parameter{static_cast<std::int64_t>(p)}, {},
                                    {ir::ElementType::kF32, {dims.begin(), dims.end()}}));
    }
    const auto [out, present] = add_layer(*body, in, pos, freq, past, values);
    body->add_output(out);
    body->add_output(present);
    loop.body = body;

    std::vector<ir::ValueId> inputs{x};
    inputs.insert(inputs.end(), pasts.begin(), pasts.end());
    inputs.push_back(positions);
    inputs.push_back(frequencies);
    std::vector<ir::ValueId> outputs{graph_.add_value({"", rows(m_.hidden)})};
    for (std::size_t i = 0; i < pasts.size(); ++i) {
      presents.push_back(
          graph_.add_value({"present." + std::to_string(i),
                            past_type(*add(ir::Dim::symbol("past"), ir::Dim::symbol("seq")))}));
      outputs.push_back(presents.back());
    }
    const auto result = outputs.front();
    graph_.add_node({std::move(loop), std::move(inputs), std::move(outputs), {}});
    return result;
  }

  StageModel m_;
  ir::Graph graph_;
  std::uint64_t seed_ = 0;
};

inline ir::Graph stage_graph(const StageModel& model, const passes::FormatPolicy& policy) {
  return passes::assign_weight_formats(StageGraphBuilder(model).build(), policy);
}
inline ir::Graph stage_graph(const StageModel& model = {}) {
  const auto hidden = static_cast<std::uint64_t>(model.hidden);
  return stage_graph(model, passes::format_policy(model.quant, {.hidden = hidden}));
}

}  // namespace llmc::tests
