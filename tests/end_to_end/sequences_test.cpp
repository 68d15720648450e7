// Several sequences of a compiled model, forked and stepped together, against sessions of one each.
#include <gtest/gtest.h>

#include <bit>
#include <numeric>

#include "tests/end_to_end/models.h"

namespace llmc::tests {
namespace {

using Tokens = std::vector<std::int32_t>;
using exec::Session;

std::vector<std::uint32_t> bits(Session& session) {
  const auto logits = session.logits();
  if (!logits.ok()) return {};
  std::vector<std::uint32_t> result;
  for (const float x : *logits) result.push_back(std::bit_cast<std::uint32_t>(x));
  return result;
}

class CompiledSequences : public ::testing::TestWithParam<bool> {};

TEST_P(CompiledSequences, HaveTheBitsOfEachAlone) {
  constexpr std::uint32_t kSequences = 5, kSteps = 12;
  driver::CompileOptions options = options_for(tinyfable(), "avx2", passes::kQ4Mixed);
  options.sequences = kSequences;
  options.batch = 4;
  options.contiguous = GetParam();
  const auto model = load(options);
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->model().sequences, kSequences);
  auto together = *model->start(2);
  Tokens prompt(45);
  std::iota(prompt.begin(), prompt.end(), 20);
  ASSERT_TRUE(together->prefill(prompt).ok());
  std::vector<std::uint32_t> ids{0};
  std::vector<Tokens> tokens(kSequences, prompt);
  for (std::uint32_t i = 1; i < kSequences; ++i) {
    const auto fork = together->get<std::uint32_t>(&exec::Api::fork, 0);
    ASSERT_TRUE(fork.ok());
    ids.push_back(*fork);
  }
  for (std::uint32_t i = 0; i < kSequences; ++i) {
    ASSERT_TRUE(together->call(&exec::Api::select, ids[i]).ok());
    tokens[i].push_back(static_cast<std::int32_t>(100 + i));
    ASSERT_TRUE(together->prefill(Tokens{tokens[i].back()}).ok());
  }
  for (std::uint32_t step = 0; step < kSteps; ++step) {
    // Four at most, others each time.
    std::vector<std::uint32_t> some;
    for (std::uint32_t i = 0; i < 1 + step % 4; ++i) some.push_back(ids[(step + i) % kSequences]);
    Tokens next(some.size());
    ASSERT_TRUE(together->call(&exec::Api::step_batch, some.data(), some.size(), next.data()).ok());
    for (std::size_t i = 0; i < some.size(); ++i) tokens[some[i]].push_back(next[i]);
  }
  for (std::uint32_t i = 0; i < kSequences; ++i) {
    auto alone = *model->start(1);
    ASSERT_TRUE(alone->prefill(tokens[i]).ok());
    ASSERT_TRUE(together->call(&exec::Api::select, ids[i]).ok());
    EXPECT_EQ(together->position(), tokens[i].size());
    EXPECT_TRUE(bits(*together) == bits(*alone)) << i;
    // And each token was the one that a session of its own would have chosen.
    ASSERT_TRUE(alone->call(&exec::Api::rewind, 46).ok());
    ASSERT_TRUE(alone->call(&exec::Api::rewind, 45).ok());
    ASSERT_TRUE(alone->prefill(Tokens{tokens[i][45]}).ok());
    for (std::size_t t = 46; t < tokens[i].size(); ++t) EXPECT_EQ(*alone->step(), tokens[i][t]);
  }
  const std::uint32_t same[] = {0, 0};
  const std::int32_t ones[] = {1, 1};
  EXPECT_FALSE(together->call(&exec::Api::append_batch, same, 2, ones).ok());
  ASSERT_TRUE(together->call(&exec::Api::select, 0).ok());
  EXPECT_TRUE(together->call(&exec::Api::release, ids[1]).ok());
  EXPECT_FALSE(together->call(&exec::Api::select, ids[1]).ok());
}

TEST_P(CompiledSequences, LogitsOfSeveralRowsAreThoseOfEach) {
  driver::CompileOptions options = options_for(tinyfable(), "avx2", passes::kQ4Mixed);
  options.sequences = 5;
  options.batch = 4;
  options.contiguous = GetParam();
  const auto model = load(options);
  ASSERT_NE(model, nullptr);
  auto session = *model->start(1);
  Tokens prompt(20);
  std::iota(prompt.begin(), prompt.end(), 20);
  ASSERT_TRUE(session->prefill(prompt).ok());
  const std::size_t vocabulary = model->model().vocab;
  for (const std::uint32_t row : {0u, 7u, 16u}) {
    const auto four = *session->logits_rows(row, 4);
    ASSERT_EQ(four.size(), 4 * vocabulary);
    const std::vector<float> copy(four.begin(), four.end());
    for (std::uint32_t i = 0; i < 4; ++i) {
      const auto one = *session->logits_at(row + i);
      EXPECT_TRUE(std::equal(one.begin(), one.end(),
                             copy.begin() + static_cast<std::ptrdiff_t>(i * vocabulary)));
    }
  }
  EXPECT_TRUE(session->logits_rows(17, 4)->empty());
}

INSTANTIATE_TEST_SUITE_P(Caches, CompiledSequences, ::testing::Values(false, true),
                         [](const auto& info) { return info.param ? "contiguous" : "blocked"; });

}  // namespace
}  // namespace llmc::tests
