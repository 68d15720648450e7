#include <gtest/gtest.h>

#include <vector>

#include "tests/runtime/core/fake_model.h"

namespace llmc::fake {
namespace {

/// Several sequences of one session against sessions that hold one each.
std::uint64_t alone(const std::vector<std::int32_t>& tokens) {
  Session s;
  EXPECT_EQ(llmc_prefill(s, tokens.data(), tokens.size(), nullptr), LLMC_OK);
  return hash_logits(llmc_logits(s));
}

Session session_of(const Sizes& sizes) {
  return Session(config(), model(sizes));
}

std::uint64_t logits_of(llmc_session* s, std::uint32_t sequence) {
  EXPECT_EQ(llmc_select(s, sequence), LLMC_OK);
  return hash_logits(llmc_logits(s));
}

TEST(Sequences, NumberZeroIsThereAndOthersComeAndGo) {
  Session s = session_of({.sequences = 3});
  ASSERT_EQ(s.status, LLMC_OK);
  EXPECT_EQ(llmc_sequence_limit(s), 3u);
  EXPECT_EQ(llmc_selected(s), 0u);
  EXPECT_EQ(llmc_select(s, 1), LLMC_ERROR_SEQUENCE);
  EXPECT_EQ(llmc_select(s, UINT32_MAX), LLMC_ERROR_SEQUENCE);
  std::uint32_t a = 9, b = 9, c = 9;
  ASSERT_EQ(llmc_new_sequence(s, &a), LLMC_OK);
  ASSERT_EQ(llmc_fork(s, 0, &b), LLMC_OK);
  EXPECT_EQ(a, 1u);
  EXPECT_EQ(b, 2u);
  EXPECT_EQ(llmc_new_sequence(s, &c), LLMC_ERROR_SEQUENCE);
  EXPECT_EQ(llmc_fork(s, 0, &c), LLMC_ERROR_SEQUENCE);
  EXPECT_EQ(c, 9u);
  EXPECT_EQ(llmc_release(s, 0), LLMC_ERROR_ARGUMENT);  // selected
  EXPECT_EQ(llmc_release(s, 3), LLMC_ERROR_SEQUENCE);
  ASSERT_EQ(llmc_release(s, 1), LLMC_OK);
  EXPECT_EQ(llmc_release(s, 1), LLMC_ERROR_SEQUENCE);
  EXPECT_EQ(llmc_fork(s, 1, &c), LLMC_ERROR_SEQUENCE);
  EXPECT_EQ(llmc_fork(nullptr, 0, &c), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_fork(s, 0, nullptr), LLMC_ERROR_ARGUMENT);
  ASSERT_EQ(llmc_new_sequence(s, &c), LLMC_OK);
  EXPECT_EQ(c, 1u);
}

TEST(Sequences, AForkGoesOnFromTheSameTokensAndLogits) {
  const auto tokens = prompt(40);
  Session s = session_of({.sequences = 3});
  ASSERT_EQ(llmc_prefill(s, tokens.data(), 20, nullptr), LLMC_OK);
  const std::size_t free = llmc_free_blocks(s);
  std::uint32_t fork = 0;
  ASSERT_EQ(llmc_fork(s, 0, &fork), LLMC_OK);
  EXPECT_EQ(llmc_free_blocks(s), free);
  const std::uint64_t common = alone({tokens.begin(), tokens.begin() + 20});
  EXPECT_EQ(logits_of(s, fork), common);
  EXPECT_EQ(llmc_position(s), 20u);
  ASSERT_EQ(llmc_prefill(s, tokens.data() + 20, 20, nullptr), LLMC_OK);
  EXPECT_EQ(logits_of(s, fork), alone(tokens));
  EXPECT_EQ(logits_of(s, 0), common);
  EXPECT_EQ(llmc_last_chunk(s), 0u);
  std::vector<std::int32_t> other(tokens.begin(), tokens.begin() + 20);
  for (int i = 0; i < 9; ++i) {
    ASSERT_EQ(llmc_append(s, i), LLMC_OK);
    other.push_back(i);
  }
  EXPECT_EQ(logits_of(s, 0), alone(other));
  EXPECT_EQ(logits_of(s, fork), alone(tokens));
  ASSERT_EQ(llmc_rewind(s, 18), LLMC_OK);
  ASSERT_EQ(llmc_append(s, 5), LLMC_OK);
  EXPECT_EQ(logits_of(s, 0), alone(other));
  EXPECT_TRUE(s.arena.guard_intact());
}

TEST(Sequences, EachSamplesInItsOwnWay) {
  const auto tokens = prompt(9);
  Session s = session_of({.sequences = 2});
  ASSERT_EQ(llmc_prefill(s, tokens.data(), 9, nullptr), LLMC_OK);
  std::uint32_t fork = 0;
  ASSERT_EQ(llmc_fork(s, 0, &fork), LLMC_OK);
  ASSERT_EQ(llmc_select(s, fork), LLMC_OK);
  llmc_sampling sampling;
  llmc_sampling_defaults(&sampling);
  sampling.temperature = 5;
  ASSERT_EQ(llmc_set_sampling(s, &sampling), LLMC_OK);
  int different = 0;
  for (int i = 0; i < 10; ++i) {
    std::int32_t a = 0, b = 0;
    ASSERT_EQ(llmc_select(s, 0), LLMC_OK);
    ASSERT_EQ(llmc_step(s, &a), LLMC_OK);
    const float* logits = llmc_logits(s);
    ASSERT_NE(logits, nullptr);
    ASSERT_EQ(llmc_select(s, fork), LLMC_OK);
    ASSERT_EQ(llmc_step(s, &b), LLMC_OK);
    different += a != b;
  }
  EXPECT_GT(different, 0);
}

TEST(Sequences, BatchesHaveTheBitsOfEachAlone) {
  Session s = session_of({.sequences = 5, .batch = 4});
  std::vector<std::vector<std::int32_t>> tokens(5);
  std::vector<std::uint32_t> all(5);
  for (std::uint32_t i = 1; i < 5; ++i) ASSERT_EQ(llmc_new_sequence(s, &all[i]), LLMC_OK);
  for (std::uint32_t i = 0; i < 5; ++i) {
    ASSERT_EQ(llmc_select(s, i), LLMC_OK);
    tokens[i] = prompt(i * 5 + 1);
    ASSERT_EQ(llmc_prefill(s, tokens[i].data(), tokens[i].size(), nullptr), LLMC_OK);
  }
  for (int round = 0; round < 12; ++round) {
    // Any number of them in any order.
    std::vector<std::uint32_t> some;
    for (int i = 0; i < round % 4 + 1; ++i)
      some.push_back(static_cast<std::uint32_t>((round * 3 + i * 2) % 5));
    std::vector<std::int32_t> next(some.size());
    if (round % 2 == 0) {
      ASSERT_EQ(llmc_step_batch(s, some.data(), some.size(), next.data()), LLMC_OK);
    } else {
      for (std::size_t i = 0; i < some.size(); ++i) next[i] = static_cast<std::int32_t>(7 * i + 1);
      ASSERT_EQ(llmc_append_batch(s, some.data(), some.size(), next.data()), LLMC_OK);
    }
    for (std::size_t i = 0; i < some.size(); ++i) {
      std::vector<std::int32_t>& own = tokens[some[i]];
      if (round % 2 == 0) {
        Session one;
        ASSERT_EQ(llmc_prefill(one, own.data(), own.size(), nullptr), LLMC_OK);
        std::int32_t token = 0;
        ASSERT_EQ(llmc_sample(one, &token), LLMC_OK);
        EXPECT_EQ(next[i], token);
      }
      own.push_back(next[i]);
    }
    for (std::uint32_t i = 0; i < 5; ++i) ASSERT_EQ(logits_of(s, i), alone(tokens[i])) << i;
  }
  EXPECT_TRUE(s.arena.guard_intact());
}

TEST(Sequences, ABatchThatFailsChangesNothing) {
  bool cancel = false;
  llmc_config c = config();
  c.cancel = [](void* user) { return static_cast<int>(*static_cast<bool*>(user)); };
  c.cancel_user = &cancel;
  Session s(c, model({.sequences = 4, .batch = 3, .pool = 8}));
  const auto tokens = prompt(kContext);
  ASSERT_EQ(llmc_prefill(s, tokens.data(), 20, nullptr), LLMC_OK);  // three blocks
  std::uint32_t fork = 0, third = 0;
  ASSERT_EQ(llmc_fork(s, 0, &fork), LLMC_OK);
  ASSERT_EQ(llmc_new_sequence(s, &third), LLMC_OK);
  ASSERT_EQ(llmc_select(s, third), LLMC_OK);
  ASSERT_EQ(llmc_prefill(s, tokens.data(), 32, nullptr), LLMC_OK);  // four: one is left
  const std::uint64_t at20 = logits_of(s, 0), at32 = logits_of(s, third);
  const auto unchanged = [&] {
    EXPECT_EQ(llmc_free_blocks(s), 1u);
    EXPECT_EQ(logits_of(s, 0), at20);
    EXPECT_EQ(logits_of(s, fork), at20);
    EXPECT_EQ(logits_of(s, third), at32);
  };
  const std::uint32_t all[] = {0, fork, third};
  std::int32_t next[] = {1, 2, 3};
  EXPECT_EQ(llmc_append_batch(s, all, 3, next), LLMC_ERROR_POOL_FULL);
  unchanged();
  EXPECT_EQ(llmc_step_batch(s, all, 3, next), LLMC_ERROR_POOL_FULL);
  unchanged();
  const std::uint32_t twice[] = {0, fork, 0};
  EXPECT_EQ(llmc_append_batch(s, twice, 3, next), LLMC_ERROR_ARGUMENT);
  const std::uint32_t unknown[] = {0, 3};
  EXPECT_EQ(llmc_append_batch(s, unknown, 2, next), LLMC_ERROR_SEQUENCE);
  EXPECT_EQ(llmc_step_batch(s, unknown, 2, next), LLMC_ERROR_SEQUENCE);
  const std::int32_t bad[] = {1, kVocab};
  EXPECT_EQ(llmc_append_batch(s, all, 2, bad), LLMC_ERROR_TOKEN);
  EXPECT_EQ(llmc_append_batch(s, all, 4, next), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_append_batch(s, nullptr, 1, next), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_append_batch(s, all, 0, nullptr), LLMC_OK);
  cancel = true;
  EXPECT_EQ(llmc_append_batch(s, all, 2, next), LLMC_ERROR_CANCELLED);
  cancel = false;
  unchanged();
  EXPECT_EQ(next[0], 1);
  // The fork has the shared block to itself once the other one has its copy.
  ASSERT_EQ(llmc_append_batch(s, all, 2, next), LLMC_OK);
  EXPECT_EQ(llmc_free_blocks(s), 0u);
  std::vector<std::int32_t> longer(tokens.begin(), tokens.begin() + 20);
  longer.push_back(2);
  EXPECT_EQ(logits_of(s, fork), alone(longer));
  longer.back() = 1;
  EXPECT_EQ(logits_of(s, 0), alone(longer));
}

TEST(Sequences, AnExhaustedPoolIsAStatusAndChangesNothing) {
  Session s(config(), model({.sequences = 2, .pool = 3}));
  const auto tokens = prompt(40);
  std::size_t done = 7;
  EXPECT_EQ(llmc_prefill(s, tokens.data(), 25, &done), LLMC_ERROR_POOL_FULL);
  EXPECT_EQ(done, 0u);
  EXPECT_EQ(llmc_position(s), 0u);
  ASSERT_EQ(llmc_prefill(s, tokens.data(), 24, nullptr), LLMC_OK);
  std::int32_t token = -7;
  EXPECT_EQ(llmc_step(s, &token), LLMC_ERROR_POOL_FULL);
  EXPECT_EQ(token, -7);
  EXPECT_EQ(hash_logits(llmc_logits(s)), alone({tokens.begin(), tokens.begin() + 24}));
  std::uint32_t fork = 0;
  ASSERT_EQ(llmc_fork(s, 0, &fork), LLMC_OK);
  ASSERT_EQ(llmc_rewind(s, 17), LLMC_OK);
  EXPECT_EQ(llmc_append(s, tokens[17]), LLMC_ERROR_POOL_FULL);  // the copy needs a block
  ASSERT_EQ(llmc_release(s, fork), LLMC_OK);
  ASSERT_EQ(llmc_append(s, tokens[17]), LLMC_OK);
  EXPECT_EQ(hash_logits(llmc_logits(s)), alone({tokens.begin(), tokens.begin() + 18}));
}

TEST(Sequences, CancelledPromptsOfSharersAreRolledBack) {
  int calls = 100;
  llmc_config c = config();
  c.cancel = [](void* user) { return static_cast<int>((*static_cast<int*>(user))-- <= 0); };
  c.cancel_user = &calls;
  Session s(c, model({.sequences = 2}));
  const auto tokens = prompt(40);
  ASSERT_EQ(llmc_prefill(s, tokens.data(), 12, nullptr), LLMC_OK);
  std::uint32_t fork = 0;
  ASSERT_EQ(llmc_fork(s, 0, &fork), LLMC_OK);
  const std::size_t free = llmc_free_blocks(s);
  const std::uint64_t before = hash_logits(llmc_logits(s));
  calls = 2;
  EXPECT_EQ(llmc_prefill(s, tokens.data() + 12, 28, nullptr), LLMC_ERROR_CANCELLED);
  EXPECT_EQ(llmc_free_blocks(s), free);
  EXPECT_EQ(logits_of(s, 0), before);
  EXPECT_EQ(logits_of(s, fork), before);
  calls = 100;
  ASSERT_EQ(llmc_prefill(s, tokens.data() + 12, 28, nullptr), LLMC_OK);
  EXPECT_EQ(logits_of(s, fork), alone(tokens));
  EXPECT_EQ(logits_of(s, 0), before);
}

TEST(Sequences, ForksOfOnePrefixUseMemoryForWhatDiffers) {
  constexpr std::uint32_t kMany = 1024;
  // 41 tokens before: five whole blocks and one that everybody copies.
  Session s(config(), model({.sequences = kMany, .batch = 7, .pool = 6 + kMany - 1}));
  const auto tokens = prompt(41);
  ASSERT_EQ(llmc_prefill(s, tokens.data(), 41, nullptr), LLMC_OK);
  EXPECT_EQ(llmc_free_blocks(s), kMany - 1);
  for (std::uint32_t i = 1; i < kMany; ++i) {
    std::uint32_t fork = 0;
    ASSERT_EQ(llmc_fork(s, 0, &fork), LLMC_OK);
    ASSERT_EQ(fork, i);
  }
  EXPECT_EQ(llmc_free_blocks(s), kMany - 1);
  for (std::uint32_t i = 0; i < kMany; ++i) {
    ASSERT_EQ(llmc_select(s, i), LLMC_OK);
    ASSERT_EQ(llmc_append(s, static_cast<std::int32_t>(i % kVocab)), LLMC_OK);
    ASSERT_EQ(llmc_append(s, static_cast<std::int32_t>(i / kVocab)), LLMC_OK);
    // Each has a copy of one block; the last one keeps the common one.
    EXPECT_EQ(llmc_free_blocks(s), i + 1 < kMany ? kMany - 2 - i : 0);
  }
  for (std::uint32_t i = 0; i < kMany; i += 111) {
    auto own = tokens;
    own.push_back(static_cast<std::int32_t>(i % kVocab));
    own.push_back(static_cast<std::int32_t>(i / kVocab));
    EXPECT_EQ(logits_of(s, i), alone(own)) << i;
  }
  ASSERT_EQ(llmc_select(s, 0), LLMC_OK);
  for (std::uint32_t i = 1; i < kMany; ++i) ASSERT_EQ(llmc_release(s, i), LLMC_OK);
  EXPECT_EQ(llmc_free_blocks(s), kMany - 1);
}

TEST(Sequences, OneBlockMayHoldAWholeContext) {
  Session s(config(), model({.sequences = 2, .contiguous = true}));
  EXPECT_EQ(llmc_pool_blocks(s), 2u);
  const auto tokens = prompt(40);
  ASSERT_EQ(llmc_prefill(s, tokens.data(), 30, nullptr), LLMC_OK);
  std::uint32_t fork = 0;
  ASSERT_EQ(llmc_fork(s, 0, &fork), LLMC_OK);
  EXPECT_EQ(llmc_free_blocks(s), 1u);
  ASSERT_EQ(llmc_prefill(s, tokens.data() + 30, 10, nullptr), LLMC_OK);
  EXPECT_EQ(logits_of(s, 0), alone(tokens));
  EXPECT_EQ(logits_of(s, fork), alone({tokens.begin(), tokens.begin() + 30}));
}

TEST(Sequences, LogitsOfSeveralRowsAtOnce) {
  Session s(config(), model({.batch = 3}));
  const auto tokens = prompt(12);
  ASSERT_EQ(llmc_prefill(s, tokens.data(), 12, nullptr), LLMC_OK);
  ASSERT_EQ(llmc_last_chunk(s), 5u);
  EXPECT_EQ(llmc_batch_size(s), 3u);
  const std::uint64_t last = hash_logits(llmc_logits(s));
  for (std::size_t row = 0; row < 5; ++row) {
    for (std::size_t rows = 1; rows <= 3; ++rows) {
      const float* logits = llmc_logits_rows(s, row, rows);
      ASSERT_EQ(logits != nullptr, row + rows <= 5);
      for (std::size_t i = 0; logits != nullptr && i < rows; ++i)
        EXPECT_EQ(hash_logits(logits + i * kVocab),
                  alone({tokens.begin(), tokens.begin() + static_cast<long>(8 + row + i)}));
    }
    EXPECT_EQ(hash_logits(llmc_logits(s)), last);
  }
  EXPECT_EQ(llmc_logits_rows(s, 0, 4), nullptr);
  EXPECT_EQ(llmc_logits_rows(s, 0, 0), nullptr);
  EXPECT_EQ(llmc_logits_rows(s, SIZE_MAX, 2), nullptr);
}

}  // namespace
}  // namespace llmc::fake
