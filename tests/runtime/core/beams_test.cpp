// Beam search against a plain one, which keeps whole texts and runs each from its start.

#include "llmc/beams.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "tests/runtime/core/fake_model.h"

namespace llmc::fake {
namespace {

using ::testing::ElementsAreArray;
using Text = std::vector<std::int32_t>;

struct Case {
  std::uint32_t beams = 3, max_tokens = 8;
  int stopping = LLMC_BEAMS_LIKELY;
  float penalty = 1;
  Text stops = {3, 17};
  std::vector<llmc_logit_bias> biases = {};
};

llmc_beam_options options(const Case& c) {
  return {.size = sizeof(llmc_beam_options),
          .beams = c.beams,
          .max_tokens = c.max_tokens,
          .stopping = c.stopping,
          .length_penalty = c.penalty,
          .stop_ids = c.stops.data(),
          .stop_count = static_cast<std::uint32_t>(c.stops.size())};
}

struct Ended {
  Text tokens;
  double score = 0;
};

/// The search of Hugging Face's generate(), with texts of its own.
class PlainSearch {
 public:
  PlainSearch(const Case& c, Text prompt) : c_(c), prompt_(std::move(prompt)) {}

  std::vector<Ended> run() {
    std::vector<Ended> running{{}};
    std::vector<Ended> ended;
    for (std::uint32_t length = 1;; ++length) {
      std::vector<Ended> all;
      for (const Ended& text : running)
        for (const auto& [token, logprob] : next(text.tokens)) {
          all.push_back(text);
          all.back().tokens.push_back(token);
          all.back().score += logprob;
        }
      std::ranges::sort(all, std::greater{}, &Ended::score);
      const bool last = length == c_.max_tokens;
      running.clear();
      for (std::size_t i = 0; i < all.size(); ++i) {
        const bool stops = std::ranges::count(c_.stops, all[i].tokens.back()) > 0 || last;
        if (stops && i < c_.beams) ended.push_back({all[i].tokens, normal(all[i].score, length)});
        if (!stops && running.size() < c_.beams) running.push_back(all[i]);
      }
      std::ranges::sort(ended, std::greater{}, &Ended::score);
      if (ended.size() > c_.beams) ended.resize(c_.beams);
      if (last || running.empty()) return ended;
      if (ended.size() < c_.beams) continue;
      if (c_.stopping == LLMC_BEAMS_FIRST) return ended;
      const bool longest = c_.stopping == LLMC_BEAMS_NEVER && c_.penalty > 0;
      if (!(normal(running[0].score, longest ? c_.max_tokens : length) > ended.back().score))
        return ended;
    }
  }

 private:
  double normal(double score, std::uint32_t length) const {
    return score / std::pow(length, c_.penalty);
  }
  std::vector<std::pair<std::int32_t, double>> next(const Text& text) const {
    const Session session;
    Text tokens = prompt_;
    tokens.insert(tokens.end(), text.begin(), text.end());
    EXPECT_EQ(llmc_prefill(session, tokens.data(), tokens.size(), nullptr), LLMC_OK);
    const float* logits = llmc_logits(session);
    double sum = 0;
    for (std::uint32_t i = 0; i < kVocab; ++i) sum += std::exp(double{logits[i]});
    std::vector<std::pair<std::int32_t, double>> all;
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(kVocab); ++i) {
      double logprob = double{logits[i]} - std::log(sum);
      for (const llmc_logit_bias& bias : c_.biases)
        if (bias.token == i) logprob += double{bias.bias};
      if (logprob > -INFINITY) all.emplace_back(i, logprob);
    }
    return all;
  }

  const Case c_;
  const Text prompt_;
};

class Memory {
 public:
  explicit Memory(const llmc_beam_options& o) : words_(llmc_beams_bytes(&o) / 8) {}
  void* data() { return words_.data(); }
  std::size_t size() const { return words_.size() * 8; }

