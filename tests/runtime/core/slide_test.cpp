#include <gtest/gtest.h>

#include "tests/runtime/core/plain_model.h"

namespace llmc::fake {
namespace {

using Tokens = std::vector<std::int32_t>;

Tokens without(Tokens tokens, std::size_t keep, std::size_t drop) {
  const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(keep);
  tokens.erase(begin, begin + static_cast<std::ptrdiff_t>(drop));
  return tokens;
}

TEST(Slide, LeavesWhatASequenceWithoutTheDroppedTokensHas) {
  const Tokens tokens = prompt(kContext);
  for (const std::size_t keep : {0u, 1u, 8u, 13u}) {
    for (const std::size_t drop : {1u, 3u, 8u, 20u, 31u}) {
      Session s;
      ASSERT_EQ(llmc_prefill(s, tokens.data(), kContext, nullptr), LLMC_OK);
      ASSERT_EQ(llmc_slide(s, keep, drop), LLMC_OK);
      Tokens rest = without(tokens, keep, drop);
      EXPECT_EQ(llmc_position(s), rest.size());
      EXPECT_EQ(hash_logits(llmc_logits(s)), plain_hash(rest)) << keep << ' ' << drop;
      ASSERT_EQ(llmc_append(s, 9), LLMC_OK);
      rest.push_back(9);
      EXPECT_EQ(hash_logits(llmc_logits(s)), plain_hash(rest));
      EXPECT_TRUE(s.arena.guard_intact());
    }
  }
}

TEST(Slide, OutOfRangeOrOfNothing) {
  const Tokens tokens = prompt(20);
  Session s;
  ASSERT_EQ(llmc_prefill(s, tokens.data(), 20, nullptr), LLMC_OK);
  EXPECT_EQ(llmc_slide(s, 21, 0), LLMC_ERROR_POSITION);
  EXPECT_EQ(llmc_slide(s, 5, 16), LLMC_ERROR_POSITION);
  EXPECT_EQ(llmc_slide(s, SIZE_MAX, SIZE_MAX), LLMC_ERROR_POSITION);
  EXPECT_EQ(llmc_slide(nullptr, 0, 1), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_slide(s, 5, 0), LLMC_OK);
  EXPECT_EQ(hash_logits(llmc_logits(s)), plain_hash(tokens));
  EXPECT_EQ(llmc_slide(s, 5, 15), LLMC_OK);  // nothing follows: no logits
  EXPECT_EQ(llmc_position(s), 5u);
  EXPECT_EQ(llmc_logits(s), nullptr);
  EXPECT_EQ(llmc_last_chunk(s), 0u);
  std::int32_t token = -1;
  EXPECT_EQ(llmc_step(s, &token), LLMC_ERROR_NO_LOGITS);
  ASSERT_EQ(llmc_append(s, 9), LLMC_OK);
  Tokens rest(tokens.begin(), tokens.begin() + 5);
  rest.push_back(9);
  EXPECT_EQ(hash_logits(llmc_logits(s)), plain_hash(rest));
}

TEST(Slide, ACancelledOneChangesNothing) {
  int questions = 0;
  llmc_config c = config();
  c.cancel = [](void* user) { return static_cast<int>(++*static_cast<int*>(user) > 3); };
  c.cancel_user = &questions;
  Session s(c);
  const Tokens tokens = prompt(20);
  ASSERT_EQ(llmc_prefill(s, tokens.data(), 20, nullptr), LLMC_OK);
  EXPECT_EQ(llmc_slide(s, 2, 4), LLMC_ERROR_CANCELLED);
  EXPECT_EQ(questions, 4);
  EXPECT_EQ(llmc_slide(s, 2, 18), LLMC_ERROR_CANCELLED);  // nothing would follow
  EXPECT_EQ(questions, 5);
  EXPECT_EQ(hash_logits(llmc_logits(s)), plain_hash(tokens));
}

TEST(Slide, ASharedBeginningNeedsBlocksForWhatIsComputedAgain) {
  const Tokens tokens = prompt(30);
  Session s(config(), model({.sequences = 2, .pool = 5}));
  ASSERT_EQ(llmc_prefill(s, tokens.data(), 30, nullptr), LLMC_OK);
  std::uint32_t fork = 0;
  ASSERT_EQ(llmc_fork(s, 0, &fork), LLMC_OK);
  EXPECT_EQ(llmc_slide(s, 4, 8), LLMC_ERROR_POOL_FULL);  // three, and the copy of the first is one
  EXPECT_EQ(hash_logits(llmc_logits(s)), plain_hash(tokens));
  EXPECT_EQ(llmc_free_blocks(s), 1u);
  ASSERT_EQ(llmc_slide(s, 16, 8), LLMC_OK);
  EXPECT_EQ(hash_logits(llmc_logits(s)), plain_hash(without(tokens, 16, 8)));
  ASSERT_EQ(llmc_select(s, fork), LLMC_OK);
  EXPECT_EQ(hash_logits(llmc_logits(s)), plain_hash(tokens));
}

TEST(FullContext, SlidesByItselfWhenTold) {
  llmc_config c = config();
  c.full_context = LLMC_FULL_SLIDE;
  c.keep_first = 5;
  Session s(c);
  Tokens tokens = prompt(kContext - 2);
  ASSERT_EQ(llmc_prefill(s, tokens.data(), tokens.size(), nullptr), LLMC_OK);
  for (int i = 0; i < 100; ++i) {
    std::int32_t token = -1;
    ASSERT_EQ(llmc_step(s, &token), LLMC_OK);
    ASSERT_EQ(token, plain_greedy(tokens));
    if (tokens.size() == kContext) tokens = without(tokens, 5, (kContext - 5) / 2);
    tokens.push_back(token);
    ASSERT_EQ(llmc_position(s), tokens.size());
    ASSERT_EQ(hash_logits(llmc_logits(s)), plain_hash(tokens));
  }
  // A prompt that needs more room than half.
  const Tokens more = prompt(38);
  ASSERT_EQ(llmc_prefill(s, more.data(), more.size(), nullptr), LLMC_OK);
  const std::size_t drop = tokens.size() + more.size() - kContext;
  tokens = without(tokens, 5, std::max(drop, (tokens.size() - 5 + 1) / 2));
  tokens.insert(tokens.end(), more.begin(), more.end());
  EXPECT_EQ(hash_logits(llmc_logits(s)), plain_hash(tokens));
  // And one that is longer than what may go.
  std::size_t done = 7;
  EXPECT_EQ(llmc_prefill(s, prompt(41).data(), 41, &done), LLMC_ERROR_CONTEXT_FULL);
  EXPECT_EQ(done, 0u);
  EXPECT_EQ(hash_logits(llmc_logits(s)), plain_hash(tokens));
}

TEST(FullContext, OnlyKnownRulesAreTaken) {
  llmc_config c = config();
  c.full_context = 2;
  EXPECT_EQ(Session(c).status, LLMC_ERROR_ARGUMENT);
}

}  // namespace
}  // namespace llmc::fake
