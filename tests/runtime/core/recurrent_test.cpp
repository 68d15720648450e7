#include <gtest/gtest.h>

#include <span>

#include "tests/runtime/core/fake_model.h"

/// Sessions of a model whose rows depend on a recurrent state: after every operation the logits are
/// those of a new session that reads the same tokens.
namespace llmc::fake {
namespace {

llmc_model recurrent_model(std::uint32_t sequences = 1) {
  return model({.sequences = sequences, .batch = sequences, .recurrent = true});
}

std::uint64_t fresh_logits(const std::vector<std::int32_t>& tokens) {
  const Session session(config(), recurrent_model());
  EXPECT_EQ(llmc_prefill(session, tokens.data(), tokens.size(), nullptr), LLMC_OK);
  return hash_logits(llmc_logits(session));
}

std::vector<std::int32_t> tokens_of(llmc_session* session) {
  std::vector<std::int32_t> tokens(llmc_position(session));
  EXPECT_EQ(llmc_tokens(session, 0, tokens.data(), tokens.size()), LLMC_OK);
  return tokens;
}

void expect_fresh(llmc_session* session) {
  EXPECT_EQ(hash_logits(llmc_logits(session)), fresh_logits(tokens_of(session)));
}

void fill(llmc_session* session, std::size_t n) {
  const auto tokens = prompt(n);
  ASSERT_EQ(llmc_prefill(session, tokens.data(), n, nullptr), LLMC_OK);
}

TEST(Recurrent, AnySplitOfAPrompt) {
  const auto tokens = prompt(20);
  for (std::size_t first = 1; first < 20; ++first) {
    const Session session(config(), recurrent_model());
    ASSERT_EQ(llmc_prefill(session, tokens.data(), first, nullptr), LLMC_OK);
    ASSERT_EQ(llmc_prefill(session, tokens.data() + first, 20 - first, nullptr), LLMC_OK);
    EXPECT_EQ(hash_logits(llmc_logits(session)), fresh_logits(tokens)) << first;
    EXPECT_TRUE(session.arena.guard_intact());
  }
}

TEST(Recurrent, StateChangesTheLogits) {
  const Session plain;
  fill(plain, 9);
  EXPECT_NE(hash_logits(llmc_logits(plain)), fresh_logits(prompt(9)));
}

TEST(Recurrent, RewindRunsTheKeptTokensAgain) {
  const Session session(config(), recurrent_model());
  fill(session, 30);
  for (const std::size_t kept : {29u, 17u, 8u, 1u, 0u}) {
    ASSERT_EQ(llmc_rewind(session, kept), LLMC_OK);
    ASSERT_EQ(llmc_append(session, 5), LLMC_OK);
    EXPECT_EQ(llmc_position(session), kept + 1);
    expect_fresh(session);
  }
}

TEST(Recurrent, ResetClearsTheState) {
  const Session session(config(), recurrent_model());
  fill(session, 11);
  ASSERT_EQ(llmc_reset(session), LLMC_OK);
  fill(session, 4);
  expect_fresh(session);
}

TEST(Recurrent, ForksHaveTheirOwnStates) {
  const Session session(config(), recurrent_model(3));
  fill(session, 10);
  std::uint32_t fork = 0, rewound = 0;
  ASSERT_EQ(llmc_fork(session, 0, &fork), LLMC_OK);
  ASSERT_EQ(llmc_rewind(session, 6), LLMC_OK);
  ASSERT_EQ(llmc_fork(session, 0, &rewound), LLMC_OK);
  const std::array<std::uint32_t, 3> all{0, fork, rewound};
  for (std::int32_t step = 0; step < 4; ++step) {
    const std::array<std::int32_t, 3> next{step, step + 7, step + 20};
    ASSERT_EQ(llmc_append_batch(session, all.data(), 3, next.data()), LLMC_OK);
  }
  for (const std::uint32_t sequence : all) {
    ASSERT_EQ(llmc_select(session, sequence), LLMC_OK);
    expect_fresh(session);
  }
  // A number that is used again begins with an empty state.
  ASSERT_EQ(llmc_select(session, 0), LLMC_OK);
  ASSERT_EQ(llmc_release(session, fork), LLMC_OK);
  std::uint32_t again = 0;
  ASSERT_EQ(llmc_new_sequence(session, &again), LLMC_OK);
  ASSERT_EQ(again, fork);
  ASSERT_EQ(llmc_select(session, again), LLMC_OK);
  fill(session, 3);
  expect_fresh(session);
}

TEST(Recurrent, SlideRunsAllKeptTokensAgain) {
  llmc_config c = config();
  c.full_context = LLMC_FULL_SLIDE;
  c.keep_first = 3;
  const Session session(c, recurrent_model());
  fill(session, 25);
  ASSERT_EQ(llmc_slide(session, 10, 4), LLMC_OK);
  EXPECT_EQ(llmc_position(session), 21u);
  expect_fresh(session);
  ASSERT_EQ(llmc_slide(session, 12, 9), LLMC_OK);  // no token follows
  ASSERT_EQ(llmc_append(session, 2), LLMC_OK);
  expect_fresh(session);
  for (std::int32_t i = 0; i < 60; ++i) ASSERT_EQ(llmc_append(session, i % 50), LLMC_OK);
  expect_fresh(session);
}

TEST(Recurrent, SavedStatesContainTheRecurrentOnes) {
  for (const bool rewound : {false, true}) {
    const Session session(config(), recurrent_model());
    fill(session, 19);
    if (rewound) ASSERT_EQ(llmc_rewind(session, 12), LLMC_OK);
    std::vector<unsigned char> saved(llmc_state_bytes(session));
    std::size_t written = 0;
    ASSERT_EQ(llmc_state_save(session, saved.data(), saved.size(), &written), LLMC_OK);
    ASSERT_EQ(written, saved.size());
    const Session other(config(), recurrent_model());
    fill(other, 31);
    ASSERT_EQ(llmc_state_load(other, saved.data(), saved.size()), LLMC_OK);
    if (!rewound) EXPECT_EQ(hash_logits(llmc_logits(other)), hash_logits(llmc_logits(session)));
    ASSERT_EQ(llmc_append(other, 8), LLMC_OK);
    expect_fresh(other);
    // A model without recurrent states refuses them.
    const Session without;
    EXPECT_EQ(llmc_state_load(without, saved.data(), saved.size()),
              rewound ? LLMC_OK : LLMC_ERROR_STATE_MODEL);
  }
}

TEST(Recurrent, CancelledCallsKeepTheTokensBefore) {
  struct Count {
    int left;
  } count{0};
  llmc_config c = config();
  c.cancel_user = &count;
  c.cancel = [](void* user) { return static_cast<Count*>(user)->left-- <= 0 ? 1 : 0; };
  const Session session(c, recurrent_model());
  count.left = 100;
  fill(session, 5);
  const auto tokens = prompt(30);
  for (int after = 0; after < 6; ++after) {
    count.left = after;
    ASSERT_EQ(llmc_prefill(session, tokens.data(), 30, nullptr), LLMC_ERROR_CANCELLED) << after;
    EXPECT_EQ(llmc_position(session), 5u);
  }
  count.left = 100;
  ASSERT_EQ(llmc_append(session, 1), LLMC_OK);
  expect_fresh(session);
}

}  // namespace
}  // namespace llmc::fake
