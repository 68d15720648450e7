// Draws and probabilities of whole chains against distributions computed another way.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/runtime/core/sampler_reference.h"
#include "tests/runtime/core/sampling.h"

namespace llmc::core {
namespace {

/// A choice that can be made, and what the reference says about it.
struct Case {
  std::vector<float> logits;
  reference::Sampler reference;

  llmc_sampling& parameters() { return reference.parameters; }

  /// Calls look(input, room).
  template <class Look>
  void with_seed(std::uint64_t seed, Look look) const {
    const Tokens tokens(reference.history);
    const TokenHistory history = tokens.history();
    const BreakerTable breakers(reference.breakers);
    std::vector<llmc_logit_bias> biases;
    for (const auto& [id, bias] : reference.bias) biases.push_back({id, static_cast<float>(bias)});
    llmc_sampling sampling = reference.parameters;
    sampling.seed = seed;
    SamplerInput at{.logits = logits.data(),
                    .vocab = static_cast<std::uint32_t>(logits.size()),
                    .best = first_of_largest(logits),
                    .history = history,
                    .sampling = sampling,
                    .biases = biases.data(),
                    .bias_count = biases.size(),
                    .breakers = breakers.table()};
    at.mu = static_cast<float>(reference.mu);
    if (reference.allowed) at.filter = {allow, const_cast<Case*>(this)};
    std::vector<Candidate> room(logits.size() + 1, {-7.0f, -7});
    look(at, room.data());
    EXPECT_EQ(room.back().id, -7) << "wrote behind its room";
  }
  std::int32_t drawn(std::uint64_t seed) const {
    Choice choice{-1, 0.0f};
    with_seed(seed, [&](const SamplerInput& at, Candidate* room) {
      EXPECT_EQ(sample_token(at, room, &choice), LLMC_OK);
    });
    return choice.token;
  }
  static void allow(void* state, std::uint32_t* mask) {
    const auto& allowed = *static_cast<Case*>(state)->reference.allowed;
    std::fill(mask, mask + (allowed.size() + 31) / 32, 0u);
    for (std::size_t i = 0; i < allowed.size(); ++i)
      if (allowed[i]) mask[i / 32] |= 1u << i % 32;
  }
};

std::vector<float> random_logits(std::uint32_t seed, std::size_t count, float spread = 1.5f) {
  std::mt19937 random(seed);
  std::vector<float> logits;
  for (std::size_t i = 0; i < count; ++i)  // sums of uniform numbers: the same in every library
    logits.push_back(spread *
                     (static_cast<float>(random() % 4096 + random() % 4096) / 2048.0f - 2.0f));
  return logits;
}

/// Pearson's statistic of drawn tokens; tokens that are expected less than five times are one
/// class.
struct ChiSquare {
  double statistic = 0;
  int degrees = -1;
  /// Five standard deviations of a chi-square variable above its mean, and room for its skew.
  double limit() const { return degrees + 5 * std::sqrt(2.0 * degrees) + 15; }
};
template <class Draw>
ChiSquare chi_square(const reference::Distribution& expected, int draws, Draw draw) {
  std::map<std::int32_t, int> counts;
  for (int i = 0; i < draws; ++i) ++counts[draw(static_cast<std::uint64_t>(i))];
  ChiSquare result;
  double rare = 0;
  int rare_count = 0;
  const auto add = [&](double wanted, double found) {
    result.statistic += (found - wanted) * (found - wanted) / wanted;
    ++result.degrees;
  };
  for (const auto& [id, p] : expected) {
    const double wanted = p * draws;
    if (wanted >= 5) {
      add(wanted, counts[id]);
    } else {
      rare += wanted;
      rare_count += counts[id];
    }
    counts.erase(id);
  }
  for (const auto& [id, count] : counts)
    EXPECT_EQ(count, 0) << "token " << id << " cannot be drawn";
  if (rare > 0.1) add(rare, rare_count);
  return result;
}

constexpr int kDraws = 12000;

using Change = void (*)(Case&);
struct Named {
  const char* name;
  Change change;
};
void PrintTo(const Named& named, std::ostream* out) {
  *out << named.name;
}

const Named kChains[] = {
    {"Plain", [](Case& c) { c.parameters().temperature = 1.0f; }},
    {"Temperature", [](Case& c) { c.parameters().temperature = 0.6f; }},
    {"TopK", [](Case& c) { c.parameters().top_k = 5; }},
    {"TopP", [](Case& c) { c.parameters().top_p = 0.8f; }},
    {"MinP", [](Case& c) { c.parameters().min_p = 0.2f; }},
    {"TfsZ", [](Case& c) { c.parameters().tfs_z = 0.6f; }},
    {"TypicalP", [](Case& c) { c.parameters().typical_p = 0.7f; }},
    {"Xtc",
     [](Case& c) {
       c.parameters().xtc_probability = 0.4f;
       c.parameters().xtc_threshold = 0.1f;
     }},
    {"Penalties",
     [](Case& c) {
       c.parameters().repeat_last_n = 8;
       c.parameters().repeat_penalty = 1.3f;
       c.parameters().frequency_penalty = 0.2f;
       c.parameters().presence_penalty = 0.3f;
     }},
    {"Dry",
     [](Case& c) {
       c.parameters().dry_multiplier = 0.8f;
       c.parameters().dry_base = 1.75f;
       c.parameters().dry_allowed_length = 1;
       c.parameters().dry_penalty_last_n = -1;
     }},
    {"LogitBias", [](Case& c) { c.reference.bias = {{0, 1.5}, {3, -2.0}, {5, -INFINITY}}; }},
    {"Filter",
     [](Case& c) {
       c.reference.allowed.emplace(c.logits.size());
       for (std::size_t i = 0; i < c.logits.size(); i += 3) (*c.reference.allowed)[i] = true;
     }},
    {"Mirostat1",
     [](Case& c) {
       c.parameters().mirostat = 1;
       c.reference.mu = 2.5;
     }},
    {"Mirostat2",
     [](Case& c) {
       c.parameters().mirostat = 2;
       c.reference.mu = 3.0;
     }},
    {"Order2024",
     [](Case& c) {
       llmc_sampling_order(&c.parameters(), LLMC_SAMPLERS_2024);
       c.parameters().repeat_last_n = 6;
       c.parameters().repeat_penalty = 1.2f;
       c.parameters().top_k = 12;
       c.parameters().tfs_z = 0.97f;
       c.parameters().typical_p = 0.95f;
       c.parameters().top_p = 0.95f;
       c.parameters().min_p = 0.02f;
       c.parameters().temperature = 1.4f;
       c.parameters().xtc_probability = 1.0f;  // not in this order: nothing
       c.parameters().dry_multiplier = 9.0f;
       c.parameters().dry_base = 2.0f;
       c.parameters().dry_penalty_last_n = -1;
     }},
    {"OrderToday",
     [](Case& c) {
       llmc_sampling_order(&c.parameters(), LLMC_SAMPLERS_TODAY);
       c.parameters().repeat_last_n = 64;
       c.parameters().presence_penalty = 0.4f;
       c.parameters().dry_multiplier = 0.5f;
       c.parameters().dry_base = 1.75f;
       c.parameters().dry_allowed_length = 1;
       c.parameters().dry_penalty_last_n = -1;
       c.reference.breakers = {{2}, {4, 1}};
       c.parameters().top_k = 14;
       c.parameters().typical_p = 0.97f;
       c.parameters().top_p = 0.97f;
       c.parameters().min_p = 0.03f;
       c.parameters().xtc_probability = 0.5f;
       c.parameters().xtc_threshold = 0.15f;
       c.parameters().temperature = 1.2f;
       c.parameters().tfs_z = 0.01f;  // not in this order: nothing
     }},
    {"TemperatureBeforeTopP",
     [](Case& c) {
       c.parameters().samplers[0] = LLMC_SAMPLER_TEMPERATURE;
       c.parameters().samplers[1] = LLMC_SAMPLER_TOP_P;
       c.parameters().temperature = 2.0f;
       c.parameters().top_p = 0.7f;
       c.parameters().top_k = 1;
     }},
};

Case made(const Named& named, std::uint32_t seed, std::size_t vocabulary = 18) {
  Case c;
  c.logits = random_logits(seed, vocabulary);
  c.reference.history = {7, 1, 2, 3, 1, 2, 0, 4, 1, 9, 1, 2};
  c.parameters().temperature = 1.0f;
  named.change(c);
  return c;
}

class Distribution : public testing::TestWithParam<Named> {};

TEST_P(Distribution, OfDrawsIsTheExactOne) {
  const Case c = made(GetParam(), 11);
  const auto expected = c.reference.of(c.logits);
  const ChiSquare result =
      chi_square(expected, kDraws, [&](std::uint64_t seed) { return c.drawn(seed); });
  EXPECT_LT(result.statistic, result.limit()) << result.degrees << " degrees of freedom";
}

TEST_P(Distribution, IsWhatCandidatesSay) {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    Case c = made(GetParam(), 100 + seed, 10 + seed);
    if (c.parameters().xtc_probability > 0.0f) c.parameters().xtc_probability = 1.0f;
    const auto expected = c.reference.of(c.logits);
    std::vector<llmc_candidate> candidates(c.logits.size());
    std::size_t count = 0;
    c.with_seed(seed, [&](const SamplerInput& at, Candidate* room) {
      ASSERT_EQ(likeliest_tokens(at, LLMC_CANDIDATES_SAMPLER, room, candidates.data(),
                                 candidates.size(), &count),
                LLMC_OK);
    });
    ASSERT_EQ(count, expected.size()) << seed;
    for (std::size_t i = 0; i < count; ++i) {
      const llmc_candidate& found = candidates[i];
      ASSERT_EQ(expected.count(found.token), 1u) << seed;
      ASSERT_NEAR(found.logprob, std::log(expected.at(found.token)), 2e-5) << seed;
      if (i > 0) ASSERT_LE(found.logprob, candidates[i - 1].logprob);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Chains, Distribution, testing::ValuesIn(kChains),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Draws, AreTheSameEverywhere) {
  // Fixed by value: another compiler, target or optimization level must not change them.
  std::uint64_t hash = 0xCBF29CE484222325u;  // FNV-1a of the tokens
  for (const Named& named : kChains) {
    const Case c = made(named, 77, 200);
    for (std::uint64_t seed = 0; seed < 100; ++seed)
      hash = (hash ^ static_cast<std::uint64_t>(c.drawn(seed))) * 0x100000001B3u;
  }
  EXPECT_EQ(hash, 12069139547891302119u);
}

TEST(ChiSquare, TellsACloseDistributionApart) {
  // What a fault would look like: draws at temperature 1.1 are not those at 1.
  Case c = made(kChains[0], 11);
  const auto expected = c.reference.of(c.logits);
  c.parameters().temperature = 1.1f;
  const ChiSquare result =
      chi_square(expected, kDraws, [&](std::uint64_t seed) { return c.drawn(seed); });
  EXPECT_GT(result.statistic, result.limit());
}

}  // namespace
}  // namespace llmc::core
