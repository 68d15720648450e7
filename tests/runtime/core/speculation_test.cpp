// llmc_step_draft and llmc_step_lookup give the tokens, logits and cache of llmc_step.
#include "llmc/speculation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "runtime/core/session.h"
#include "tests/runtime/core/stepped_model.h"

namespace llmc::fake {
namespace {

using Ids = std::vector<std::int32_t>;

/// Biases with which only `count` tokens are possible, so that texts repeat themselves.
std::vector<llmc_logit_bias> only_first(std::int32_t count) {
  std::vector<llmc_logit_bias> biases;
  for (std::int32_t token = count; token < static_cast<std::int32_t>(kVocab); ++token)
    biases.push_back({token, -std::numeric_limits<float>::infinity()});
  return biases;
}

/// The sampling parameters that the tests compare.
std::vector<llmc_sampling> samplings() {
  llmc_sampling greedy{}, warm{}, penalties{}, mirostat{};
  warm.temperature = 1.5f;
  warm.top_k = 8;
  warm.seed = 11;
  penalties.temperature = 0.7f;
  penalties.repeat_last_n = -1;
  penalties.frequency_penalty = 0.3f;
  penalties.seed = 12;
  mirostat.temperature = 1.0f;
  mirostat.mirostat = 2;
  mirostat.mirostat_lr = 0.1f;
  mirostat.mirostat_ent = 3.0f;
  return {greedy, warm, penalties, mirostat};
}

/// The tokens that were generated, and those in the cache at the end.
struct GeneratedText {
  Ids tokens, cached;
  std::vector<std::uint64_t> logits;  // after each call
  std::size_t calls = 0;

