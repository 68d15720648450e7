#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "tests/runtime/core/fake_model.h"

namespace llmc::fake {
namespace {

/// Everything an application can see of a session, and what it would do next.
std::uint64_t observed(llmc_session* s) {
  std::uint64_t sum = mix(llmc_position(s), 3);
  sum = mix(sum, hash_logits(llmc_logits(s)));
  std::int32_t token = -1;
  sum = mix(sum, static_cast<std::uint64_t>(llmc_sample(s, &token)));
  return mix(sum, static_cast<std::uint64_t>(token));
}

std::uint64_t hash_after(const std::vector<std::int32_t>& tokens, llmc_config c = config()) {
  Session s(c);
  EXPECT_EQ(s.status, LLMC_OK);
  EXPECT_EQ(llmc_prefill(s, tokens.data(), tokens.size(), nullptr), LLMC_OK);
  EXPECT_TRUE(s.arena.guard_intact());
  return hash_logits(llmc_logits(s));
}

TEST(Session, StartsEmpty) {
  Session s;
  ASSERT_EQ(s.status, LLMC_OK);
  EXPECT_EQ(llmc_position(s), 0u);
  EXPECT_EQ(llmc_context_size(s), kContext);
  EXPECT_EQ(llmc_chunk_size(s), kChunk);
  EXPECT_EQ(llmc_vocabulary_size(s), kVocab);
  EXPECT_EQ(llmc_thread_count(s), 1u);
  EXPECT_EQ(llmc_last_chunk(s), 0u);
  EXPECT_EQ(llmc_logits(s), nullptr);
  std::int32_t token = -7;
  EXPECT_EQ(llmc_sample(s, &token), LLMC_ERROR_NO_LOGITS);
  EXPECT_EQ(llmc_step(s, &token), LLMC_ERROR_NO_LOGITS);
  EXPECT_EQ(token, -7);
  EXPECT_EQ(llmc_prefill(s, nullptr, 0, nullptr), LLMC_OK);
  EXPECT_EQ(llmc_logits(s), nullptr);
}

TEST(Session, ChunksDoNotChangeLogits) {
  const auto tokens = prompt(40);
  const std::uint64_t expected = hash_after(tokens);
  for (const std::uint32_t chunk : {1u, 2u, 3u, 6u, 7u, 100u}) {
    llmc_config c = config();
    c.chunk = chunk;
    EXPECT_EQ(hash_after(tokens, c), expected) << chunk;
  }
  Session s;
  for (std::size_t i = 0; i < tokens.size();) {  // split over calls of 0, 1, 2, … tokens
    const std::size_t n = std::min<std::size_t>(i % 9, tokens.size() - i);
    ASSERT_EQ(llmc_prefill(s, tokens.data() + i, n, nullptr), LLMC_OK);
    i += n;
    if (n == 0) {
      ASSERT_EQ(llmc_append(s, tokens[i]), LLMC_OK);
      ++i;
    }
  }
  EXPECT_EQ(hash_logits(llmc_logits(s)), expected);
}

TEST(Session, ChunksKnowTheLastPositionOfTheirCall) {
  static std::vector<std::uint32_t> last;
  last.clear();
  llmc_model m = model();
  m.forward = [](const llmc_run* run) {
    for (std::uint32_t i = 0; i < run->segment_count; ++i) last.push_back(run->segments[i].last);
  };
  m.head = [](const llmc_run*, const float*, std::uint32_t, float*, std::uint32_t* best) {
    *best = 0;
  };
  Session s(config(), m);
  ASSERT_EQ(s.status, LLMC_OK);
  const auto tokens = prompt(10);
  ASSERT_EQ(llmc_prefill(s, tokens.data(), 3, nullptr), LLMC_OK);
  ASSERT_EQ(llmc_prefill(s, tokens.data(), 10, nullptr), LLMC_OK);
  ASSERT_EQ(llmc_prefill(s, tokens.data(), 1, nullptr), LLMC_OK);
  EXPECT_EQ(last, (std::vector<std::uint32_t>{2, 12, 12, 13}));
}

TEST(Session, WorkerSlotsDoNotChangeLogits) {
  const auto tokens = prompt(40);
  const std::uint64_t expected = hash_after(tokens);
  for (std::uint32_t threads = 1; threads <= kThreadsMax; ++threads) {
    llmc_config c = config();
    c.threads = threads;
    EXPECT_EQ(hash_after(tokens, c), expected);
  }
}

TEST(Session, StepIsSampleThenAppend) {
  const auto tokens = prompt(5);
  Session a;
  Session b;
  ASSERT_EQ(llmc_prefill(a, tokens.data(), tokens.size(), nullptr), LLMC_OK);
  ASSERT_EQ(llmc_prefill(b, tokens.data(), tokens.size(), nullptr), LLMC_OK);
  for (int i = 0; i < 30; ++i) {
    std::int32_t step = -1;
    std::int32_t sampled = -2;
    ASSERT_EQ(llmc_step(a, &step), LLMC_OK);
    ASSERT_EQ(llmc_sample(b, &sampled), LLMC_OK);
    ASSERT_EQ(llmc_append(b, sampled), LLMC_OK);
    ASSERT_EQ(step, sampled);
  }
  EXPECT_EQ(observed(a), observed(b));
  EXPECT_EQ(llmc_position(a), 35u);
}

TEST(Session, RewoundSequenceContinuesAsIfNeverRun) {
  const auto tokens = prompt(40);
  Session s;
  ASSERT_EQ(llmc_prefill(s, tokens.data(), 33, nullptr), LLMC_OK);
  for (const std::size_t to : {33u, 32u, 20u, 16u, 15u, 1u, 0u}) {
    ASSERT_EQ(llmc_rewind(s, to), LLMC_OK);
    EXPECT_EQ(llmc_position(s), to);
    if (to < 33) {
      EXPECT_EQ(llmc_logits(s), nullptr);
      EXPECT_EQ(llmc_last_chunk(s), 0u);
    } else {
      EXPECT_NE(llmc_logits(s), nullptr);
    }
    std::vector<std::int32_t> changed(tokens.begin(), tokens.begin() + 33);
    for (std::size_t i = to; i < changed.size(); ++i) changed[i] = (changed[i] + 1) % kVocab;
    if (to < 33) {
      ASSERT_EQ(llmc_prefill(s, changed.data() + to, 33 - to, nullptr), LLMC_OK);
    }
    EXPECT_EQ(hash_logits(llmc_logits(s)), hash_after(changed)) << to;
    ASSERT_EQ(llmc_rewind(s, to), LLMC_OK);
    if (to < 33) {
      ASSERT_EQ(llmc_prefill(s, tokens.data() + to, 33 - to, nullptr), LLMC_OK);
    }
  }
  EXPECT_EQ(llmc_rewind(s, 34), LLMC_ERROR_POSITION);
  EXPECT_EQ(llmc_position(s), 33u);
  EXPECT_EQ(llmc_reset(s), LLMC_OK);
  EXPECT_EQ(llmc_position(s), 0u);
}

TEST(Session, FullContextIsAStatus) {
  const auto tokens = prompt(kContext + 1);
  Session s;
  std::size_t done = 99;
  EXPECT_EQ(llmc_prefill(s, tokens.data(), kContext + 1, &done), LLMC_ERROR_CONTEXT_FULL);
  EXPECT_EQ(done, 0u);
  EXPECT_EQ(llmc_position(s), 0u);
  ASSERT_EQ(llmc_prefill(s, tokens.data(), kContext, &done), LLMC_OK);
  EXPECT_EQ(done, kContext);
  const std::uint64_t before = observed(s);
  std::int32_t token = -7;
  EXPECT_EQ(llmc_step(s, &token), LLMC_ERROR_CONTEXT_FULL);
  EXPECT_EQ(token, -7);
  EXPECT_EQ(llmc_append(s, 1), LLMC_ERROR_CONTEXT_FULL);
  EXPECT_EQ(llmc_sample(s, &token), LLMC_OK);  // the last token can still be had
  EXPECT_EQ(observed(s), before);
  ASSERT_EQ(llmc_rewind(s, kContext - 1), LLMC_OK);
  EXPECT_EQ(llmc_append(s, tokens[kContext - 1]), LLMC_OK);
  EXPECT_EQ(observed(s), before);
  EXPECT_TRUE(s.arena.guard_intact());
}

TEST(Session, BadTokenIdsChangeNothing) {
  const auto tokens = prompt(10);
  std::vector<std::string> log;
  llmc_config c = config();
  c.log = [](void* user, int, const char* text) {
    static_cast<std::vector<std::string>*>(user)->emplace_back(text);
  };
  c.log_user = &log;
  Session s(c);
  ASSERT_EQ(llmc_prefill(s, tokens.data(), 10, nullptr), LLMC_OK);
  const std::uint64_t before = observed(s);
  for (const std::int32_t bad : {-1, INT32_MIN, INT32_MAX, static_cast<std::int32_t>(kVocab)}) {
    auto spoiled = prompt(20);
    spoiled[19] = bad;
    std::size_t done = 1;
    EXPECT_EQ(llmc_prefill(s, spoiled.data(), 20, &done), LLMC_ERROR_TOKEN);
    EXPECT_EQ(done, 0u);
    EXPECT_EQ(llmc_append(s, bad), LLMC_ERROR_TOKEN);
    EXPECT_EQ(observed(s), before);
    EXPECT_EQ(llmc_last_chunk(s), 3u);
  }
  ASSERT_EQ(log.size(), 8u);
  EXPECT_EQ(log[0], "token -1 at index 19 is outside the vocabulary of 50");
}

struct Canceller {
  int calls_left = 0;
  std::size_t done = 0;
  std::vector<std::size_t> progress;
};

TEST(Session, CancelledPromptIsRolledBack) {
  const auto tokens = prompt(40);
  for (int after = 0; after < 5; ++after) {
    Canceller canceller;
    canceller.calls_left = 1000;
    llmc_config c = config();
    c.cancel = [](void* user) {
      auto& self = *static_cast<Canceller*>(user);
      self.progress.push_back(self.done);
      return static_cast<int>(self.calls_left-- <= 0);
    };
    c.cancel_user = &canceller;
    Session s(c);
    ASSERT_EQ(llmc_prefill(s, tokens.data(), 9, nullptr), LLMC_OK);
    const std::uint64_t before = observed(s);
    ASSERT_NE(llmc_logits_at(s, 0), nullptr);  // the rollback must bring row 1 back
    canceller = {.calls_left = after, .done = 0, .progress = {}};
    EXPECT_EQ(llmc_prefill(s, tokens.data() + 9, 31, &canceller.done), LLMC_ERROR_CANCELLED);
    EXPECT_EQ(canceller.done, 0u);
    EXPECT_EQ(canceller.progress.size(), static_cast<std::size_t>(after) + 1);
    EXPECT_EQ(canceller.progress.back(), static_cast<std::size_t>(after) * kChunk);
    EXPECT_EQ(observed(s), before);
    EXPECT_EQ(llmc_last_chunk(s), after == 0 ? 2u : 0u);
    canceller.calls_left = 0;
    std::int32_t token = -7;
    EXPECT_EQ(llmc_step(s, &token), LLMC_ERROR_CANCELLED);
    EXPECT_EQ(token, -7);
    EXPECT_EQ(observed(s), before);
    canceller.calls_left = 1000;
    ASSERT_EQ(llmc_prefill(s, tokens.data() + 9, 31, nullptr), LLMC_OK);
    EXPECT_EQ(hash_logits(llmc_logits(s)), hash_after(tokens));
  }
}

TEST(Session, LogitsOfAnyRowOfTheLastChunk) {
  const auto tokens = prompt(20);
  Session s;
  ASSERT_EQ(llmc_prefill(s, tokens.data(), 20, nullptr), LLMC_OK);
  ASSERT_EQ(llmc_last_chunk(s), 6u);
  const std::uint64_t before = observed(s);
  for (const std::size_t row : {0u, 5u, 3u, 3u, 1u}) {
    const std::vector<std::int32_t> head(tokens.begin(),
                                         tokens.begin() + 15 + static_cast<long>(row));
    EXPECT_EQ(hash_logits(llmc_logits_at(s, row)), hash_after(head)) << row;
  }
  EXPECT_EQ(llmc_logits_at(s, 6), nullptr);
  EXPECT_EQ(observed(s), before);  // sampling looks at the last row again
}

TEST(Session, SamplingRepeatsAfterARewind) {
  llmc_config c = config();
  llmc_sampling_defaults(&c.sampling);
  c.sampling.seed = 99;
  Session s(c);
  const auto tokens = prompt(5);
  std::vector<std::vector<std::int32_t>> runs;
  for (const std::uint64_t seed : {99u, 99u, 100u}) {
    c.sampling.seed = seed;
    ASSERT_EQ(llmc_set_sampling(s, &c.sampling), LLMC_OK);
    ASSERT_EQ(llmc_reset(s), LLMC_OK);
    ASSERT_EQ(llmc_prefill(s, tokens.data(), 5, nullptr), LLMC_OK);
    runs.emplace_back();
    for (int i = 0; i < 30; ++i) {
      std::int32_t token = 0;
      ASSERT_EQ(llmc_step(s, &token), LLMC_OK);
      runs.back().push_back(token);
    }
  }
  EXPECT_EQ(runs[0], runs[1]);
  EXPECT_NE(runs[0], runs[2]);
}

TEST(Session, NullPointersAreRefused) {
  Session s;
  std::int32_t token = 0;
  EXPECT_EQ(llmc_prefill(nullptr, &token, 1, nullptr), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_prefill(s, nullptr, 1, nullptr), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_step(s, nullptr), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_step(nullptr, &token), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_sample(s, nullptr), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_append(nullptr, 1), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_rewind(nullptr, 0), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_reset(nullptr), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_set_sampling(nullptr, nullptr), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_logits(nullptr), nullptr);
  EXPECT_EQ(llmc_logits_at(nullptr, 0), nullptr);
  EXPECT_EQ(llmc_position(nullptr), 0u);
  llmc_sampling_defaults(nullptr);
}

TEST(Status, EveryStatusHasItsText) {
  std::vector<std::string> seen;
  for (int i = 0; i < 64; ++i) {
    const std::string text = llmc_status_text(static_cast<llmc_status>(i));
    if (i <= LLMC_ERROR_STATE_MODEL || (i >= LLMC_ERROR_NO_CANDIDATE && i <= LLMC_ERROR_SHARD) ||
        (i >= LLMC_ERROR_FILE && i <= LLMC_ERROR_BUFFER)) {
      EXPECT_NE(text, "unknown status") << i;
      EXPECT_EQ(std::count(seen.begin(), seen.end(), text), 0) << text;
    } else {
      EXPECT_EQ(text, "unknown status") << i;
    }
    seen.push_back(text);
  }
}

}  // namespace
}  // namespace llmc::fake
