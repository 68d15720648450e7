// Greedy choices of a model that can leave out most logits: the same tokens, and when it is asked.
#include <gtest/gtest.h>

#include <cmath>

#include "llmc/speculation.h"
#include "runtime/core/session.h"
#include "tests/runtime/core/fake_model.h"
#include "tests/runtime/core/free_grammar.h"

namespace llmc::fake {
namespace {

/// How often head and choose ran, and how many logits the next choice computes.
struct Calls {
  int heads = 0, choices = 0;
  std::uint32_t computed = 1;
};
Calls calls;

std::uint32_t choose_row(const llmc_run* run, const float* row, float* room, float* logit,
                         std::uint32_t* computed) {
  const std::uint32_t best = choose(run, row, room, logit, computed);
  *computed = calls.computed;
  ++calls.choices;
  return best;
}
void counted_head(const llmc_run* run, const float* rows, std::uint32_t count, float* logits,
                  std::uint32_t* best) {
  ++calls.heads;
  head(run, rows, count, logits, best);
}

llmc_model choosing(const Sizes& sizes = {}) {
  calls = {};
  llmc_model m = model(sizes);
  m.head = counted_head;
  m.choose = choose_row;
  return m;
}

void prefill_prompt(llmc_session* s, std::size_t n) {
  const auto tokens = prompt(n);
  ASSERT_EQ(llmc_prefill(s, tokens.data(), n, nullptr), LLMC_OK);
}
std::int32_t chosen(llmc_session* s) {
  std::int32_t token = -1;
  EXPECT_EQ(llmc_step(s, &token), LLMC_OK);
  return token;
}

TEST(Choice, IsThatOfAllLogits) {
  const Session plain, s(config(), choosing());
  EXPECT_EQ(llmc_logits_computed(s), 0u);
  prefill_prompt(plain, 9);
  prefill_prompt(s, 9);
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(chosen(s), chosen(plain)) << i;
    EXPECT_EQ(llmc_logits_computed(s), 1u);
    EXPECT_EQ(llmc_logits_computed(plain), kVocab);
  }
  EXPECT_EQ(calls.choices, 12);
  EXPECT_EQ(calls.heads, 0);
  EXPECT_EQ(hash_logits(llmc_logits(s)), hash_logits(llmc_logits(plain)));
  EXPECT_EQ(calls.heads, 1);
}

TEST(Choice, NeedsAllLogitsForAnythingElse) {
  const Session s(config(), choosing({.sequences = 2, .batch = 2}));
  prefill_prompt(s, 5);
  std::int32_t token = -1;
  const auto whole = [&] {
    const int before = calls.choices;
    EXPECT_EQ(llmc_sample(s, &token), LLMC_OK);
    EXPECT_EQ(llmc_logits_computed(s), kVocab);
    return calls.choices == before;
  };
  llmc_sampling sampling{};
  sampling.temperature = 0.8f;
  ASSERT_EQ(llmc_set_sampling(s, &sampling), LLMC_OK);
  EXPECT_TRUE(whole());
  EXPECT_EQ(calls.heads, 1) << "once, and kept";
  prefill_prompt(s, 1);
  sampling = {};
  sampling.repeat_penalty = 1.5f;
  sampling.repeat_last_n = -1;
  ASSERT_EQ(llmc_set_sampling(s, &sampling), LLMC_OK);
  EXPECT_TRUE(whole());
  ASSERT_EQ(llmc_set_sampling(s, nullptr), LLMC_OK);
  const llmc_logit_bias bias{3, 1.0f};
  ASSERT_EQ(llmc_set_logit_bias(s, &bias, 1), LLMC_OK);
  prefill_prompt(s, 1);
  EXPECT_TRUE(whole());
  ASSERT_EQ(llmc_set_logit_bias(s, nullptr, 0), LLMC_OK);
  const FreeGrammar tables;
  alignas(64) unsigned char memory[LLMC_GRAMMAR_BYTES];
  llmc_grammar* grammar = nullptr;
  ASSERT_EQ(llmc_grammar_init(memory, sizeof memory, &tables, tables.bytes(), &grammar), LLMC_OK);
  ASSERT_EQ(llmc_set_grammar(s, grammar), LLMC_OK);
  prefill_prompt(s, 1);
  EXPECT_TRUE(whole());
  ASSERT_EQ(llmc_set_grammar(s, nullptr), LLMC_OK);
  std::uint32_t guide = 0;
  ASSERT_EQ(llmc_new_sequence(s, &guide), LLMC_OK);
  ASSERT_EQ(llmc_select(s, guide), LLMC_OK);
  prefill_prompt(s, 2);
  ASSERT_EQ(llmc_select(s, 0), LLMC_OK);
  ASSERT_EQ(llmc_set_guidance(s, guide, 1.5f), LLMC_OK);
  prefill_prompt(s, 1);
  EXPECT_TRUE(whole());
  ASSERT_EQ(llmc_set_guidance(s, guide, 1.0f), LLMC_OK);
  prefill_prompt(s, 1);
  ASSERT_EQ(llmc_sample(s, &token), LLMC_OK);
  EXPECT_EQ(calls.choices, 1) << "greedy again";
  // Where there are logits, they are used.
  prefill_prompt(s, 1);
  ASSERT_NE(llmc_logits(s), nullptr);
  EXPECT_TRUE(whole());
}

TEST(Choice, PausesWhereItDoesNotPay) {
  const Session s(config(), choosing()), plain;
  prefill_prompt(s, 3);
  prefill_prompt(plain, 3);
  calls.computed = kVocab / 32 + 1;
  std::vector<int> whole;  // choices from all logits between those that leave some out
  for (int last = 0, step = 0; step < 500; ++step) {
    for (llmc_session* const each : {s.session, plain.session}) {
      if (llmc_position(each) + 1 < kContext) continue;
      ASSERT_EQ(llmc_rewind(each, 2), LLMC_OK);
      prefill_prompt(each, 1);
    }
    const int before = calls.choices;
    EXPECT_EQ(chosen(s), chosen(plain)) << step;
    if (calls.choices == before) continue;
    whole.push_back(step - last);
    last = step + 1;
    if (whole.size() == 4) calls.computed = kVocab / 32;  // pays
  }
  ASSERT_GE(whole.size(), 6u);
  whole.resize(6);
  EXPECT_EQ(whole, (std::vector<int>{0, 7, 35, 147, 255, 0}));
}

TEST(Choice, PausesWhileTheLogitsAreRead) {
  const Session s(config(), choosing()), plain;
  prefill_prompt(s, 3);
  prefill_prompt(plain, 3);
  std::int32_t token = -1;
  ASSERT_EQ(llmc_sample(s, &token), LLMC_OK);
  float logprob = 0;
  ASSERT_EQ(llmc_logprob(s, token, &logprob), LLMC_OK);
  EXPECT_EQ(calls.choices, 1);
  EXPECT_EQ(calls.heads, 1);
  for (int i = 0; i < 25; ++i) {
    ASSERT_EQ(llmc_append(s, token), LLMC_OK);
    ASSERT_EQ(llmc_sample(s, &token), LLMC_OK);
    ASSERT_EQ(llmc_logprob(s, token, &logprob), LLMC_OK);
    EXPECT_EQ(calls.heads, 2 + i) << "one for each token";
  }
  EXPECT_EQ(calls.choices, 2) << "after 7 tokens";
}

TEST(Choice, PausesWhileTheLogitsOfRowsAreRead) {
  const Session s(config(), choosing());
  prefill_prompt(s, 3);
  for (int i = 0; i < 25; ++i) {
    chosen(s);
    std::int32_t token = -1;
    ASSERT_EQ(llmc_sample(s, &token), LLMC_OK);
    ASSERT_NE(llmc_logits_rows(s, 0, 1), nullptr);
  }
  EXPECT_EQ(calls.choices, 4) << "two, then one after 7 and one after 35 choices";
}

TEST(Choice, IsMadeOnceForEachToken) {
  const Session s(config(), choosing({.sequences = 1, .batch = 4}));
  prefill_prompt(s, 5);
  std::int32_t first = -1, second = -1;
  ASSERT_EQ(llmc_sample(s, &first), LLMC_OK);
  ASSERT_EQ(llmc_sample(s, &second), LLMC_OK);
  EXPECT_EQ(first, second);
  EXPECT_EQ(chosen(s), first);
  EXPECT_EQ(calls.choices, 1);
  // A pass without a draft is a step.
  std::int32_t tokens[4] = {};
  std::size_t n = 0;
  ASSERT_EQ(llmc_step_lookup(s, 1, nullptr, 0, tokens, &n), LLMC_OK);
  EXPECT_EQ(calls.choices, 2);
  EXPECT_EQ(calls.heads, 0);
}

/// A token that was drawn before, with other parameters, is not the choice.
TEST(Choice, IsNotWhatWasDrawnBefore) {
  bool cancelled = false;
  llmc_config with_cancel = config();
  with_cancel.cancel = [](void* said) { return static_cast<int>(*static_cast<bool*>(said)); };
  with_cancel.cancel_user = &cancelled;
  const Session s(with_cancel, choosing()), plain;
  prefill_prompt(s, 5);
  prefill_prompt(plain, 5);
  std::int32_t expected = -1, token = -1;
  ASSERT_EQ(llmc_sample(plain, &expected), LLMC_OK);
  llmc_sampling sampling{};
  sampling.temperature = 50.0f;
  do {
    ++sampling.seed;
    ASSERT_EQ(llmc_set_sampling(s, &sampling), LLMC_OK);
    ASSERT_EQ(llmc_sample(s, &token), LLMC_OK);
  } while (token == expected);
  ASSERT_NE(llmc_logits_at(s, 0), nullptr);  // where those of the last token were
  ASSERT_EQ(llmc_set_sampling(s, nullptr), LLMC_OK);
  const int before = calls.choices;
  cancelled = true;
  ASSERT_EQ(llmc_step(s, &token), LLMC_ERROR_CANCELLED);
  ASSERT_EQ(calls.choices, before + 1);
  cancelled = false;
  ASSERT_EQ(llmc_sample(s, &token), LLMC_OK);
  EXPECT_EQ(token, expected);
  EXPECT_EQ(chosen(s), expected);
  EXPECT_EQ(calls.choices, before + 1) << "once";
}

TEST(Choice, AForkHasItAlready) {
  const Session s(config(), choosing({.sequences = 2}));
  prefill_prompt(s, 5);
  std::int32_t token = -1;
  ASSERT_EQ(llmc_sample(s, &token), LLMC_OK);
  std::uint32_t fork = 0;
  ASSERT_EQ(llmc_fork(s, 0, &fork), LLMC_OK);
  ASSERT_EQ(llmc_select(s, fork), LLMC_OK);
  EXPECT_EQ(chosen(s), token);
  EXPECT_EQ(calls.choices, 1);
}

TEST(Choice, DraftsForksAndStatesGiveTheSameTokens) {
  const Sizes sizes{.sequences = 2, .batch = 4};
  const Session s(config(), choosing(sizes)), plain(config(), model(sizes));
  for (llmc_session* const each : {s.session, plain.session}) prefill_prompt(each, 6);
  for (int i = 0; i < 4; ++i) {
    std::int32_t ours[4] = {}, theirs[4] = {};
    std::size_t n = 0, m = 0;
    ASSERT_EQ(llmc_step_lookup(s, 4, nullptr, 0, ours, &n), LLMC_OK);
    ASSERT_EQ(llmc_step_lookup(plain, 4, nullptr, 0, theirs, &m), LLMC_OK);
    ASSERT_EQ(n, m);
    for (std::size_t t = 0; t < n; ++t) EXPECT_EQ(ours[t], theirs[t]);
  }
  for (llmc_session* const each : {s.session, plain.session}) {
    std::uint32_t fork = 0;
    ASSERT_EQ(llmc_fork(each, 0, &fork), LLMC_OK);
    ASSERT_EQ(llmc_select(each, fork), LLMC_OK);
  }
  EXPECT_EQ(chosen(s), chosen(plain));
  std::vector<unsigned char> state(llmc_state_bytes(s));
  ASSERT_EQ(llmc_state_save(s, state.data(), state.size(), nullptr), LLMC_OK);
  ASSERT_EQ(llmc_select(s, 0), LLMC_OK);
  ASSERT_EQ(llmc_state_load(s, state.data(), state.size()), LLMC_OK);
  EXPECT_EQ(chosen(s), chosen(plain));
}

TEST(Choice, NotFiniteLogitsAreAnError) {
  llmc_model m = choosing();
  m.choose = [](const llmc_run*, const float*, float*, float* logit, std::uint32_t* computed) {
    *logit = -INFINITY;
    *computed = kVocab;
    return 0u;
  };
  const Session s(config(), m);
  prefill_prompt(s, 2);
  std::int32_t token = -1;
  EXPECT_EQ(llmc_step(s, &token), LLMC_ERROR_NOT_FINITE);
  EXPECT_EQ(llmc_position(s), 2u);
}

}  // namespace
}  // namespace llmc::fake