 private:
  std::vector<std::uint64_t> words_;
};

llmc_model model_for(std::uint32_t beams) {
  return model(Sizes{.sequences = beams + 1, .batch = beams});
}

std::vector<Ended> searched(llmc_session* session, const Case& c) {
  const llmc_beam_options o = options(c);
  Memory memory(o);
  llmc_beams* beams = nullptr;
  EXPECT_EQ(llmc_set_logit_bias(session, c.biases.data(), c.biases.size()), LLMC_OK);
  EXPECT_EQ(llmc_beams_init(memory.data(), memory.size(), session, &o, &beams), LLMC_OK);
  if (beams == nullptr) return {};
  int done = 0;
  std::uint32_t steps = 0;
  while (!done && steps <= c.max_tokens) {
    EXPECT_EQ(llmc_beams_step(beams, &done), LLMC_OK);
    ++steps;
  }
  EXPECT_TRUE(done);
  EXPECT_EQ(llmc_beams_step(beams, &done), LLMC_OK) << "after the end";
  EXPECT_TRUE(done);
  std::vector<Ended> ended;
  for (std::uint32_t i = 0; i < llmc_beams_count(beams); ++i) {
    const std::int32_t* tokens = nullptr;
    std::size_t n = 0;
    float score = 0;
    EXPECT_EQ(llmc_beams_result(beams, i, &tokens, &n, &score), LLMC_OK);
    ended.push_back({{tokens, tokens + n}, double{score}});
  }
  EXPECT_EQ(llmc_beams_result(beams, llmc_beams_count(beams), nullptr, nullptr, nullptr),
            LLMC_ERROR_POSITION);
  EXPECT_EQ(llmc_beams_end(beams), LLMC_OK);
  return ended;
}

void expect_equal(const std::vector<Ended>& found, const std::vector<Ended>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_THAT(found[i].tokens, ElementsAreArray(expected[i].tokens)) << i;
    EXPECT_NEAR(found[i].score, expected[i].score, 1e-5 * (1 + std::abs(expected[i].score))) << i;
  }
}

TEST(Beams, EqualAPlainSearch) {
  std::set<std::size_t> lengths;
  for (const std::uint32_t beams : {1u, 2u, 5u})
    for (const int stopping : {LLMC_BEAMS_LIKELY, LLMC_BEAMS_FIRST, LLMC_BEAMS_NEVER})
      for (const float penalty : {-1.f, 0.f, 0.6f, 1.f, 2.f})
        for (const Text& stops : {Text{}, Text{3}, Text{1, 9, 20, 33, 41}}) {
          const Case c{beams, 10, stopping, penalty, stops};
          const Session session(config(), model_for(beams));
          const Text before = prompt(11);
          ASSERT_EQ(llmc_prefill(session, before.data(), before.size(), nullptr), LLMC_OK);
          const auto found = searched(session, c);
          SCOPED_TRACE(::testing::Message() << beams << " beams, stopping " << stopping
                                            << ", penalty " << penalty << ", " << stops.size());
          expect_equal(found, PlainSearch(c, before).run());
          for (const Ended& text : found) lengths.insert(text.tokens.size());
          EXPECT_TRUE(session.arena.guard_intact());
        }
  EXPECT_GT(lengths.size(), 4u) << "texts of different lengths";
}

TEST(Beams, AddBiases) {
  const Session session(config(), model_for(3));
  const Text before = prompt(5);
  ASSERT_EQ(llmc_prefill(session, before.data(), before.size(), nullptr), LLMC_OK);
  Case c;
  const auto free = searched(session, c);
  const std::int32_t first = free[0].tokens[0];
  c.biases = {{first, -INFINITY}, {7, 3.5f}};
  ASSERT_EQ(llmc_rewind(session, 4), LLMC_OK);
  ASSERT_EQ(llmc_append(session, before[4]), LLMC_OK);
  const auto biased = searched(session, c);
  EXPECT_NE(biased[0].tokens, free[0].tokens);
  expect_equal(biased, PlainSearch(c, before).run());
}

