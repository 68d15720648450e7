// Decoders of every family, from hand-written stage graphs: native code says what the interpreter
// says of the graph before fusion, and the same bits on every target, for every number of threads
// and every chunk size.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "compiler/reference/interpreter.h"
#include "passes/pipeline.h"
#include "tests/end_to_end/models.h"
#include "tests/plan/family_graph.h"

namespace llmc::tests {
namespace {

std::vector<std::int32_t> prompt_of(std::size_t count, std::int64_t vocabulary) {
  std::vector<std::int32_t> prompt;
  for (std::size_t i = 0; i < count; ++i) {
    prompt.push_back(
        static_cast<std::int32_t>((i * 31 + 3) % static_cast<std::size_t>(vocabulary)));
  }
  return prompt;
}

/// Logits after each token, by the interpreter.
std::vector<std::vector<float>> reference(const ir::Graph& graph,
                                          const std::vector<std::int32_t>& prompt) {
  const auto tokens = static_cast<std::int64_t>(prompt.size());
  const std::map<std::string, std::int64_t> bindings{{"seq", tokens}, {"past", 0}};
  std::vector<reference::Tensor> inputs;
  for (const ir::ValueId id : graph.inputs()) {
    const ir::TensorType& type = graph.value(id).type;
    std::vector<std::int64_t> dims;
    for (const ir::Dim& dim : type.dims) dims.push_back(dim.evaluate(bindings).value_or(1));
    inputs.push_back(reference::zeros(type.element, dims));
    auto& integers = inputs.back().integers;
    for (std::size_t i = 0; i < integers.size(); ++i) {
      integers[i] = graph.value(id).kind == ir::InputKind::kTokenIds ? prompt[i]
                                                                     : static_cast<std::int64_t>(i);
    }
  }
  const auto outputs = reference::evaluate(graph, inputs);
  if (!outputs.ok()) {
    expect_ok(outputs.error());
    return {};
  }
  std::vector<std::vector<float>> rows;
  const std::vector<float>& all = outputs->front().floats;
  const std::size_t width = all.size() / prompt.size();
  for (std::size_t t = 0; t < prompt.size(); ++t) {
    rows.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(t * width),
                      all.begin() + static_cast<std::ptrdiff_t>((t + 1) * width));
  }
  return rows;
}

ir::Graph fused(const ir::Graph& graph) {
  auto result = passes::run_pipeline(graph);
  if (!result.ok()) {
    expect_ok(result.error());
    return {};
  }
  return std::move(result->graph);
}

class FamilyTest : public ::testing::TestWithParam<Family> {
 protected:
  std::unique_ptr<exec::NativeModel> compiled(const ir::Graph& graph, const std::string& target,
                                              ir::WeightFormat format) {
    const auto folder = folder_.path() / std::to_string(count_++);
    driver::CompileOptions options = options_for(GetParam().name, target, format);
    options.out_dir = folder;
    options.name = "family";
    const auto bundle = driver::compile_stages(graph, options);
    if (!bundle.ok()) {
      expect_ok(bundle.error());
      return nullptr;
    }
    options.model = folder;
    return load(options);
  }

 private:
  testing::TemporaryFolder folder_;
  int count_ = 0;
};

void expect_logits(const exec::NativeModel& model, const std::vector<std::int32_t>& prompt,
                   const std::vector<std::vector<float>>& expected) {
  const auto session = model.start(2);
  ASSERT_TRUE(session.ok());
  std::size_t at = 0;
  for (const std::size_t count : {19, 1, 1, 12, 5, 1, 40, 1}) {
    const std::span<const std::int32_t> piece(prompt.data() + at, count);
    ASSERT_TRUE((*session)->prefill(piece).ok());
    at += count;
    const std::vector<float>& want = expected.at(at - 1);
    float largest = 0;
    for (const float x : want) largest = std::max(largest, std::abs(x));
    const auto logits = (*session)->logits();
    ASSERT_TRUE(logits.ok());
    const std::span<const float> got = *logits;
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) {
      ASSERT_NEAR(got[i], want[i], 2e-5 * largest) << "after " << at << " tokens, logit " << i;
    }
  }
}

TEST_P(FamilyTest, SaysWhatTheInterpreterSays) {
  if (!target::runs_here(**target::find("avx2"))) GTEST_SKIP() << "this machine has no AVX2";
  const ir::Graph graph = FamilyText(GetParam()).build();
  const auto prompt = prompt_of(80, GetParam().vocabulary);
  const auto expected = reference(graph, prompt);
  ASSERT_EQ(expected.size(), prompt.size());
  {
    SCOPED_TRACE("each operator a stage of its own");
    const auto model = compiled(graph, "avx2", ir::WeightFormat::kF32);
    ASSERT_NE(model, nullptr);
    expect_logits(*model, prompt, expected);
  }
  SCOPED_TRACE("fused and rolled");
  const auto model = compiled(fused(graph), "avx2", ir::WeightFormat::kF32);
  ASSERT_NE(model, nullptr);
  expect_logits(*model, prompt, expected);
}

TEST_P(FamilyTest, HasTheSameBitsEverywhere) {
  const ir::Graph graph = fused(FamilyText(GetParam()).build());
  const auto prompt = prompt_of(71, GetParam().vocabulary);
  const auto generic = compiled(graph, "generic", ir::WeightFormat::kQ4);
  ASSERT_NE(generic, nullptr);
  const Generated expected = generate(*generic, prompt, 4);
  const auto check = [&](const exec::NativeModel& model) {
    for (const std::uint32_t threads : {1u, 2u, 4u}) {
      for (const std::uint32_t chunk : {1u, 7u, 0u}) {
        const Generated found = generate(model, prompt, 4, {.threads = threads, .chunk = chunk});
        EXPECT_EQ(found.ids, expected.ids) << threads << " threads, chunk " << chunk;
        EXPECT_EQ(found.logit_hash, expected.logit_hash) << threads << " threads, chunk " << chunk;
      }
    }
  };
  check(*generic);
  if (!target::runs_here(**target::find("avx2"))) GTEST_SKIP() << "this machine has no AVX2";
  const auto avx2 = compiled(graph, "avx2", ir::WeightFormat::kQ4);
  ASSERT_NE(avx2, nullptr);
  check(*avx2);
}

INSTANTIATE_TEST_SUITE_P(Decoders, FamilyTest, ::testing::ValuesIn(families()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace llmc::tests
