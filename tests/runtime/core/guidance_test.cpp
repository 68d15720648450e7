// Classifier-free guidance: what it makes of logits, and how a session leads two sequences at once.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/runtime/core/fake_model.h"
#include "tests/runtime/core/sampling.h"

namespace llmc::core {
namespace {

/// ln softmax(q + scale · (p - q)) with the softmaxes' logarithms p and q, by the letter.
std::vector<double> guided(const std::vector<float>& own, const std::vector<float>& guide,
                           double scale) {
  const auto log_softmax = [](const std::vector<double>& logits) {
    double total = 0.0;
    for (const double logit : logits) total += std::exp(logit);
    std::vector<double> logs;
    for (const double logit : logits) logs.push_back(logit - std::log(total));
    return logs;
  };
  const auto p = log_softmax({own.begin(), own.end()});
  const auto q = log_softmax({guide.begin(), guide.end()});
  std::vector<double> mixed;
  for (std::size_t i = 0; i < p.size(); ++i) mixed.push_back(q[i] + scale * (p[i] - q[i]));
  return log_softmax(mixed);
}

struct Found {
  llmc_status status;
  std::vector<double> logprobs;  // by token; -infinity where there is none
};

Found probabilities(const std::vector<float>& own, const std::vector<float>& guide, float scale,
                    TokenFilter filter = {}) {
  const llmc_sampling neutral = sampling([](auto& s) { s.temperature = 1.0f; });
  const TokenHistory history(nullptr, 1, 0);
  std::vector<Candidate> room(own.size());
  std::vector<llmc_candidate> likeliest(own.size());
  std::size_t count = 0;
  Found found{LLMC_OK, std::vector<double>(own.size(), -kInf)};
  found.status = likeliest_tokens({.logits = own.data(),
                                   .vocab = static_cast<std::uint32_t>(own.size()),
                                   .best = first_of_largest(own),
                                   .history = history,
                                   .sampling = neutral,
                                   .filter = filter,
                                   .guide = guide.data(),
                                   .guide_best = first_of_largest(guide),
                                   .guidance = scale},
                                  LLMC_CANDIDATES_SAMPLER, room.data(), likeliest.data(),
                                  likeliest.size(), &count);
  for (std::size_t i = 0; i < count; ++i)
    found.logprobs[static_cast<std::size_t>(likeliest[i].token)] = double{likeliest[i].logprob};
  return found;
}

TEST(Guidance, MovesAwayFromTheGuide) {
  const std::vector<float> own = {2.0f, 1.5f, -0.25f, 0.0f}, guide = {3.0f, -1.0f, 0.5f, 0.25f};
  for (const float scale : {0.0f, 0.5f, 1.5f, 3.0f, -1.0f}) {
    const Found found = probabilities(own, guide, scale);
    ASSERT_EQ(found.status, LLMC_OK);
    const auto expected = guided(own, guide, double{scale});
    for (std::size_t i = 0; i < own.size(); ++i)
      EXPECT_NEAR(found.logprobs[i], expected[i], 1e-5) << scale << " " << i;
  }
  // Token 0 is the model's choice with and without the negative prompt; 1 is what makes the
  // difference.
  EXPECT_GT(probabilities(own, guide, 1.0f).logprobs[0],
            probabilities(own, guide, 1.0f).logprobs[1]);
  EXPECT_LT(probabilities(own, guide, 2.0f).logprobs[0],
            probabilities(own, guide, 2.0f).logprobs[1]);
}

TEST(Guidance, LeavesWhatIsImpossible) {
  const std::vector<float> own = {1.0f, -kInf, kNan, 0.0f, 0.5f};
  const std::vector<float> guide = {1.0f, 2.0f, 2.0f, -kInf, kNan};
  const Found found = probabilities(own, guide, 2.0f);
  ASSERT_EQ(found.status, LLMC_OK);
  EXPECT_EQ(found.logprobs[1], -kInf);
  EXPECT_EQ(found.logprobs[2], -kInf);
  // What only the guide cannot say keeps its own logarithm, one apart from token 4's here by half.
  EXPECT_NEAR(found.logprobs[4] - found.logprobs[3], 0.5, 1e-6);
  EXPECT_EQ(probabilities(own, {kInf, 0.0f, 0.0f, 0.0f, 0.0f}, 2.0f).status, LLMC_ERROR_NOT_FINITE);
  EXPECT_EQ(probabilities(own, {kNan, kNan, kNan, kNan, kNan}, 2.0f).status, LLMC_ERROR_NOT_FINITE);
  EXPECT_EQ(probabilities(own, {0.0f, 0.0f, 0.0f, 0.0f, 0.0f}, 3e38f).status, LLMC_OK);
  // Sums beyond the range of a float keep their order, whichever part of them is beyond it.
  const Found far = probabilities({3e38f, -3e38f}, {-3e38f, 3e38f}, 2.0f);
  ASSERT_EQ(far.status, LLMC_OK);
  EXPECT_EQ(far.logprobs[0], 0.0);
  const Found alone = probabilities({3e38f, -3e38f, 0.0f}, {0.0f, -kInf, 0.0f}, 2.0f);
  ASSERT_EQ(alone.status, LLMC_OK);
  EXPECT_EQ(alone.logprobs[0], 0.0);
  float logprob = 1.0f;
  const float apart[] = {3e38f, -3e38f};
  ASSERT_EQ(log_probability(apart, 2, 0, 1, &logprob), LLMC_OK);
  EXPECT_EQ(logprob, -std::numeric_limits<float>::max());
  TokenFilter no_first{[](void*, std::uint32_t* mask) { mask[0] = ~1u; }, nullptr};
  EXPECT_EQ(probabilities(own, guide, 2.0f, no_first).logprobs[0], -kInf);
}

}  // namespace
}  // namespace llmc::core

