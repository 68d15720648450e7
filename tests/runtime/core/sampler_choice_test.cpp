// Inputs of a choice other than the stages: greedy, bias, filter, mirostat's state,
// probabilities.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "tests/runtime/core/sampler_reference.h"
#include "tests/runtime/core/sampling.h"

namespace llmc::core {
namespace {

struct Asked {
  llmc_status status;
  Choice choice{-1, 0.0f};
};

/// A choice with everything that has a default left at it, unless `change` says otherwise.
template <class Change>
Asked ask(const std::vector<float>& logits, const llmc_sampling& sampling, Change change,
          const Tokens& tokens = {}) {
  const TokenHistory history = tokens.history();
  SamplerInput at{.logits = logits.data(),
                  .vocab = static_cast<std::uint32_t>(logits.size()),
                  .best = first_of_largest(logits),
                  .history = history,
                  .sampling = sampling};
  change(at);
  std::vector<Candidate> room(logits.size());
  Asked asked{};
  asked.status = sample_token(at, room.data(), &asked.choice);
  return asked;
}
Asked ask(const std::vector<float>& logits, const llmc_sampling& sampling,
          const Tokens& tokens = {}) {
  return ask(logits, sampling, [](SamplerInput&) {}, tokens);
}

TEST(Greedy, TakesTheBestOfWhatTheStagesLeave) {
  const std::vector<float> logits = {3.0f, 2.9f, 2.0f, 1.0f};
  const auto greedy = [&](auto set, const Ids& history = {}) {
    return ask(logits, sampling(set), Tokens(history)).choice.token;
  };
  EXPECT_EQ(greedy([](auto&) {}), 0);
  EXPECT_EQ(greedy([](auto& s) { s.top_k = 3, s.top_p = 0.5f, s.min_p = 0.9f; }), 0);
  const auto penalties = [](auto& s) { s.repeat_last_n = 4, s.presence_penalty = 0.5f; };
  EXPECT_EQ(greedy(penalties, {1, 2}), 0);
  EXPECT_EQ(greedy(penalties, {0, 2}), 1);
  EXPECT_EQ(greedy([](auto& s) { s.xtc_probability = 1.0f, s.xtc_threshold = 0.2f; }), 1);
  // Probabilities 0.40, 0.36, 0.15, 0.05: the second is the most typical.
  EXPECT_EQ(greedy([](auto& s) { s.typical_p = 0.3f; }), 1);
  const auto dry = [](auto& s) {
    s.dry_multiplier = 1.0f, s.dry_base = 2.0f, s.dry_allowed_length = 2, s.dry_penalty_last_n = -1;
  };
  EXPECT_EQ(greedy(dry, {1, 2, 0, 1, 2}), 1);
  EXPECT_EQ(greedy(dry, {1, 2, 3, 1, 2}), 0);
}

struct Bias {
  std::vector<llmc_logit_bias> biases;
  void operator()(SamplerInput& at) const {
    at.biases = biases.data();
    at.bias_count = biases.size();
  }
};

TEST(LogitBias, IsAddedBeforeAllStages) {
  const std::vector<float> logits = {3.0f, 2.0f, 1.0f};
  const auto greedy = [&](const Bias& bias) { return ask(logits, {}, bias); };
  EXPECT_EQ(greedy({{{0, -1.5f}}}).choice.token, 1);
  EXPECT_EQ(greedy({{{2, 1.5f}, {2, 1.5f}}}).choice.token, 2) << "twice: the sum";
  EXPECT_EQ(greedy({{{0, -kInf}, {1, -kInf}}}).choice.token, 2);
  EXPECT_EQ(greedy({{{0, -kInf}, {1, -kInf}, {2, -kInf}}}).status, LLMC_ERROR_NO_CANDIDATE);
  EXPECT_EQ(greedy({{{0, -kInf}, {0, 3e38f}}}).choice.token, 1) << "banned stays banned";
  EXPECT_EQ(greedy({{{0, 3e38f}, {0, 3e38f}, {0, -3e38f}}}).choice.token, 0);
  // top_k sees the changed logits.
  const auto first = sampling([](auto& s) { s.temperature = 1.0f, s.top_k = 1; });
  EXPECT_EQ(ask(logits, first, Bias{{{1, 2.0f}}}).choice.token, 1);
}

/// Accepts the tokens in a set; counts the calls.
struct Filter {
  Ids allowed;
  std::uint32_t vocab = 0;
  int asked = 0;
  void operator()(SamplerInput& at) {
    vocab = at.vocab;
    at.filter = {[](void* state, std::uint32_t* mask) {
                   Filter& self = *static_cast<Filter*>(state);
                   ++self.asked;
                   const std::uint32_t words = (self.vocab + 31) / 32;
                   std::fill(mask, mask + words, 0u);
                   if (self.vocab % 32 != 0) mask[words - 1] = ~0u << self.vocab % 32;
                   for (const std::int32_t id : self.allowed) mask[id / 32] |= 1u << id % 32;
                 },
                 this};
  }
};

// Where top_k comes first, its candidates are found without a list of all. A bias of nothing needs
// the list: both ways choose alike, whatever the mask, ties, and numbers that are none.
TEST(TopK, ChoosesTheSameWithAndWithoutAListOfAllTokens) {
  std::mt19937 random(11);
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  for (int round = 0; round < 3000; ++round) {
    std::vector<float> logits(2 + below(200));
    for (float& logit : logits) {
      const std::uint32_t kind = below(20);
      logit = kind == 0 ? std::nanf("") : kind == 1 ? -kInf : static_cast<float>(below(40)) * 0.1f;
    }
    logits[below(static_cast<std::uint32_t>(logits.size()))] = 4.0f;
    Filter filter;
    const std::uint32_t density = 1 + below(30);
    for (std::size_t i = 0; i < logits.size(); ++i)
      if (below(density) == 0) filter.allowed.push_back(static_cast<std::int32_t>(i));
    const bool filtered = below(4) != 0;
    const auto wanted = sampling([&](auto& s) {
      s.temperature = 2.0f;
      s.seed = random();
      s.top_k = static_cast<std::int32_t>(1 + below(static_cast<std::uint32_t>(logits.size())));
      if (below(2) == 0) s.tfs_z = 0.95f;
      if (below(2) == 0) s.typical_p = 0.9f;
      if (below(2) == 0) s.top_p = 0.9f;
    });
    const Bias nothing{{{0, 0.0f}}};
    const auto way = [&](bool list) {
      return ask(logits, wanted, [&](SamplerInput& at) {
        if (filtered) filter(at);
        if (list) nothing(at);
      });
    };
    const Asked direct = way(false), with_list = way(true);
    ASSERT_EQ(direct.status, with_list.status) << round;
    if (direct.status == LLMC_OK) ASSERT_EQ(direct.choice.token, with_list.choice.token) << round;
  }
}

TEST(TokenFilter, HoldsForEverySizeOfTheVocabulary) {
  for (std::size_t vocab = 1; vocab < 140; ++vocab) {
    std::vector<float> logits(vocab);
    for (std::size_t i = 0; i < vocab; ++i) logits[i] = static_cast<float>(i * 37 % 101) * 0.01f;
    Filter filter;
    for (std::size_t i = vocab % 7; i < vocab; i += 1 + vocab % 5)
      filter.allowed.push_back(static_cast<std::int32_t>(i));
    if (filter.allowed.empty()) continue;
    const auto expected = *std::max_element(
        filter.allowed.begin(), filter.allowed.end(), [&](std::int32_t a, std::int32_t b) {
          return logits[static_cast<std::size_t>(a)] < logits[static_cast<std::size_t>(b)];
        });
    EXPECT_EQ(ask(logits, {}, std::ref(filter)).choice.token, expected) << vocab;
    const auto first = sampling([](auto& s) { s.temperature = 1.0f, s.top_k = 1; });
    EXPECT_EQ(ask(logits, first, std::ref(filter)).choice.token, expected) << vocab;
    EXPECT_EQ(filter.asked, 2);
    // With every token in a draw each allowed one comes up, and no other.
    const auto flat = [&](int seed) {
      return sampling([&](auto& s) {
        s.temperature = 1e6f;
        s.seed = static_cast<std::uint64_t>(seed);
      });
    };
    if (vocab % 13 != 0) continue;
    std::vector<int> drawn(vocab);
    for (int seed = 0; seed < 2000; ++seed)
      ++drawn[static_cast<std::size_t>(ask(logits, flat(seed), std::ref(filter)).choice.token)];
    for (std::size_t i = 0; i < vocab; ++i)
      EXPECT_EQ(drawn[i] > 0, std::count(filter.allowed.begin(), filter.allowed.end(), i) > 0)
          << vocab << " " << i;
  }
}

TEST(TokenFilter, ThatLetsNothingThrough) {
  for (const float temperature : {0.0f, 1.0f}) {
    Filter filter;
    const auto parameters = sampling([&](auto& s) { s.temperature = temperature; });
    EXPECT_EQ(ask({1.0f, 2.0f}, parameters, std::ref(filter)).status, LLMC_ERROR_NO_CANDIDATE);
    filter.allowed = {0};
    EXPECT_EQ(ask({-kInf, 2.0f}, parameters, std::ref(filter)).status, LLMC_ERROR_NO_CANDIDATE);
    EXPECT_EQ(ask({kNan, 2.0f}, parameters, std::ref(filter)).status, LLMC_ERROR_NO_CANDIDATE);
    EXPECT_EQ(ask({1.0f, 2.0f}, parameters, std::ref(filter)).choice.token, 0);
  }
}

llmc_sampling mirostat(int version, float target, float rate, std::uint64_t seed = 0) {
  return sampling([&](auto& s) {
    s.temperature = 1.0f;
    s.mirostat = version;
    s.mirostat_ent = target;
    s.mirostat_lr = rate;
    s.seed = seed;
  });
}

TEST(Mirostat, MovesItsStateByTheErrorInBits) {
  // Four equal tokens, mu starts at 2 · 1.5: nothing is cut, each has a surprise of 2 bits.
  const std::vector<float> equal(4, 1.0f);
  EXPECT_FLOAT_EQ(ask(equal, mirostat(2, 1.5f, 0.1f)).choice.mu, 3.0f - 0.1f * (2.0f - 1.5f));
  const auto with_mu = [](float mu) { return [=](SamplerInput& at) { at.mu = mu; }; };
  EXPECT_FLOAT_EQ(ask(equal, mirostat(2, 1.5f, 0.5f), with_mu(2.5f)).choice.mu, 2.25f);
  // Below 2 bits all are too surprising: the first stays, which is no surprise.
  const Asked one = ask(equal, mirostat(2, 1.5f, 0.1f), with_mu(1.0f));
  EXPECT_EQ(one.choice.token, 0);
  EXPECT_FLOAT_EQ(one.choice.mu, 1.15f);
  // A state of 0 that was arrived at is not that of a start.
  const Asked zero = ask(equal, mirostat(2, 0.0f, 0.5f), with_mu(1.0f));
  EXPECT_FLOAT_EQ(zero.choice.mu, 1.0f);
  const Asked arrived = ask({2.0f, 2.0f}, mirostat(2, 0.0f, 1.0f), with_mu(1.0f));
  EXPECT_EQ(std::bit_cast<std::uint32_t>(arrived.choice.mu), 0x80000000u);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Asked after = ask({2.0f, 2.0f}, mirostat(2, 7.0f, 0.0f, seed), with_mu(-0.0f));
    EXPECT_EQ(after.choice.token, 0) << "mu is 0, not 14";
  }
  // Off, greedy: it stays what it was.
  EXPECT_EQ(ask(equal, mirostat(0, 1.5f, 0.1f), with_mu(2.5f)).choice.mu, 2.5f);
  auto greedy = mirostat(2, 1.5f, 0.1f);
  greedy.temperature = 0.0f;
  EXPECT_EQ(ask(equal, greedy, with_mu(2.5f)).choice.mu, 2.5f);
}

TEST(Mirostat, FollowsZipfsLawInTheFirstVersion) {
  // Probabilities 1, 1/4, 1/9, … have the exponent s = 2: k = (2^mu / (1 - 1/V))^(1/2).
  std::vector<float> zipf(64);
  for (std::size_t i = 0; i < zipf.size(); ++i)
    zipf[i] = -2.0f * std::log(static_cast<float>(i + 1));
  const auto kept = [&](float mu) {
    auto entries = entries_of(zipf);
    Candidates candidates{entries.data(), 64, 0.0f, false, true};
    cut_mirostat_1(candidates, mu, 64);
    return candidates.count;
  };
  EXPECT_EQ(kept(0.0f), 1u);    // (64/63)^(1/2)
  EXPECT_EQ(kept(4.0f), 4u);    // (16 · 64/63)^(1/2) = 4.03
  EXPECT_EQ(kept(5.0f), 5u);    // 5.70
  EXPECT_EQ(kept(11.0f), 45u);  // 45.6
  EXPECT_EQ(kept(12.5f), 64u);
  EXPECT_EQ(kept(1e30f), 64u);
  EXPECT_EQ(kept(-1e30f), 1u);
}

TEST(Mirostat, SurvivesExtremes) {
  for (const int version : {1, 2}) {
    for (const auto& logits : std::vector<std::vector<float>>{
             {1.0f}, {1.0f, 1.0f, 1.0f}, {3e38f, -3e38f}, {1.0f, -kInf, kNan}, {-1e-30f, 0.0f}}) {
      for (const float target : {0.0f, 5.0f, 3e38f, -3e38f}) {
        for (const float rate : {0.0f, 0.1f, 3e38f, -1.0f}) {
          float mu = 0.0f;
          for (std::uint64_t seed = 0; seed < 6; ++seed) {
            const Asked asked = ask(logits, mirostat(version, target, rate, seed),
                                    [&](SamplerInput& at) { at.mu = mu; });
            ASSERT_EQ(asked.status, LLMC_OK);
            const float drawn = logits[static_cast<std::size_t>(asked.choice.token)];
            ASSERT_TRUE(std::isfinite(drawn)) << version << " " << target << " " << rate;
            mu = asked.choice.mu;
            ASSERT_TRUE(std::isfinite(mu));
          }
        }
      }
    }
  }
}

TEST(Mirostat, HoldsTheSurpriseAtItsTarget) {
  std::vector<float> zipf(100);
  for (std::size_t i = 0; i < zipf.size(); ++i)
    zipf[i] = -0.8f * std::log(static_cast<float>(i + 1));
  for (const int version : {1, 2}) {
    for (const float target : {2.0f, 4.0f}) {
      reference::Sampler reference;
      reference.mu = 2 * double{target};
      double surprise = 0.0;
      constexpr int kSteps = 700;
      for (std::uint64_t seed = 0; seed < kSteps; ++seed) {
        reference.parameters = mirostat(version, target, 0.1f, seed);
        const Asked asked = ask(zipf, reference.parameters, [&](SamplerInput& at) {
          at.mu = static_cast<float>(reference.mu);
        });
        surprise -= std::log2(reference.of(zipf)[asked.choice.token]);
        reference.mu = double{asked.choice.mu};
      }
      EXPECT_NEAR(surprise / kSteps, target, 0.1) << version;
    }
  }
}

TEST(Candidates, ProbabilitiesOfTheModel) {
  const auto logits = logs({0.1, 0.4, 0.2, 0.3});
  const auto parameters = sampling([](auto& s) { s.temperature = 0.1f, s.top_k = 1; });
  std::vector<llmc_candidate> found(5);
  std::size_t count = 9;
  const auto likeliest = [&](int which, std::size_t n) {
    ask(logits, parameters, [&](SamplerInput& at) {
      std::vector<Candidate> room(logits.size());
      EXPECT_EQ(likeliest_tokens(at, which, room.data(), found.data(), n, &count), LLMC_OK);
    });
  };
  likeliest(LLMC_CANDIDATES_MODEL, 2);
  ASSERT_EQ(count, 2u);
  EXPECT_EQ(found[0].token, 1);
  EXPECT_NEAR(found[0].logprob, std::log(0.4), 1e-6);
  EXPECT_EQ(found[1].token, 3);
  EXPECT_NEAR(found[1].logprob, std::log(0.3), 1e-6);
  likeliest(LLMC_CANDIDATES_MODEL, 5);
  EXPECT_EQ(count, 4u);
  likeliest(LLMC_CANDIDATES_MODEL, 0);
  EXPECT_EQ(count, 0u);
  likeliest(LLMC_CANDIDATES_SAMPLER, 5);
  ASSERT_EQ(count, 1u);
  EXPECT_EQ(found[0].token, 1);
  EXPECT_EQ(found[0].logprob, 0.0f);
  const auto logprob = [&](const std::vector<float>& of, std::uint32_t token) {
    float value = 9.0f;
    EXPECT_EQ(log_probability(of.data(), static_cast<std::uint32_t>(of.size()),
                              first_of_largest(of), token, &value),
              LLMC_OK);
    return value;
  };
  EXPECT_NEAR(logprob(logits, 2), std::log(0.2), 1e-6);
  EXPECT_NEAR(logprob({0.0f, 0.0f, kNan}, 1), std::log(0.5), 1e-6);
  EXPECT_EQ(logprob({0.0f, 0.0f, kNan}, 2), -kInf);
  EXPECT_EQ(logprob({0.0f, -kInf}, 1), -kInf);
  float unchanged = 9.0f;
  const float infinite[] = {kInf, 0.0f};
  EXPECT_EQ(log_probability(infinite, 2, 0, 1, &unchanged), LLMC_ERROR_NOT_FINITE);
  EXPECT_EQ(unchanged, 9.0f);
}

using Stages = std::vector<std::uint8_t>;
const Stages kAllInOrder = {
    LLMC_SAMPLER_PENALTIES, LLMC_SAMPLER_DRY,       LLMC_SAMPLER_TOP_K,
    LLMC_SAMPLER_TFS_Z,     LLMC_SAMPLER_TYPICAL_P, LLMC_SAMPLER_TOP_P,
    LLMC_SAMPLER_MIN_P,     LLMC_SAMPLER_XTC,       LLMC_SAMPLER_TEMPERATURE};

TEST(Orders, AreTheseLists) {
  const auto stages = [](int order) {
    llmc_sampling s{};
    EXPECT_EQ(llmc_sampling_order(&s, order), LLMC_OK);
    return Stages(std::begin(s.samplers),
                  std::find(std::begin(s.samplers), std::end(s.samplers), 0));
  };
  EXPECT_EQ(stages(LLMC_SAMPLERS_DEFAULT), Stages());
  EXPECT_EQ(stages(LLMC_SAMPLERS_2024),
            (Stages{LLMC_SAMPLER_PENALTIES, LLMC_SAMPLER_TOP_K, LLMC_SAMPLER_TFS_Z,
                    LLMC_SAMPLER_TYPICAL_P, LLMC_SAMPLER_TOP_P, LLMC_SAMPLER_MIN_P,
                    LLMC_SAMPLER_TEMPERATURE}));
  EXPECT_EQ(
      stages(LLMC_SAMPLERS_TODAY),
      (Stages{LLMC_SAMPLER_PENALTIES, LLMC_SAMPLER_DRY, LLMC_SAMPLER_TOP_K, LLMC_SAMPLER_TYPICAL_P,
              LLMC_SAMPLER_TOP_P, LLMC_SAMPLER_MIN_P, LLMC_SAMPLER_XTC, LLMC_SAMPLER_TEMPERATURE}));
}

/// Choices with all stages on, in `order`, up to the first that is not what `all_but` has there.
Ids choices(const Stages& order, int mirostat = 0, const Ids& all_but = {}) {
  std::mt19937 random(31);
  std::normal_distribution<float> logit(0.0f, 2.0f);
  const Tokens history({1, 2, 3, 4, 1, 2, 3});
  Ids chosen;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    std::vector<float> logits(24);
    for (float& x : logits) x = logit(random);
    const llmc_sampling s = sampling([&](auto& p) {
      p.seed = seed;
      p.temperature = 1.5f;
      p.top_k = 12, p.tfs_z = 0.9f, p.typical_p = 0.95f, p.top_p = 0.9f, p.min_p = 0.3f;
      p.xtc_probability = 0.5f, p.xtc_threshold = 0.2f;
      p.repeat_last_n = -1, p.repeat_penalty = 1.3f, p.presence_penalty = 0.4f;
      p.dry_multiplier = 1.0f, p.dry_base = 2.0f, p.dry_allowed_length = 1,
      p.dry_penalty_last_n = -1;
      p.mirostat = mirostat, p.mirostat_ent = 3.0f, p.mirostat_lr = 0.1f;
      std::copy(order.begin(), order.end(), p.samplers);
    });
    chosen.push_back(ask(logits, s, [](SamplerInput& at) { at.mu = 6.0f; }, history).choice.token);
    if (seed < all_but.size() && chosen.back() != all_but[seed]) break;
  }
  return chosen;
}

TEST(Orders, TheDefaultOneHasAllStagesInThisOrder) {
  const auto expected = choices(kAllInOrder);
  EXPECT_EQ(choices({}), expected);
  for (std::size_t i = 2; i + 1 < kAllInOrder.size(); ++i) {  // another one would be noticed
    Stages swapped = kAllInOrder;
    std::swap(swapped[i], swapped[i + 1]);
    EXPECT_NE(choices(swapped, 0, expected), expected) << i;
  }
  for (std::size_t i = 0; i < kAllInOrder.size(); ++i) {
    Stages fewer = kAllInOrder;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_NE(choices(fewer, 0, expected), expected) << i;
  }
}

TEST(Orders, MirostatStandsForTheStagesThatCut) {
  const Stages history_and_temperature = {LLMC_SAMPLER_PENALTIES, LLMC_SAMPLER_DRY,
                                          LLMC_SAMPLER_TEMPERATURE};
  for (const int version : {1, 2})
    EXPECT_EQ(choices({}, version), choices(history_and_temperature, version)) << version;
}

}  // namespace
}  // namespace llmc::core
