#include "tests/passes/evaluation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "compiler/reference/interpreter.h"

namespace llmc::passes::testing {

namespace {

using reference::Tensor;

/// splitmix64
std::uint64_t next(std::uint64_t& state) {
  std::uint64_t z = (state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

Inputs make_inputs(const ir::Graph& graph, const Bindings& bindings, std::uint64_t seed) {
  Inputs inputs;
  const std::int64_t past = bindings.contains("past") ? bindings.at("past") : 0;
  for (ir::ValueId id : graph.inputs()) {
    const ir::Value& value = graph.value(id);
    std::vector<std::int64_t> dims;
    for (const ir::Dim& d : value.type.dims) dims.push_back(d.evaluate(bindings).value_or(3));
    Tensor tensor = reference::zeros(value.type.element, dims);
    for (float& f : tensor.floats)
      f = static_cast<float>(static_cast<double>(next(seed) >> 11) * 0x1p-52 - 1);
    const bool positions = value.name.find("position") != std::string::npos;
    for (std::size_t i = 0; i < tensor.integers.size(); ++i)
      tensor.integers[i] = positions ? past + static_cast<std::int64_t>(i)
                                     : static_cast<std::int64_t>(next(seed) % 5);
    if (value.kind == ir::InputKind::kMask) {
      const std::int64_t keys = dims.back(), queries = dims[dims.size() - 2];
      for (std::size_t i = 0; i < tensor.floats.size(); ++i) {
        const auto key = static_cast<std::int64_t>(i) % keys;
        const std::int64_t query = static_cast<std::int64_t>(i) / keys % queries;
        tensor.floats[i] = key <= keys - queries + query ? 0.0f : -3.4028234663852886e38f;
      }
    }
    inputs.emplace(value.name, std::move(tensor));
  }
  // Inputs that passes add (choose_by_length, canonical_positions).
  if (bindings.contains("seq")) {
    const std::int64_t seq = bindings.at("seq");
    inputs.emplace("last_position", reference::i64_tensor({}, {past + seq - 1}));
    std::vector<std::int64_t> positions(static_cast<std::size_t>(seq));
    std::iota(positions.begin(), positions.end(), past);
    inputs.emplace("position_ids", reference::i64_tensor({1, seq}, std::move(positions)));
  }
  return inputs;
}

std::map<std::string, Tensor> evaluate(const ir::Graph& graph, const Inputs& inputs) {
  std::vector<Tensor> operands;
  for (ir::ValueId id : graph.inputs()) {
    const auto it = inputs.find(graph.value(id).name);
    if (it == inputs.end()) {
      ADD_FAILURE() << "no input called " << graph.value(id).name;
      return {};
    }
    operands.push_back(it->second);
  }
  auto outputs = reference::evaluate(graph, operands);
  if (!outputs.ok()) {
    ADD_FAILURE() << format(outputs.error().first());
    return {};
  }
  std::map<std::string, Tensor> named;
  for (std::size_t i = 0; i < outputs->size(); ++i) {
    const std::string& name = graph.value(graph.outputs()[i]).name;
    named.emplace(name.empty() ? "#" + std::to_string(i) : name, std::move((*outputs)[i]));
  }
  return named;
}

namespace {

using Outputs = std::map<std::string, Tensor>;

void expect_same_outputs(const Outputs& left, const Outputs& right, double tolerance) {
  ASSERT_FALSE(left.empty());
  ASSERT_EQ(left.size(), right.size());
  for (const auto& [name, x] : left) {
    ASSERT_TRUE(right.contains(name)) << "output " << name << " is gone";
    const Tensor& y = right.at(name);
    ASSERT_EQ(x.element, y.element) << name;
    ASSERT_EQ(x.dims, y.dims) << name;
    EXPECT_EQ(x.integers, y.integers) << name;
    ASSERT_EQ(x.floats.size(), y.floats.size());
    double worst = 0;
    for (std::size_t i = 0; i < x.floats.size(); ++i) {
      const double p = x.floats[i], q = y.floats[i];
      if (std::isnan(p) && std::isnan(q)) continue;
      if (p == q) continue;
      const double off = std::abs(p - q) / std::max(1.0, std::abs(p));
      worst = std::isnan(off) ? INFINITY : std::max(worst, off);
    }
    EXPECT_LE(worst, tolerance) << "output " << name;
  }
}

bool is_cache(const std::string& output) {
  return output.starts_with("present.");
}

/// Returns the results of `seq` tokens after `past` others, without the caches.
Outputs evaluate_after(const ir::Graph& graph, const ir::Graph& inputs_of, std::int64_t seq,
                       std::int64_t past, std::uint64_t seed) {
  const auto inputs = [&](const Bindings& bindings) {
    Inputs made = make_inputs(inputs_of, bindings, seed + bindings.at("seq"));
    for (auto& [name, empty] : make_inputs(graph, {{"seq", 1}, {"past", 0}}, 0))
      if (name.starts_with("past.")) made.insert_or_assign(name, std::move(empty));
    return made;
  };
  Inputs second = inputs({{"seq", seq}, {"past", past}});
  if (past != 0)
    for (auto& [name, cache] : evaluate(graph, inputs({{"seq", past}, {"past", 0}})))
      if (is_cache(name)) second.insert_or_assign("past" + name.substr(7), std::move(cache));
  Outputs outputs = evaluate(graph, second);
  std::erase_if(outputs, [](const auto& output) { return is_cache(output.first); });
  return outputs;
}

}  // namespace

bool have_same_inputs(const ir::Graph& a, const ir::Graph& b) {
  std::map<std::string, ir::TensorType> types;
  for (ir::ValueId id : a.inputs()) types.emplace(a.value(id).name, a.value(id).type);
  for (ir::ValueId id : b.inputs()) {
    const auto it = types.find(b.value(id).name);
    if (it != types.end() && it->second != b.value(id).type) return false;
  }
  return true;
}

void expect_same_results(const ir::Graph& a, const ir::Graph& b, const Inputs& inputs,
                         double tolerance) {
  expect_same_outputs(evaluate(a, inputs), evaluate(b, inputs), tolerance);
}

void expect_same_texts(const ir::Graph& a, const ir::Graph& b, std::int64_t seq, std::int64_t past,
                       std::uint64_t seed, double tolerance) {
  expect_same_outputs(evaluate_after(a, a, seq, past, seed), evaluate_after(b, a, seq, past, seed),
                      tolerance);
}

}  // namespace llmc::passes::testing