TEST(Beams, LeaveThePromptAndOtherSequences) {
  const Session session(config(), model(Sizes{.sequences = 5, .batch = 3}));
  const Text before = prompt(9);
  std::uint32_t other = 0, chosen = 0;
  ASSERT_EQ(llmc_append(session, 4), LLMC_OK);
  ASSERT_EQ(llmc_new_sequence(session, &other), LLMC_OK);
  ASSERT_EQ(llmc_new_sequence(session, &chosen), LLMC_OK);
  ASSERT_EQ(llmc_release(session, other), LLMC_OK);
  ASSERT_EQ(llmc_select(session, chosen), LLMC_OK);
  ASSERT_EQ(llmc_prefill(session, before.data(), before.size(), nullptr), LLMC_OK);
  const std::size_t blocks = llmc_free_blocks(session);
  const Case c{.max_tokens = 12, .stops = {}};
  expect_equal(searched(session, c), PlainSearch(c, before).run());
  EXPECT_EQ(llmc_selected(session), chosen);
  EXPECT_EQ(llmc_position(session), before.size());
  EXPECT_EQ(llmc_logits(session), nullptr);
  EXPECT_EQ(llmc_free_blocks(session), blocks);
  Text tokens(before.size());
  ASSERT_EQ(llmc_tokens(session, 0, tokens.data(), tokens.size()), LLMC_OK);
  EXPECT_EQ(tokens, before);
  ASSERT_EQ(llmc_select(session, 0), LLMC_OK);
  EXPECT_EQ(llmc_position(session), 1u);
}

TEST(Beams, ContinueAfterACancelledStep) {
  struct Calls {
    std::uint32_t left = 0;
  } calls;
  llmc_config cancelling = config();
  cancelling.cancel_user = &calls;
  cancelling.cancel = [](void* user) { return static_cast<Calls*>(user)->left-- == 0 ? 1 : 0; };
  const Session session(cancelling, model_for(3));
  const Text before = prompt(6);
  calls.left = 1000;
  ASSERT_EQ(llmc_prefill(session, before.data(), before.size(), nullptr), LLMC_OK);
  const Case c{.stops = {}};
  const llmc_beam_options o = options(c);
  Memory memory(o);
  llmc_beams* beams = nullptr;
  ASSERT_EQ(llmc_beams_init(memory.data(), memory.size(), session, &o, &beams), LLMC_OK);
  calls.left = 3;
  int done = 0;
  std::uint32_t cancelled = 0;
  for (int i = 0; i < 30 && !done; ++i) {
    const llmc_status status = llmc_beams_step(beams, &done);
    if (status == LLMC_OK) continue;
    EXPECT_EQ(status, LLMC_ERROR_CANCELLED);
    ++cancelled;
    calls.left = 3;
  }
  ASSERT_TRUE(done);
  EXPECT_EQ(cancelled, 2u);
  const auto expected = PlainSearch(c, before).run();
  const std::int32_t* tokens = nullptr;
  std::size_t n = 0;
  ASSERT_EQ(llmc_beams_result(beams, 0, &tokens, &n, nullptr), LLMC_OK);
  EXPECT_THAT(Text(tokens, tokens + n), ElementsAreArray(expected[0].tokens));
  EXPECT_EQ(llmc_beams_end(beams), LLMC_OK);
}