namespace llmc::fake {
namespace {

using Ids = std::vector<std::int32_t>;

Session guided_session(const Sizes& sizes = {.sequences = 4, .batch = 4}) {
  return Session(config(), model(sizes));
}

void prefill(llmc_session* s, std::uint32_t sequence, const Ids& tokens) {
  ASSERT_EQ(llmc_select(s, sequence), LLMC_OK);
  ASSERT_EQ(llmc_prefill(s, tokens.data(), tokens.size(), nullptr), LLMC_OK);
}

std::vector<float> logits_after(const Ids& tokens) {
  const Session s;
  EXPECT_EQ(llmc_prefill(s, tokens.data(), tokens.size(), nullptr), LLMC_OK);
  const float* logits = llmc_logits(s);
  return {logits, logits + kVocab};
}

TEST(SessionGuidance, StepsBothSequencesByTheGuidedChoice) {
  for (const std::uint32_t batch : {2u, 4u}) {
    const Session s = guided_session({.sequences = 4, .batch = batch});
    std::uint32_t others[2] = {};
    // With a batch of 2, sequences 0 and 2 have one row of logits between them.
    for (std::uint32_t& other : others) ASSERT_EQ(llmc_new_sequence(s, &other), LLMC_OK);
    const std::uint32_t guide = others[1];
    Ids own = prompt(9), negative = {3, 1, 4};
    prefill(s, guide, negative);
    prefill(s, 0, own);
    ASSERT_EQ(llmc_set_guidance(s, guide, 2.5f), LLMC_OK);
    for (int i = 0; i < 12; ++i) {
      const auto p = logits_after(own), q = logits_after(negative);
      std::size_t expected = 0;
      double largest = -INFINITY;  // constants of the softmaxes change nothing
      for (std::size_t id = 0; id < kVocab; ++id) {
        const double logit = double{q[id]} + 2.5 * (double{p[id]} - double{q[id]});
        if (logit > largest) largest = logit, expected = id;
      }
      std::int32_t token = -1;
      ASSERT_EQ(llmc_step(s, &token), LLMC_OK);
      ASSERT_EQ(token, static_cast<std::int32_t>(expected)) << i;
      own.push_back(token);
      negative.push_back(token);
    }
    EXPECT_EQ(llmc_position(s), own.size());
    EXPECT_EQ(hash_logits(llmc_logits(s)), hash_logits(logits_after(own).data()));
    ASSERT_EQ(llmc_select(s, guide), LLMC_OK);
    EXPECT_EQ(hash_logits(llmc_logits(s)), hash_logits(logits_after(negative).data()));
  }
}

TEST(SessionGuidance, ModelsProbabilitiesAreThoseWithout) {
  const Session s = guided_session();
  std::uint32_t guide = 0;
  ASSERT_EQ(llmc_new_sequence(s, &guide), LLMC_OK);
  prefill(s, guide, {5});
  prefill(s, 0, prompt(6));
  float before = 0.0f, after = 1.0f;
  ASSERT_EQ(llmc_logprob(s, 7, &before), LLMC_OK);
  ASSERT_EQ(llmc_set_guidance(s, guide, 4.0f), LLMC_OK);
  ASSERT_EQ(llmc_logprob(s, 7, &after), LLMC_OK);
  EXPECT_EQ(before, after);
  llmc_candidate model_best{}, guided_best{};
  std::size_t count = 0;
  ASSERT_EQ(llmc_candidates(s, LLMC_CANDIDATES_MODEL, &model_best, 1, &count), LLMC_OK);
  EXPECT_EQ(hash_logits(llmc_logits(s)), hash_logits(logits_after(prompt(6)).data()));
  ASSERT_EQ(llmc_candidates(s, LLMC_CANDIDATES_SAMPLER, &guided_best, 1, &count), LLMC_OK);
  EXPECT_GT(guided_best.logprob, model_best.logprob);  // 4 times as sure
  ASSERT_EQ(llmc_set_guidance(s, 99, 1.0f), LLMC_OK);  // none, whatever the guide
  std::int32_t token = -1;
  ASSERT_EQ(llmc_sample(s, &token), LLMC_OK);
  EXPECT_EQ(token, model_best.token);
}

TEST(SessionGuidance, ErrorsLeaveEverythingAsItWas) {
  const Session one = guided_session({.sequences = 2, .batch = 1});
  std::uint32_t guide = 0, fork = 0;
  ASSERT_EQ(llmc_new_sequence(one, &guide), LLMC_OK);
  EXPECT_EQ(llmc_set_guidance(one, guide, 2.0f), LLMC_ERROR_ARGUMENT);

  const Session s = guided_session({.sequences = 3, .batch = 2});
  EXPECT_EQ(llmc_set_guidance(nullptr, 1, 2.0f), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_set_guidance(s, 1, 2.0f), LLMC_ERROR_SEQUENCE);
  EXPECT_EQ(llmc_set_guidance(s, 0, 2.0f), LLMC_ERROR_ARGUMENT);
  ASSERT_EQ(llmc_new_sequence(s, &guide), LLMC_OK);
  EXPECT_EQ(llmc_set_guidance(s, guide, NAN), LLMC_ERROR_SAMPLING);
  EXPECT_EQ(llmc_set_guidance(s, guide, INFINITY), LLMC_ERROR_SAMPLING);
  ASSERT_EQ(llmc_set_guidance(s, guide, 2.0f), LLMC_OK);
  EXPECT_EQ(llmc_release(s, guide), LLMC_ERROR_ARGUMENT);
  prefill(s, 0, prompt(9));
  std::int32_t token = -1;
  EXPECT_EQ(llmc_step(s, &token), LLMC_ERROR_NO_LOGITS);  // the guide has nothing yet
  prefill(s, guide, prompt(kContext));
  ASSERT_EQ(llmc_select(s, 0), LLMC_OK);
  EXPECT_EQ(llmc_step(s, &token), LLMC_ERROR_CONTEXT_FULL);  // the guide's
  EXPECT_EQ(token, -1);
  EXPECT_EQ(llmc_position(s), 9u);
  EXPECT_EQ(hash_logits(llmc_logits(s)), hash_logits(logits_after(prompt(9)).data()));

  // A fork goes on by itself; two guided ones are too many for a batch of 2.
  ASSERT_EQ(llmc_fork(s, 0, &fork), LLMC_OK);
  const std::uint32_t both[] = {0, fork};
  std::int32_t tokens[2] = {-1, -1};
  EXPECT_EQ(llmc_step_batch(s, both, 2, tokens), LLMC_ERROR_ARGUMENT);
  ASSERT_EQ(llmc_select(s, fork), LLMC_OK);
  ASSERT_EQ(llmc_step(s, &token), LLMC_OK);
  EXPECT_EQ(llmc_position(s), 10u);
  ASSERT_EQ(llmc_select(s, guide), LLMC_OK);
  EXPECT_EQ(llmc_position(s), kContext);
}

TEST(SessionGuidance, AGuideFollowsOneAndIsNotGuided) {
  const Session s = guided_session({.sequences = 4, .batch = 4});
  std::uint32_t ids[3] = {};
  for (std::uint32_t& id : ids) ASSERT_EQ(llmc_new_sequence(s, &id), LLMC_OK);
  const auto guide = [&](std::uint32_t sequence, std::uint32_t by, float scale = 2.0f) {
    EXPECT_EQ(llmc_select(s, sequence), LLMC_OK);
    return llmc_set_guidance(s, by, scale);
  };
  ASSERT_EQ(guide(0, 1), LLMC_OK);
  EXPECT_EQ(guide(0, 1, 3.0f), LLMC_OK);        // the same pair
  EXPECT_EQ(guide(2, 1), LLMC_ERROR_ARGUMENT);  // 1 follows 0
  EXPECT_EQ(guide(1, 2), LLMC_ERROR_ARGUMENT);  // 1 is a guide
  EXPECT_EQ(guide(2, 0), LLMC_ERROR_ARGUMENT);  // 0 is guided
  EXPECT_EQ(guide(2, 1, 1.0f), LLMC_OK);        // no guidance, whatever the guide
  EXPECT_EQ(guide(0, 2), LLMC_OK);              // another guide
  EXPECT_EQ(guide(3, 1), LLMC_OK);              // which leaves 1 free
  EXPECT_EQ(guide(0, 2, 1.0f), LLMC_OK);
  EXPECT_EQ(guide(2, 0), LLMC_OK);
}

TEST(SessionGuidance, WhatTheModelSaysNeedsNoGuide) {
  const Session s = guided_session();
  std::uint32_t guide = 0;
  ASSERT_EQ(llmc_new_sequence(s, &guide), LLMC_OK);
  prefill(s, 0, prompt(6));
  float before = 0.0f, after = 1.0f;
  ASSERT_EQ(llmc_logprob(s, 7, &before), LLMC_OK);
  ASSERT_EQ(llmc_set_guidance(s, guide, 2.0f), LLMC_OK);
  llmc_candidate best{};
  std::size_t count = 0;
  EXPECT_EQ(llmc_candidates(s, LLMC_CANDIDATES_SAMPLER, &best, 1, &count), LLMC_ERROR_NO_LOGITS);
  EXPECT_EQ(llmc_candidates(s, LLMC_CANDIDATES_MODEL, &best, 1, &count), LLMC_OK);
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(llmc_logprob(s, 7, &after), LLMC_OK);
  EXPECT_EQ(before, after);
}

TEST(SessionGuidance, ABatchLeadsEveryGuideAlong) {
  const Session s = guided_session({.sequences = 4, .batch = 4});
  std::uint32_t ids[3] = {};
  for (std::uint32_t& id : ids) ASSERT_EQ(llmc_new_sequence(s, &id), LLMC_OK);
  const Ids prompts[] = {prompt(4), {1, 2, 3}, {9}, {8, 8}};
  for (std::uint32_t i = 0; i < 4; ++i) prefill(s, i, prompts[i]);
  ASSERT_EQ(llmc_select(s, 0), LLMC_OK);
  ASSERT_EQ(llmc_set_guidance(s, 2, 2.0f), LLMC_OK);
  ASSERT_EQ(llmc_select(s, 1), LLMC_OK);
  ASSERT_EQ(llmc_set_guidance(s, 3, 2.0f), LLMC_OK);
  const std::uint32_t led[] = {1, 0};
  std::int32_t tokens[2] = {};
  ASSERT_EQ(llmc_step_batch(s, led, 2, tokens), LLMC_OK);
  const std::map<std::uint32_t, std::int32_t> appended = {
      {0, tokens[1]}, {1, tokens[0]}, {2, tokens[1]}, {3, tokens[0]}};
  for (const auto& [sequence, token] : appended) {
    Ids all = prompts[sequence];
    all.push_back(token);
    ASSERT_EQ(llmc_select(s, sequence), LLMC_OK);
    EXPECT_EQ(hash_logits(llmc_logits(s)), hash_logits(logits_after(all).data())) << sequence;
  }
}

}  // namespace
}  // namespace llmc::fake
