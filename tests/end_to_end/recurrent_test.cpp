// Decoders with recurrent states, with and without attention: native code says what the interpreter
// says, and the same bits on every target, for every number of threads and every chunk size.
#include <gtest/gtest.h>

#include <bit>

#include "compiler/evaluate/verify.h"
#include "tests/end_to_end/models.h"
#include "tests/support_onnx/tiny_recurrent.h"

namespace llmc::tests {
namespace {

std::string form_name(const ::testing::TestParamInfo<testing::RecurrentForm>& info) {
  const auto& form = info.param;
  return std::string(form.convolution ? "Convolution" : "") + (form.ssm ? "Ssm" : "") +
         (form.attention ? "Attention" : "");
}

class RecurrentModels : public ::testing::TestWithParam<testing::RecurrentForm> {
 protected:
  driver::CompileOptions options(const std::string& target) {
    const auto path = folder_.path() / "model.onnx";
    testing::tiny_recurrent(GetParam()).save(path);
    auto compile = options_for(path, target, ir::WeightFormat::kF32);
    compile.sequences = 3;
    compile.batch = 3;
    return compile;
  }

 private:
  testing::TemporaryFolder folder_;
};

TEST_P(RecurrentModels, AgreeWithTheInterpreter) {
  evaluate::VerifyOptions verify;
  verify.native.compile = options("avx2");
  const auto report = evaluate::verify_model(verify);
  if (!report.ok()) return expect_ok(report.error());
  EXPECT_TRUE(report->reference_ok);
  EXPECT_LT(report->max_difference, 1e-4);
  EXPECT_EQ(report->greedy_agreement, 1.0);
}

TEST_P(RecurrentModels, SameBitsForAnySplitThreadsAndTarget) {
  const std::vector<std::int32_t> prompt{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7};
  Generated expected;
  for (const std::string target : {"avx2", "generic"}) {
    const auto model = load(options(target));
    ASSERT_NE(model, nullptr);
    for (const std::uint32_t chunk : {0u, 1u, 5u})
      for (const std::uint32_t threads : {1u, 3u}) {
        const Generated said = generate(*model, prompt, 12, {.threads = threads, .chunk = chunk});
        if (expected.ids.empty()) expected = said;
        EXPECT_EQ(said.ids, expected.ids) << target << ' ' << chunk << ' ' << threads;
        EXPECT_EQ(said.logit_hash, expected.logit_hash) << target << ' ' << chunk << ' ' << threads;
      }
  }
  EXPECT_EQ(expected.ids.size(), 12u);
}

std::vector<std::uint32_t> logit_bits(exec::Session& session) {
  const auto logits = session.logits();
  std::vector<std::uint32_t> bits;
  if (!logits.ok()) return bits;
  for (const float x : *logits) bits.push_back(std::bit_cast<std::uint32_t>(x));
  return bits;
}

TEST_P(RecurrentModels, SequencesHaveTheBitsOfEachAlone) {
  using Tokens = std::vector<std::int32_t>;
  const auto model = load(options("avx2"));
  ASSERT_NE(model, nullptr);
  auto together = *model->start(2);
  const Tokens prompt{3, 1, 4, 1, 5, 9, 2, 6, 5};
  ASSERT_TRUE(together->prefill(prompt).ok());
  std::vector<std::uint32_t> ids{0};
  std::vector<Tokens> tokens(3, prompt);
  for (std::size_t i = 1; i < 3; ++i)
    ids.push_back(*together->get<std::uint32_t>(&exec::Api::fork, 0));
  for (std::int32_t step = 0; step < 6; ++step) {
    Tokens next;
    for (Tokens& own : tokens) {
      own.push_back((step * 7 + static_cast<std::int32_t>(next.size()) * 5) % 24);
      next.push_back(own.back());
    }
    ASSERT_TRUE(together->call(&exec::Api::append_batch, ids.data(), ids.size(), next.data()).ok());
  }
  for (std::size_t i = 0; i < 3; ++i) {
    auto alone = *model->start(1);
    ASSERT_TRUE(alone->prefill(tokens[i]).ok());
    ASSERT_TRUE(together->call(&exec::Api::select, ids[i]).ok());
    const auto expected = logit_bits(*alone);
    EXPECT_FALSE(expected.empty());
    EXPECT_EQ(logit_bits(*together), expected) << i;
    // After a rewind the kept tokens are run again.
    ASSERT_TRUE(together->call(&exec::Api::rewind, 4).ok());
    ASSERT_TRUE(together->prefill(Tokens(tokens[i].begin() + 4, tokens[i].end())).ok());
    EXPECT_EQ(logit_bits(*together), expected) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, RecurrentModels,
                         ::testing::Values(testing::RecurrentForm{true, false, false},
                                           testing::RecurrentForm{false, true, false},
                                           testing::RecurrentForm{true, true, false},
                                           testing::RecurrentForm{false, false, true, false},
                                           testing::RecurrentForm{true, true, true}),
                         form_name);

}  // namespace
}  // namespace llmc::tests