TEST(Beams, CanBeEndedEarly) {
  const Session session(config(), model_for(4));
  const Text before = prompt(6);
  ASSERT_EQ(llmc_prefill(session, before.data(), before.size(), nullptr), LLMC_OK);
  const std::size_t blocks = llmc_free_blocks(session);
  const llmc_beam_options o = options({.beams = 4, .max_tokens = 30, .stops = {}});
  Memory memory(o);
  llmc_beams* beams = nullptr;
  ASSERT_EQ(llmc_beams_init(memory.data(), memory.size(), session, &o, &beams), LLMC_OK);
  int done = 0;
  for (int i = 0; i < 7; ++i) ASSERT_EQ(llmc_beams_step(beams, &done), LLMC_OK);
  EXPECT_FALSE(done);
  EXPECT_EQ(llmc_beams_count(beams), 0u);
  EXPECT_EQ(llmc_beams_end(beams), LLMC_OK);
  EXPECT_EQ(llmc_position(session), before.size());
  EXPECT_EQ(llmc_free_blocks(session), blocks);
  EXPECT_EQ(llmc_beams_step(beams, &done), LLMC_OK);
  EXPECT_TRUE(done);
}

TEST(Beams, InvalidOnesAreRefused) {
  const Case usual{.beams = 3, .max_tokens = 8};
  const llmc_beam_options good = options(usual);
  Memory memory(good);
  const Session session(config(), model(Sizes{.sequences = 4, .batch = 3}));
  llmc_beams* beams = nullptr;
  const auto init = [&](llmc_session* s, const llmc_beam_options& o) {
    const llmc_status status = llmc_beams_init(memory.data(), memory.size(), s, &o, &beams);
    EXPECT_EQ(beams == nullptr, status != LLMC_OK);
    return status;
  };
  EXPECT_EQ(init(session, good), LLMC_ERROR_NO_LOGITS);
  ASSERT_EQ(llmc_append(session, 4), LLMC_OK);
  EXPECT_EQ(init(session, good), LLMC_OK);
  const auto changed = [&](auto change) {
    llmc_beam_options o = good;
    change(o);
    EXPECT_EQ(llmc_beams_bytes(&o), 0u);
    return init(session, o);
  };
  EXPECT_EQ(changed([](auto& o) { o.size = 1; }), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(changed([](auto& o) { o.beams = 0; }), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(changed([](auto& o) { o.max_tokens = 0; }), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(changed([](auto& o) { o.max_tokens = UINT32_MAX; }), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(changed([](auto& o) { o.stopping = 3; }), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(changed([](auto& o) { o.length_penalty = NAN; }), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(changed([](auto& o) { o.length_penalty = 17; }), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(changed([](auto& o) { o.stop_ids = nullptr; }), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(changed([](auto& o) { o.stop_count = 1001; }), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_beams_bytes(nullptr), 0u);
  EXPECT_EQ(llmc_beams_init(memory.data(), memory.size() - 1, session, &good, &beams),
            LLMC_ERROR_BUFFER);
  EXPECT_EQ(
      llmc_beams_init(static_cast<char*>(memory.data()) + 4, memory.size(), session, &good, &beams),
      LLMC_ERROR_ARGUMENT);
  llmc_beam_options more = good;
  more.beams = 4;
  more.max_tokens = 1;
  EXPECT_EQ(init(session, more), LLMC_ERROR_ARGUMENT) << "larger than the batch";
  std::uint32_t taken = 0;
  ASSERT_EQ(llmc_new_sequence(session, &taken), LLMC_OK);
  EXPECT_EQ(init(session, good), LLMC_OK);
  ASSERT_EQ(llmc_new_sequence(session, &taken), LLMC_OK);
  EXPECT_EQ(init(session, good), LLMC_ERROR_SEQUENCE);
  ASSERT_EQ(llmc_release(session, taken), LLMC_OK);
  const Text almost = prompt(kContext - 8);
  ASSERT_EQ(llmc_prefill(session, almost.data(), almost.size(), nullptr), LLMC_OK);
  EXPECT_EQ(init(session, good), LLMC_OK) << "the last token needs no room";
  ASSERT_EQ(llmc_append(session, 4), LLMC_OK);
  EXPECT_EQ(init(session, good), LLMC_ERROR_CONTEXT_FULL);
  int done = 0;
  EXPECT_EQ(llmc_beams_step(nullptr, &done), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_beams_end(nullptr), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_beams_count(nullptr), 0u);
}

}  // namespace
}  // namespace llmc::fake
