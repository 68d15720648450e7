// Sampling as a session does it: history, state, lists and probabilities of its
// sequences.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "runtime/core/session.h"
#include "tests/runtime/core/fake_model.h"

namespace llmc::fake {
namespace {

using Ids = std::vector<std::int32_t>;

constexpr float kInf = std::numeric_limits<float>::infinity();

void prefill(llmc_session* s, const Ids& tokens) {
  ASSERT_EQ(llmc_prefill(s, tokens.data(), tokens.size(), nullptr), LLMC_OK);
}
std::int32_t sampled(llmc_session* s) {
  std::int32_t token = -1;
  EXPECT_EQ(llmc_sample(s, &token), LLMC_OK);
  return token;
}
Ids steps(llmc_session* s, int n) {
  Ids tokens;
  for (int i = 0; i < n; ++i) {
    std::int32_t token = -1;
    EXPECT_EQ(llmc_step(s, &token), LLMC_OK);
    tokens.push_back(token);
  }
  return tokens;
}

template <class Set>
void set(llmc_session* s, Set change) {
  llmc_sampling sampling{};
  change(sampling);
  ASSERT_EQ(llmc_set_sampling(s, &sampling), LLMC_OK);
}

TEST(SessionSampling, PenaltiesLookAtThePromptAndAtWhatWasSaid) {
  const Session s;
  const Ids tokens = prompt(20);
  prefill(s, tokens);
  const auto penalise = [&](std::int32_t last_n) {
    set(s, [&](auto& p) { p.repeat_last_n = last_n, p.presence_penalty = 100.0f; });
  };
  penalise(-1);
  const std::int32_t unsaid = sampled(s);
  for (const std::int32_t token : tokens) EXPECT_NE(token, unsaid);
  penalise(3);
  const std::int32_t allowed = sampled(s);
  for (std::size_t i = 17; i < 20; ++i) EXPECT_NE(tokens[i], allowed);
  // For any text, 12 consecutive tokens of 50 differ.
  penalise(12);
  Ids said = steps(s, 20);
  for (std::size_t i = 12; i < said.size(); ++i)
    EXPECT_EQ(std::count(said.begin() + std::ptrdiff_t(i) - 12, said.begin() + std::ptrdiff_t(i),
                         said[i]),
              0);
}

TEST(SessionSampling, BiasesBelongToTheSequenceAndStayOnErrors) {
  const Session s;
  prefill(s, prompt(5));
  const std::int32_t best = sampled(s);
  const llmc_logit_bias ban[] = {{best, -kInf}};
  ASSERT_EQ(llmc_set_logit_bias(s, ban, 1), LLMC_OK);
  const std::int32_t second = sampled(s);
  EXPECT_NE(second, best);
  const llmc_logit_bias bad[][1] = {{{-1, 0.0f}}, {{kVocab, 0.0f}}, {{0, kInf}}, {{0, NAN}}};
  EXPECT_EQ(llmc_set_logit_bias(s, bad[0], 1), LLMC_ERROR_TOKEN);
  EXPECT_EQ(llmc_set_logit_bias(s, bad[1], 1), LLMC_ERROR_TOKEN);
  EXPECT_EQ(llmc_set_logit_bias(s, bad[2], 1), LLMC_ERROR_SAMPLING);
  EXPECT_EQ(llmc_set_logit_bias(s, bad[3], 1), LLMC_ERROR_SAMPLING);
  EXPECT_EQ(llmc_set_logit_bias(s, nullptr, 1), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_set_logit_bias(nullptr, ban, 1), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(sampled(s), second);
  std::vector<llmc_logit_bias> all;
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(kVocab); ++id)
    all.push_back({id, -kInf});
  ASSERT_EQ(llmc_set_logit_bias(s, all.data(), all.size()), LLMC_OK);
  std::int32_t token = -7;
  EXPECT_EQ(llmc_sample(s, &token), LLMC_ERROR_NO_CANDIDATE);
  EXPECT_EQ(llmc_step(s, &token), LLMC_ERROR_NO_CANDIDATE);
  EXPECT_EQ(token, -7);
  EXPECT_EQ(llmc_position(s), 5u);
  ASSERT_EQ(llmc_set_logit_bias(s, nullptr, 0), LLMC_OK);
  EXPECT_EQ(sampled(s), best);
}

TEST(SessionSampling, BreakersAreChecked) {
  const Session s;
  const Ids heads = {3, 3, 8}, tails = {1, 2}, wrong = {3, 2, 8}, outside = {3, 4, kVocab};
  const std::vector<std::uint32_t> begins = {0, 1, 1, 2}, backwards = {0, 2, 1, 2};
  const auto status = [&](llmc_dry_breakers breakers) {
    return llmc_set_dry_breakers(s, &breakers);
  };
  EXPECT_EQ(status({heads.data(), begins.data(), tails.data(), 3}), LLMC_OK);
  EXPECT_EQ(status({wrong.data(), begins.data(), tails.data(), 3}), LLMC_ERROR_SAMPLING);
  EXPECT_EQ(status({heads.data(), backwards.data(), tails.data(), 3}), LLMC_ERROR_SAMPLING);
  EXPECT_EQ(status({outside.data(), begins.data(), tails.data(), 3}), LLMC_ERROR_TOKEN);
  EXPECT_EQ(status({heads.data(), begins.data(), outside.data() + 1, 3}), LLMC_ERROR_TOKEN);
  EXPECT_EQ(status({nullptr, begins.data(), tails.data(), 3}), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(status({heads.data(), nullptr, tails.data(), 3}), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(status({heads.data(), begins.data(), nullptr, 3}), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_set_dry_breakers(s, nullptr), LLMC_OK);
  EXPECT_EQ(llmc_set_dry_breakers(nullptr, nullptr), LLMC_ERROR_ARGUMENT);
}

TEST(SessionSampling, CandidatesAndLogprobs) {
  const Session s;
  std::vector<llmc_candidate> found(60);
  std::size_t count = 0;
  const auto ask = [&](int which, std::size_t n) {
    return llmc_candidates(s, which, found.data(), n, &count);
  };
  float logprob = 0.0f;
  EXPECT_EQ(ask(LLMC_CANDIDATES_MODEL, 3), LLMC_ERROR_NO_LOGITS);
  EXPECT_EQ(llmc_logprob(s, 0, &logprob), LLMC_ERROR_NO_LOGITS);
  prefill(s, prompt(9));
  const std::uint64_t before = hash_logits(llmc_logits(s));
  ASSERT_EQ(ask(LLMC_CANDIDATES_MODEL, found.size()), LLMC_OK);
  ASSERT_EQ(count, kVocab);
  double total = 0.0;
  for (std::size_t i = 0; i < count; ++i) {
    total += std::exp(double{found[i].logprob});
    ASSERT_EQ(llmc_logprob(s, found[i].token, &logprob), LLMC_OK);
    EXPECT_FLOAT_EQ(logprob, found[i].logprob);
    if (i > 0) EXPECT_LE(found[i].logprob, found[i - 1].logprob);
  }
  EXPECT_NEAR(total, 1.0, 1e-5);
  EXPECT_EQ(found[0].token, sampled(s));
  set(s, [](auto& p) { p.temperature = 1.0f, p.top_k = 4; });
  ASSERT_EQ(ask(LLMC_CANDIDATES_SAMPLER, found.size()), LLMC_OK);
  EXPECT_EQ(count, 4u);
  EXPECT_EQ(ask(2, 3), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_candidates(s, 0, nullptr, 1, &count), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_candidates(s, 0, found.data(), 1, nullptr), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_logprob(s, -1, &logprob), LLMC_ERROR_TOKEN);
  EXPECT_EQ(llmc_logprob(s, kVocab, &logprob), LLMC_ERROR_TOKEN);
  EXPECT_EQ(hash_logits(llmc_logits(s)), before);
  EXPECT_EQ(llmc_position(s), 9u);
}

/// Mirostat's state.
float mu(llmc_session* s) {
  return s->cache.mu(s->selected().cached);
}

void use_mirostat(llmc_session* s) {
  set(s, [](auto& p) {
    p.temperature = 1.0f, p.mirostat = 2, p.mirostat_ent = 2.0f, p.mirostat_lr = 0.9f, p.seed = 5;
  });
}

TEST(SessionSampling, MirostatsStateGoesBackWithARewind) {
  const Session s;
  use_mirostat(s);
  Ids tokens = prompt(6);
  prefill(s, tokens);
  std::vector<float> states(7, 0.0f);  // after as many tokens
  EXPECT_EQ(mu(s), 0.0f) << "that of a start";
  for (int i = 0; i < 21; ++i) {
    tokens.push_back(steps(s, 1)[0]);
    states.push_back(mu(s));
  }
  for (const std::size_t kept : {25u, 6u, 7u, 8u, 13u, 16u, 17u, 24u}) {
    // There are no logits below the end: the last token that stays is given again.
    ASSERT_EQ(llmc_rewind(s, kept - 1), LLMC_OK);
    EXPECT_EQ(mu(s), states[kept - 1]);
    prefill(s, {tokens[kept - 1]});
    EXPECT_EQ(mu(s), states[kept]);
    EXPECT_EQ(steps(s, static_cast<int>(27 - kept)),
              Ids(tokens.begin() + std::ptrdiff_t(kept), tokens.end()))
        << kept;
    EXPECT_EQ(mu(s), states.back());
  }
  ASSERT_EQ(llmc_reset(s), LLMC_OK);
  EXPECT_EQ(mu(s), 0.0f);
}

TEST(SessionSampling, MirostatsStateMovesWithSampledTokensOnly) {
  const auto after = [](auto act) {
    const Session s;
    use_mirostat(s);
    prefill(s, prompt(6));
    act(s);
    return mu(s);
  };
  Ids tokens;
  const float stepped = after([&](llmc_session* s) { tokens = steps(s, 3); });
  EXPECT_NE(stepped, 0.0f);
  EXPECT_EQ(after([](llmc_session* s) {
              for (int i = 0; i < 3; ++i) {
                sampled(s);
                prefill(s, {sampled(s)});
              }
            }),
            stepped)
      << "llmc_sample and llmc_append are the halves of llmc_step";
  EXPECT_EQ(after([&](llmc_session* s) { prefill(s, tokens); }), 0.0f) << "a prompt";
  EXPECT_EQ(after([&](llmc_session* s) {
              for (const std::int32_t token : tokens) prefill(s, {token});
            }),
            0.0f)
      << "however it is split";
  EXPECT_EQ(after([&](llmc_session* s) {
              steps(s, 3);
              prefill(s, prompt(11));
            }),
            stepped)
      << "a prompt leaves it";
  EXPECT_EQ(after([&](llmc_session* s) {
              const std::int32_t other = (sampled(s) + 1) % static_cast<std::int32_t>(kVocab);
              prefill(s, {other});
            }),
            0.0f)
      << "another token than the sampled one";
}

TEST(SessionSampling, MirostatsStateIsUntouchedByWhatFails) {
  bool cancel = false;
  llmc_config c = config();
  c.cancel = [](void* user) { return static_cast<int>(*static_cast<bool*>(user)); };
  c.cancel_user = &cancel;
  const Session plain, s(c);
  for (llmc_session* session : {plain.session, s.session}) {
    use_mirostat(session);
    prefill(session, prompt(6));
  }
  for (int i = 0; i < 10; ++i) {
    std::int32_t token = -1;
    cancel = true;
    EXPECT_EQ(llmc_step(s, &token), LLMC_ERROR_CANCELLED);
    cancel = false;
    const std::int32_t bad = -1;
    EXPECT_EQ(llmc_prefill(s, &bad, 1, nullptr), LLMC_ERROR_TOKEN);
    EXPECT_EQ(steps(s, 1), steps(plain, 1)) << i;
    EXPECT_EQ(mu(s), mu(plain)) << i;
  }
}

TEST(SessionSampling, MirostatsStateIsSharedByForksSavedAndKeptBySliding) {
  const Session s(config(), model({.sequences = 3, .batch = 2}));
  use_mirostat(s);
  prefill(s, prompt(6));
  steps(s, 9);
  const float before = mu(s);
  ASSERT_NE(before, 0.0f);
  std::uint32_t fork = 0, fresh = 0;
  ASSERT_EQ(llmc_fork(s, 0, &fork), LLMC_OK);
  ASSERT_EQ(llmc_new_sequence(s, &fresh), LLMC_OK);
  // Stepped together, as alone.
  const std::uint32_t both[] = {0, fork};
  std::int32_t tokens[2] = {-1, -1};
  ASSERT_EQ(llmc_step_batch(s, both, 2, tokens), LLMC_OK);
  EXPECT_EQ(tokens[0], tokens[1]);
  const float after = mu(s);
  EXPECT_NE(after, before);
  ASSERT_EQ(llmc_select(s, fork), LLMC_OK);
  EXPECT_EQ(mu(s), after);
  std::vector<unsigned char> state(llmc_state_bytes(s));
  ASSERT_EQ(llmc_state_save(s, state.data(), state.size(), nullptr), LLMC_OK);
  ASSERT_EQ(llmc_select(s, fresh), LLMC_OK);
  EXPECT_EQ(mu(s), 0.0f);
  ASSERT_EQ(llmc_state_load(s, state.data(), state.size()), LLMC_OK);
  EXPECT_EQ(mu(s), after);
  ASSERT_EQ(llmc_slide(s, 2, 5), LLMC_OK);
  EXPECT_EQ(mu(s), after);
  ASSERT_EQ(llmc_rewind(s, 2), LLMC_OK);
  EXPECT_EQ(mu(s), 0.0f);
}

TEST(SessionSampling, MirostatsStateDoesNotDependOnHowTokensAreSplit) {
  const auto after = [](auto append) {
    const Session s;
    use_mirostat(s);
    prefill(s, prompt(6));
    const Ids tokens = steps(s, 10);
    EXPECT_EQ(llmc_rewind(s, 12), LLMC_OK);
    append(s, Ids(tokens.begin() + 6, tokens.end()));
    return std::pair(mu(s), sampled(s));
  };
  const auto one_by_one = after([](llmc_session* s, const Ids& tokens) {
    for (const std::int32_t token : tokens) prefill(s, {token});
  });
  EXPECT_EQ(after([](llmc_session* s, const Ids& tokens) { prefill(s, tokens); }), one_by_one);
  EXPECT_EQ(after([](llmc_session* s, const Ids& tokens) {
              prefill(s, {tokens[0], tokens[1]});
              prefill(s, {tokens[2], tokens[3]});
            }),
            one_by_one);
}

TEST(SessionSampling, AStepThatFailsHasDrawnNothing) {
  bool cancel = false;
  llmc_config c = config();
  c.cancel = [](void* user) { return static_cast<int>(*static_cast<bool*>(user)); };
  c.cancel_user = &cancel;
  const auto after = [&](auto fail) {
    const Session s(c, model({.sequences = 2, .batch = 2}));
    use_mirostat(s);
    prefill(s, prompt(6));
    const std::int32_t token = sampled(s);
    set(s, [](auto& p) { p.temperature = 1.0f, p.seed = 9; });
    cancel = true;
    fail(s);
    cancel = false;
    prefill(s, {token});
    return mu(s);
  };
  const float expected = after([](llmc_session*) {});
  ASSERT_NE(expected, 0.0f);
  std::int32_t tokens[2];
  EXPECT_EQ(after([&](llmc_session* s) { EXPECT_EQ(llmc_step(s, tokens), LLMC_ERROR_CANCELLED); }),
            expected);
  EXPECT_EQ(after([&](llmc_session* s) {
              const std::uint32_t none[] = {0, 1}, twice[] = {0, 0};
              EXPECT_EQ(llmc_step_batch(s, none, 1, tokens), LLMC_ERROR_CANCELLED);
              EXPECT_EQ(llmc_step_batch(s, none, 2, tokens), LLMC_ERROR_SEQUENCE);
              EXPECT_EQ(llmc_step_batch(s, twice, 2, tokens), LLMC_ERROR_ARGUMENT);
            }),
            expected);
}

TEST(SessionSampling, AResetForgetsWhatWasDrawn) {
  const Session s;
  use_mirostat(s);
  prefill(s, prompt(6));
  steps(s, 5);
  ASSERT_EQ(llmc_slide(s, 0, 6), LLMC_OK);  // the first token has a state now
  std::int32_t first = -1;
  ASSERT_EQ(llmc_tokens(s, 0, &first, 1), LLMC_OK);
  ASSERT_EQ(llmc_reset(s), LLMC_OK);
  prefill(s, {first});
  EXPECT_EQ(mu(s), 0.0f);
}

TEST(SessionSampling, GreedyInAnOrderWithoutTemperature) {
  const Session s;
  prefill(s, prompt(9));
  const std::int32_t best = sampled(s);
  for (const std::uint8_t stage : {LLMC_SAMPLER_TOP_K, LLMC_SAMPLER_TYPICAL_P}) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      set(s, [&](auto& p) {
        p.samplers[0] = stage, p.top_k = 40, p.typical_p = 0.99f, p.seed = seed;
      });
      EXPECT_EQ(sampled(s), best) << int{stage};
    }
    llmc_candidate candidates[2];
    std::size_t count = 0;
    ASSERT_EQ(llmc_candidates(s, LLMC_CANDIDATES_SAMPLER, candidates, 2, &count), LLMC_OK);
    EXPECT_EQ(count, 1u);
  }
}

}  // namespace
}  // namespace llmc::fake