  /// Returns whether tokens, cache and the last logits are the same.
  bool same_as(const GeneratedText& steps) const {
    if (tokens != steps.tokens || cached != steps.cached) return false;
    return logits.back() == steps.logits.back();
  }
};

GeneratedText text_in(llmc_session* s, GeneratedText text) {
  text.cached.resize(llmc_position(s));
  EXPECT_EQ(llmc_tokens(s, 0, text.cached.data(), text.cached.size()), LLMC_OK);
  return text;
}

void start_text(llmc_session* s, const Ids& ids, const llmc_sampling& sampling,
                const std::vector<llmc_logit_bias>& biases) {
  ASSERT_EQ(llmc_set_sampling(s, &sampling), LLMC_OK);
  ASSERT_EQ(llmc_set_logit_bias(s, biases.data(), biases.size()), LLMC_OK);
  ASSERT_EQ(llmc_prefill(s, ids.data(), ids.size(), nullptr), LLMC_OK);
}

GeneratedText with_steps(llmc_session* s, std::size_t count) {
  GeneratedText text;
  while (text.tokens.size() < count) {
    std::int32_t token = -1;
    EXPECT_EQ(llmc_step(s, &token), LLMC_OK);
    text.tokens.push_back(token);
    text.logits.push_back(hash_logits(llmc_logits(s)));
  }
  text.calls = count;
  return text_in(s, std::move(text));
}

/// `advance(most, tokens, &taken)` is a call that appends up to `most` tokens.
template <class Advance>
GeneratedText with_calls(llmc_session* s, std::size_t count, const GeneratedText& steps,
                         Advance advance) {
  GeneratedText text;
  while (text.tokens.size() < count) {
    std::int32_t tokens[kChunk + 3];
    std::size_t taken = 99;
    const std::size_t most = std::min<std::size_t>(kChunk + 3, count - text.tokens.size());
    EXPECT_EQ(advance(most, tokens, &taken), LLMC_OK);
    if (taken < 1 || taken > most) {
      ADD_FAILURE() << taken << " tokens of at most " << most;
      break;
    }
    text.tokens.insert(text.tokens.end(), tokens, tokens + taken);
    text.logits.push_back(hash_logits(llmc_logits(s)));
    EXPECT_EQ(text.logits.back(), steps.logits[text.tokens.size() - 1]);
    EXPECT_EQ(llmc_last_chunk(s), taken);
    for (std::size_t row = 0; row < taken; ++row)
      EXPECT_EQ(hash_logits(llmc_logits_at(s, row)),
                steps.logits[text.tokens.size() - taken + row]);
    ++text.calls;
  }
  return text_in(s, std::move(text));
}

TEST(Speculation, DraftsGiveTheTokensAndLogitsOfSteps) {
  std::mt19937 random(3);
  for (const std::uint32_t batch : {1u, 4u, kChunk}) {
    for (const llmc_sampling& sampling : samplings()) {
      for (const std::int32_t wrong_percent : {0, 20, 60, 100}) {
        constexpr std::size_t kCount = 33;
        const Session plain, s(config(), model({.batch = batch}));
        start_text(plain, prompt(4), sampling, {});
        start_text(s, prompt(4), sampling, {});
        const GeneratedText steps = with_steps(plain, kCount);
        const auto advance = [&](std::size_t most, std::int32_t* tokens, std::size_t* taken) {
          const std::size_t at = llmc_position(s) - 4;
          Ids draft(steps.tokens.begin() + std::ptrdiff_t(at),
                    steps.tokens.begin() + std::ptrdiff_t(at + most));
          for (std::int32_t& token : draft)
            if (static_cast<std::int32_t>(random() % 100) < wrong_percent)
              token = static_cast<std::int32_t>((std::uint32_t(token) + 1) % kVocab);
          return llmc_step_draft(s, draft.data(), draft.size(), nullptr, 0, tokens, taken);
        };
        const GeneratedText drafted = with_calls(s, kCount, steps, advance);
        EXPECT_TRUE(drafted.same_as(steps)) << "batch " << batch << ", " << wrong_percent << " %";
        if (sampling.mirostat != 0 || wrong_percent == 100) {
          EXPECT_EQ(drafted.calls, kCount);
        } else if (wrong_percent == 0) {
          EXPECT_EQ(drafted.calls, (kCount + kChunk - 1) / kChunk);
        }
        EXPECT_TRUE(s.arena.guard_intact());
      }
    }
  }
}

TEST(Speculation, LookupGivesTheTokensAndLogitsOfStepsInFewerPasses) {
  const std::vector<llmc_logit_bias> two = only_first(2);
  for (const std::uint32_t batch : {1u, 4u, kChunk}) {
    for (const llmc_sampling& sampling : samplings()) {
      constexpr std::size_t kCount = 41;
      const Session plain, s(config(), model({.batch = batch}));
      start_text(plain, prompt(4), sampling, two);
      start_text(s, prompt(4), sampling, two);
      const GeneratedText steps = with_steps(plain, kCount);
      const GeneratedText looked =
          with_calls(s, kCount, steps, [&](std::size_t most, std::int32_t* tokens, auto* taken) {
            return llmc_step_lookup(s, most, nullptr, 0, tokens, taken);
          });
      EXPECT_TRUE(looked.same_as(steps)) << "batch " << batch;
      if (sampling.mirostat == 0) {
        EXPECT_LT(looked.calls, kCount);
      }
    }
  }
}

TEST(Speculation, LookupDraftsWhatFollowedTheSameTokens) {
  // Only one token is possible. Drafts begin after the third, and their length doubles.
  const std::vector<llmc_logit_bias> one = only_first(1);
  const Session plain, s(config(), model({.batch = kChunk}));
  const Ids others{1, 2, 3, 4};
  start_text(plain, others, {}, one);
  start_text(s, others, {}, one);
  const GeneratedText steps = with_steps(plain, 3 + 2 + 3 + 5 + kChunk);
  const GeneratedText looked = with_calls(
      s, 3 + 2 + 3 + 5 + kChunk, steps, [&](std::size_t most, std::int32_t* tokens, auto* taken) {
        return llmc_step_lookup(s, most, nullptr, 0, tokens, taken);
      });
  EXPECT_TRUE(looked.same_as(steps));
  EXPECT_EQ(looked.calls, 3u + 4);
}

TEST(Speculation, LookupWaitsAfterRejectedDrafts) {
  // Tokens at random: about half of the drafted ones are rejected.
  llmc_model m = model({.batch = kChunk});
  static std::vector<std::uint32_t> rows;
  rows.clear();
  m.forward = [](const llmc_run* run) {
    rows.push_back(run->count);
    forward<kBlock>(run);
  };
  const Session s(config(), m);
  llmc_sampling random{};
  random.temperature = 100.0f;  // 0 and 1 are about equally likely
  random.seed = 5;
  const std::vector<llmc_logit_bias> two = only_first(2);
  start_text(s, prompt(4), random, two);
  std::vector<bool> accepted;
  for (std::int32_t tokens[kChunk]; llmc_position(s) + kChunk < kContext;) {
    std::size_t taken = 0;
    ASSERT_EQ(llmc_step_lookup(s, kChunk, nullptr, 0, tokens, &taken), LLMC_OK);
    accepted.push_back(taken > 1);
  }
  // After n rejected drafts in a row, 2^(n - 1) passes have a single row.
  std::uint32_t wait = 0, backoff = 0, waited = 0;
  for (std::size_t i = 0; i < accepted.size(); ++i) {
    const std::uint32_t count = rows[i + 1];  // the first is the prompt's
    if (wait > 0) {
      EXPECT_EQ(count, 1u) << i;
      --wait;
      ++waited;
    } else if (count > 1) {
      backoff = accepted[i] ? 0 : backoff == 0 ? 1 : 2 * backoff;
      wait = backoff;
    }
  }
  EXPECT_GT(std::ranges::count(accepted, true), 0);
  EXPECT_GT(waited, 2u);
}

TEST(Speculation, AStopTokenEndsTheTokensAndIsNotAppended) {
  const Session plain;
  start_text(plain, prompt(4), {}, {});
  const GeneratedText steps = with_steps(plain, 6);
  const Ids& text = steps.tokens;
  // Drafted or not, and as the first token.
  for (const std::size_t wrong_from : {1u, 3u, 6u}) {
    for (const std::size_t stop : {0u, 2u}) {
      const Session s(config(), model({.batch = kChunk}));
      start_text(s, prompt(4), {}, {});
      Ids draft = text;
      for (std::size_t i = wrong_from; i < draft.size(); ++i) draft[i] = (draft[i] + 1) % 50;
      const std::int32_t stops[] = {49, text[stop]};
      const auto first = std::find(text.begin(), text.end(), text[stop]) - text.begin();
      Ids got;
      for (bool ended = false; !ended;) {
        std::int32_t tokens[6];
        std::size_t taken = 0;
        const std::size_t at = llmc_position(s) - 4;
        ASSERT_EQ(llmc_step_draft(s, draft.data() + at, 6 - at, stops, 2, tokens, &taken), LLMC_OK);
        got.insert(got.end(), tokens, tokens + taken);
        ended = got.back() == text[stop];
      }
      EXPECT_EQ(got, Ids(text.begin(), text.begin() + first + 1));
      EXPECT_EQ(llmc_position(s), 4u + static_cast<std::size_t>(first));
      std::int32_t next = -1;
      ASSERT_EQ(llmc_sample(s, &next), LLMC_OK);
      EXPECT_EQ(next, text[stop]);
    }
  }
}

TEST(Speculation, GuidedTextsTakeSingleSteps) {
  const llmc_model m = model({.sequences = 2, .batch = 3});
  const Session plain(config(), m), s(config(), m);
  for (llmc_session* session : {plain.session, s.session}) {
    start_text(session, prompt(4), {}, {});
    std::uint32_t guide = 0;
    ASSERT_EQ(llmc_fork(session, 0, &guide), LLMC_OK);
    ASSERT_EQ(llmc_select(session, guide), LLMC_OK);
    ASSERT_EQ(llmc_append(session, 7), LLMC_OK);
    ASSERT_EQ(llmc_select(session, 0), LLMC_OK);
    ASSERT_EQ(llmc_set_guidance(session, guide, 2.0f), LLMC_OK);
  }
  for (int i = 0; i < 8; ++i) {
    std::int32_t expected = -1, tokens[5];
    std::size_t taken = 0;
    ASSERT_EQ(llmc_step(plain, &expected), LLMC_OK);
    const Ids draft{expected, 1, 2, 3, 4};
    ASSERT_EQ(llmc_step_draft(s, draft.data(), 5, nullptr, 0, tokens, &taken), LLMC_OK);
    ASSERT_EQ(taken, 1u);
    EXPECT_EQ(tokens[0], expected);
    EXPECT_EQ(hash_logits(llmc_logits(s)), hash_logits(llmc_logits(plain)));
  }
}

TEST(Speculation, EncoderDecodersAttendToTheirSource) {
  const llmc_model m = model({.batch = 4, .source = 5});
  const Session plain(config(), m), s(config(), m);
  const Ids source{7, 8, 9};
  for (llmc_session* session : {plain.session, s.session}) {
    ASSERT_EQ(llmc_encode(session, source.data(), source.size()), LLMC_OK);
    start_text(session, prompt(4), {}, {});
  }
  const GeneratedText steps = with_steps(plain, 12);
  const GeneratedText drafted =
      with_calls(s, 12, steps, [&](std::size_t most, std::int32_t* tokens, auto* taken) {
        const std::int32_t* draft = steps.tokens.data() + llmc_position(s) - 4;
        return llmc_step_draft(s, draft, most, nullptr, 0, tokens, taken);
      });
  EXPECT_TRUE(drafted.same_as(steps));
  EXPECT_EQ(drafted.calls, 2u);
}

TEST(Speculation, EmbeddingsAreNotDrafted) {
  // The tokens 1 2 3 were followed by an embedding.
  const Session s(config(), model({.batch = 4}));
  const Ids before{1, 2, 3}, after{4, 1, 2};
  const std::vector<float> row = rows_of({5});
  ASSERT_EQ(llmc_prefill(s, before.data(), 3, nullptr), LLMC_OK);
  ASSERT_EQ(llmc_append_embeddings(s, row.data(), 1, nullptr), LLMC_OK);
  ASSERT_EQ(llmc_prefill(s, after.data(), 3, nullptr), LLMC_OK);
  std::vector<llmc_logit_bias> three = only_first(4);
  for (const std::int32_t token : {0, 1, 2})
    three.push_back({token, -std::numeric_limits<float>::infinity()});
  ASSERT_EQ(llmc_set_logit_bias(s, three.data(), three.size()), LLMC_OK);
  std::int32_t tokens[4];
  std::size_t taken = 0;
  ASSERT_EQ(llmc_step_lookup(s, 4, nullptr, 0, tokens, &taken), LLMC_OK);
  EXPECT_EQ(taken, 1u);
  EXPECT_EQ(tokens[0], 3);
}

TEST(Speculation, SingleTokensLeaveTheLogitsOfOtherSequences) {
  llmc_model m = model({.sequences = 2, .batch = 2});
  static std::uint32_t heads;
  heads = 0;
  m.head = [](const llmc_run* run, const float* rows, std::uint32_t count, float* logits,
              std::uint32_t* best) {
    heads += count;
    head(run, rows, count, logits, best);
  };
  const Session s(config(), m);
  start_text(s, prompt(4), {}, {});
  std::uint32_t fork = 0;
  ASSERT_EQ(llmc_fork(s, 0, &fork), LLMC_OK);
  const std::uint32_t before = heads;
  for (std::uint32_t i = 0; i < 10; ++i) {
    std::int32_t token = -1;
    std::size_t taken = 0;
    ASSERT_EQ(llmc_select(s, i % 2 == 0 ? 0 : fork), LLMC_OK);
    ASSERT_EQ(llmc_step_draft(s, nullptr, 0, nullptr, 0, &token, &taken), LLMC_OK);
  }
  EXPECT_LE(heads, before + 11);  // the fork's first one is computed again
}

TEST(Speculation, ForksKeepTheirTokensAndSurplusBlocksAreFree) {
  const Session s(config(), model({.sequences = 2, .batch = 4}));
  const llmc_sampling greedy{};
  start_text(s, prompt(4), greedy, {});
  std::uint32_t fork = 0;
  ASSERT_EQ(llmc_fork(s, 0, &fork), LLMC_OK);
  const std::size_t free = llmc_free_blocks(s);
  const Ids wrong = prompt(7);
  std::int32_t tokens[7];
  std::size_t taken = 0;
  ASSERT_EQ(llmc_step_draft(s, wrong.data(), 7, nullptr, 0, tokens, &taken), LLMC_OK);
  ASSERT_EQ(taken, 1u);
  EXPECT_EQ(llmc_free_blocks(s), free - 1);  // the copy of the block that the fork shares
  const Session plain;
  start_text(plain, prompt(4), greedy, {});
  const GeneratedText steps = with_steps(plain, 1);
  EXPECT_EQ(tokens[0], steps.tokens[0]);
  EXPECT_EQ(hash_logits(llmc_logits(s)), steps.logits[0]);
  ASSERT_EQ(llmc_select(s, fork), LLMC_OK);
  EXPECT_EQ(with_steps(s, 1).logits, steps.logits);
}

TEST(Speculation, TakesFewerTokensWhereThePoolOrTheContextEnds) {
  const llmc_sampling greedy{};
  const Session plain;
  start_text(plain, prompt(4), greedy, {});
  const GeneratedText steps = with_steps(plain, kContext - 4);
  std::int32_t tokens[9];
  std::size_t taken = 0;
  const auto draft = [&](llmc_session* s) {
    const std::size_t at = llmc_position(s) - 4;
    Ids rest(steps.tokens.begin() + std::ptrdiff_t(at), steps.tokens.end());
    rest.resize(std::min<std::size_t>(rest.size(), 7));
    return llmc_step_draft(s, rest.data(), rest.size(), nullptr, 0, tokens, &taken);
  };
  const Session s(config(), model({.batch = 4}));
  start_text(s, prompt(4), greedy, {});
  Ids text;
  while (llmc_position(s) < kContext) {
    ASSERT_EQ(draft(s), LLMC_OK);
    text.insert(text.end(), tokens, tokens + taken);
  }
  EXPECT_EQ(text, steps.tokens);
  EXPECT_EQ(draft(s), LLMC_ERROR_CONTEXT_FULL);
  EXPECT_EQ(taken, 0u);

  // Two blocks of 8 tokens: the last draft has room for its first token only.
  const Session small(config(), model({.batch = 4, .pool = 2}));
  start_text(small, prompt(4), greedy, {});
  while (llmc_position(small) < 16) ASSERT_EQ(draft(small), LLMC_OK);
  EXPECT_EQ(draft(small), LLMC_ERROR_POOL_FULL);
  EXPECT_EQ(taken, 0u);
  EXPECT_EQ(hash_logits(llmc_logits(small)), steps.logits[11]);
}

TEST(Speculation, ModelsWithStatesOrLengthsTakeSingleSteps) {
  const llmc_sampling greedy{};
  llmc_model by_length = model({.batch = 4});
  by_length.by_length = 1;
  for (const llmc_model& m : {model({.batch = 4, .recurrent = true}), by_length}) {
    const Session plain(config(), m), s(config(), m);
    start_text(plain, prompt(4), greedy, {});
    start_text(s, prompt(4), greedy, {});
    const GeneratedText steps = with_steps(plain, 6);
    std::int32_t tokens[6];
    std::size_t taken = 0;
    ASSERT_EQ(llmc_step_draft(s, steps.tokens.data(), 6, nullptr, 0, tokens, &taken), LLMC_OK);
    EXPECT_EQ(taken, 1u);
    EXPECT_EQ(tokens[0], steps.tokens[0]);
    EXPECT_EQ(hash_logits(llmc_logits(s)), steps.logits[0]);
  }
}

TEST(Speculation, WrongArgumentsChangeNothing) {
  const Session s;
  const llmc_sampling greedy{};
  const std::int32_t bad[] = {1, static_cast<std::int32_t>(kVocab)};
  std::int32_t tokens[2];
  std::size_t taken = 7;
  EXPECT_EQ(llmc_step_lookup(s, 2, nullptr, 0, tokens, &taken), LLMC_ERROR_NO_LOGITS);
  EXPECT_EQ(taken, 0u);
  start_text(s, prompt(4), greedy, {});
  const std::uint64_t logits = hash_logits(llmc_logits(s));
  EXPECT_EQ(llmc_step_draft(s, bad, 2, nullptr, 0, tokens, &taken), LLMC_ERROR_TOKEN);
  EXPECT_EQ(llmc_step_draft(s, nullptr, 2, nullptr, 0, tokens, &taken), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_step_draft(s, bad, 1, nullptr, 1, tokens, &taken), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_step_draft(s, bad, 1, nullptr, 0, nullptr, &taken), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_step_draft(s, bad, 1, nullptr, 0, tokens, nullptr), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_step_draft(nullptr, bad, 1, nullptr, 0, tokens, &taken), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_step_lookup(s, 0, nullptr, 0, tokens, &taken), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_step_lookup(nullptr, 2, nullptr, 0, tokens, &taken), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_position(s), 4u);
  EXPECT_EQ(hash_logits(llmc_logits(s)), logits);
}

TEST(Speculation, ACancelledCallChangesNothing) {
  static int cancelled;
  cancelled = 0;
  llmc_config c = config();
  c.cancel = [](void*) { return cancelled; };
  const Session s(c, model({.batch = 4}));
  start_text(s, prompt(4), {}, {});
  const std::uint64_t logits = hash_logits(llmc_logits(s));
  const std::size_t free = llmc_free_blocks(s);
  const Ids draft = prompt(5);
  std::int32_t tokens[5];
  std::size_t taken = 7;
  cancelled = 1;
  EXPECT_EQ(llmc_step_draft(s, draft.data(), 5, nullptr, 0, tokens, &taken), LLMC_ERROR_CANCELLED);
  EXPECT_EQ(taken, 0u);
  EXPECT_EQ(llmc_position(s), 4u);
  EXPECT_EQ(llmc_free_blocks(s), free);
  EXPECT_EQ(hash_logits(llmc_logits(s)), logits);
}

}  // namespace
}  // namespace llmc::fake
