#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <vector>

#include "runtime/core/checksum.h"
#include "runtime/core/history.h"
#include "tests/runtime/core/compiled_prompt.h"
#include "tests/runtime/core/plain_model.h"

namespace llmc::fake {
namespace {

using Bytes = std::vector<unsigned char>;

Bytes saved(llmc_session* s) {
  Bytes state(llmc_state_bytes(s), 0xAB);
  std::size_t written = 0;
  EXPECT_EQ(llmc_state_save(s, state.data(), state.size(), &written), LLMC_OK);
  EXPECT_EQ(written, state.size());
  return state;
}

llmc_state_header header_of(const Bytes& state) {
  llmc_state_header header;
  std::memcpy(&header, state.data(), sizeof header);
  return header;
}

/// With the checksum that belongs to the other bytes: what a liar would write.
Bytes forged(Bytes state, const llmc_state_header& header) {
  std::memcpy(state.data(), &header, std::min(sizeof header, state.size()));
  const std::uint64_t start = core::checksum(state.data(), 8, 0);
  const std::uint64_t sum = core::checksum(state.data() + 16, state.size() - 16, start);
  std::memcpy(state.data() + 8, &sum, sizeof sum);
  return state;
}

// The ids of embeddings are negative, and tell the position of the text after them.
TEST(State, RefusesForgedPositions) {
  constexpr std::int32_t kSmallest = std::numeric_limits<std::int32_t>::min();
  constexpr std::int32_t kLimit = 1 << 22, kPlace = 1;
  // The position of text after the embedding is its place + 1 + shift, from 1 to where a context
  // of tokens reaches the limit.
  constexpr std::int32_t kMaxShift = kLimit - (std::int32_t{kContext} - kPlace - 1) - kPlace - 1;
  for (const bool positions : {true, false}) {
    const llmc_model m = model({.positions = positions});
    const Session session(config(), m);
    ASSERT_EQ(append_rows(session, {100, 5}), LLMC_OK);
    Bytes state(llmc_state_bytes(session));
    ASSERT_EQ(llmc_state_save(session, state.data(), state.size(), nullptr), LLMC_OK);
    const auto load = [&](std::int32_t id) {
      std::memcpy(state.data() + llmc_state_layout_of(&m, 2, 1, 0).ids + kPlace * sizeof id, &id,
                  sizeof id);
      const Bytes bytes = forged(state, header_of(state));
      return llmc_state_load(session, bytes.data(), bytes.size());
    };
    EXPECT_EQ(load(-1), LLMC_OK);
    // The position of text never falls.
    EXPECT_EQ(load(core::embedding_id(-2)), LLMC_ERROR_STATE);
    for (const std::int32_t id : {kSmallest, kSmallest + 1, core::embedding_id(-kPlace - 1),
                                  core::embedding_id(kMaxShift + 1)})
      EXPECT_EQ(load(id), LLMC_ERROR_STATE) << id;
    for (const std::int32_t shift : {-kPlace, 1, kMaxShift}) {
      ASSERT_EQ(load(core::embedding_id(shift)), positions ? LLMC_OK : LLMC_ERROR_STATE) << shift;
      if (!positions) continue;
      const Positions places[2] = {};
      const llmc_status more =
          llmc_append_embeddings_at(session, rows_of({1, 2}).data(), places[0].data(), 2, nullptr);
      EXPECT_EQ(more, shift == kMaxShift ? LLMC_ERROR_POSITION : LLMC_OK);
      llmc_sampling sampling{};
      sampling.repeat_last_n = -1;
      sampling.repeat_penalty = 1.5f;
      ASSERT_EQ(llmc_set_sampling(session, &sampling), LLMC_OK);
      std::int32_t token = -1;
      EXPECT_EQ(llmc_step(session, &token), LLMC_OK);
    }
  }
}

TEST(State, AnotherSessionGoesOnFromIt) {
  const auto tokens = prompt(40);
  for (const std::size_t count : {0u, 1u, 8u, 21u, 40u}) {
    Session from, to;
    ASSERT_EQ(llmc_prefill(from, tokens.data(), count, nullptr), LLMC_OK);
    ASSERT_EQ(llmc_append(to, 3), LLMC_OK);
    const Bytes state = saved(from);
    ASSERT_EQ(llmc_state_load(to, state.data(), state.size()), LLMC_OK);
    EXPECT_EQ(llmc_position(to), count);
    EXPECT_EQ(llmc_last_chunk(to), 0u);
    EXPECT_EQ(hash_logits(llmc_logits(to)), hash_logits(llmc_logits(from))) << count;
    EXPECT_EQ(saved(to), state);
    ASSERT_EQ(llmc_append(from, 7), LLMC_OK);
    ASSERT_EQ(llmc_append(to, 7), LLMC_OK);
    EXPECT_EQ(hash_logits(llmc_logits(to)), hash_logits(llmc_logits(from)));
    EXPECT_TRUE(to.arena.guard_intact());
  }
}

TEST(State, DependsOnTheTokensAlone) {
  const auto tokens = prompt(40);
  Session plain;
  ASSERT_EQ(llmc_prefill(plain, tokens.data(), 27, nullptr), LLMC_OK);
  const Bytes state = saved(plain);
  llmc_config c = config();
  c.chunk = 3;
  c.threads = 3;
  Session other(c, model({.sequences = 3, .contiguous = true}));
  std::uint32_t fork = 0;
  ASSERT_EQ(llmc_prefill(other, tokens.data() + 2, 38, nullptr), LLMC_OK);  // garbage after it
  ASSERT_EQ(llmc_reset(other), LLMC_OK);
  ASSERT_EQ(llmc_prefill(other, tokens.data(), 12, nullptr), LLMC_OK);
  ASSERT_EQ(llmc_fork(other, 0, &fork), LLMC_OK);
  ASSERT_EQ(llmc_select(other, fork), LLMC_OK);
  ASSERT_EQ(llmc_prefill(other, tokens.data() + 12, 15, nullptr), LLMC_OK);
  EXPECT_EQ(saved(other), state);
  ASSERT_EQ(llmc_rewind(other, 26), LLMC_OK);
  EXPECT_NE(saved(other), state);
  // Blocks of another size take it as it is.
  ASSERT_EQ(llmc_select(other, 0), LLMC_OK);
  ASSERT_EQ(llmc_state_load(other, state.data(), state.size()), LLMC_OK);
  EXPECT_EQ(saved(other), state);
}

TEST(State, LoadingLeavesSharersAlone) {
  const auto tokens = prompt(40);
  Session s(config(), model({.sequences = 2, .pool = 6}));
  ASSERT_EQ(llmc_prefill(s, tokens.data(), 30, nullptr), LLMC_OK);
  const Bytes state = saved(s);
  ASSERT_EQ(llmc_rewind(s, 12), LLMC_OK);
  std::uint32_t fork = 0;
  ASSERT_EQ(llmc_fork(s, 0, &fork), LLMC_OK);
  ASSERT_EQ(llmc_state_load(s, state.data(), state.size()), LLMC_OK);
  EXPECT_EQ(llmc_free_blocks(s), 0u);
  EXPECT_EQ(saved(s), state);
  ASSERT_EQ(llmc_select(s, fork), LLMC_OK);
  EXPECT_EQ(llmc_position(s), 12u);
  ASSERT_EQ(llmc_append(s, tokens[12]), LLMC_OK);
  EXPECT_EQ(hash_logits(llmc_logits(s)), plain_hash({tokens.begin(), tokens.begin() + 13}));
  // Four blocks are needed, and giving up its own two is not enough.
  EXPECT_EQ(llmc_state_load(s, state.data(), state.size()), LLMC_ERROR_POOL_FULL);
  EXPECT_EQ(hash_logits(llmc_logits(s)), plain_hash({tokens.begin(), tokens.begin() + 13}));
}

TEST(State, OfAnotherModelOrVersionIsRefused) {
  const auto tokens = prompt(20);
  Session s;
  ASSERT_EQ(llmc_prefill(s, tokens.data(), 20, nullptr), LLMC_OK);
  const Bytes state = saved(s);
  const auto answer_of = [&](auto change) {
    llmc_model m = model();
    change(m);
    m.arena_bytes = llmc_arena_layout_of_model(&m).total;
    Session other(config(), m);
    EXPECT_EQ(other.status, LLMC_OK);
    const llmc_status status = llmc_state_load(other, state.data(), state.size());
    EXPECT_EQ(llmc_position(other), status == LLMC_OK ? 20u : 0u);
    return status;
  };
  EXPECT_EQ(answer_of([](llmc_model&) {}), LLMC_OK);
  EXPECT_EQ(answer_of([](llmc_model& m) { ++m.weights_hash; }), LLMC_ERROR_STATE_MODEL);
  EXPECT_EQ(answer_of([](llmc_model& m) { ++m.program_hash; }), LLMC_ERROR_STATE_MODEL);
  EXPECT_EQ(answer_of([](llmc_model& m) { m.layers = 9; }), LLMC_ERROR_STATE_MODEL);
  EXPECT_EQ(answer_of([](llmc_model& m) { m.heads = 77; }), LLMC_ERROR_STATE_MODEL);
  EXPECT_EQ(answer_of([](llmc_model& m) { ++m.vocab; }), LLMC_ERROR_STATE_MODEL);
  EXPECT_EQ(answer_of([](llmc_model& m) { m.kv_format = 1; }), LLMC_ERROR_STATE_MODEL);
  EXPECT_EQ(answer_of([](llmc_model& m) { m.kv_token_bytes += 8; }), LLMC_ERROR_STATE_MODEL);
  EXPECT_EQ(answer_of([](llmc_model& m) { m.ctx = 19; }), LLMC_ERROR_CONTEXT_FULL);
  EXPECT_EQ(answer_of([](llmc_model& m) { m.pool_blocks = 2; }), LLMC_ERROR_POOL_FULL);
  llmc_state_header header = header_of(state);
  header.version = LLMC_STATE_VERSION + 1;
  const Bytes newer = forged(state, header);
  EXPECT_EQ(llmc_state_load(s, newer.data(), newer.size()), LLMC_ERROR_VERSION);
}

TEST(State, DamageIsSeenAndChangesNothing) {
  const auto tokens = prompt(20);
  Session s, to;
  ASSERT_EQ(llmc_prefill(s, tokens.data(), 20, nullptr), LLMC_OK);
  ASSERT_EQ(llmc_prefill(to, tokens.data(), 9, nullptr), LLMC_OK);
  const Bytes state = saved(s), before = saved(to);
  for (std::size_t i = 0; i < state.size(); ++i) {
    Bytes damaged = state;
    damaged[i] ^= static_cast<unsigned char>(1u << i % 8);
    const llmc_status status = llmc_state_load(to, damaged.data(), damaged.size());
    ASSERT_TRUE(status == LLMC_ERROR_STATE || (status == LLMC_ERROR_VERSION && i >= 16 && i < 20))
        << i << ' ' << status;
  }
  // Truncated, in a separate allocation, where reads past its end are detected.
  for (std::size_t bytes = 0; bytes < state.size(); ++bytes) {
    const std::unique_ptr<unsigned char[]> cut(new unsigned char[bytes]);
    std::copy_n(state.data(), bytes, cut.get());
    ASSERT_EQ(llmc_state_load(to, cut.get(), bytes), LLMC_ERROR_STATE) << bytes;
  }
  Bytes longer = state;
  longer.push_back(0);
  EXPECT_EQ(llmc_state_load(to, longer.data(), longer.size()), LLMC_ERROR_STATE);
  EXPECT_EQ(saved(to), before);
}

TEST(State, LiesWithARightChecksumAreSeen) {
  const auto tokens = prompt(20);
  Session s, to;
  ASSERT_EQ(llmc_prefill(s, tokens.data(), 20, nullptr), LLMC_OK);
  ASSERT_EQ(llmc_prefill(to, tokens.data(), 9, nullptr), LLMC_OK);
  const Bytes state = saved(s), before = saved(to);
  const auto refused = [&](auto change) {
    llmc_state_header header = header_of(state);
    change(header);
    const Bytes lie = forged(state, header);
    return llmc_state_load(to, lie.data(), lie.size());
  };
  EXPECT_EQ(refused([](llmc_state_header& h) { h.tokens = 30; }), LLMC_ERROR_STATE);
  EXPECT_EQ(refused([](llmc_state_header& h) { h.tokens = UINT32_MAX; }), LLMC_ERROR_STATE);
  EXPECT_EQ(refused([](llmc_state_header& h) { h.tokens = 0; }), LLMC_ERROR_STATE);
  EXPECT_EQ(refused([](llmc_state_header& h) { h.has_row = 0; }), LLMC_ERROR_STATE);
  EXPECT_EQ(refused([](llmc_state_header& h) { h.has_row = 2; }), LLMC_ERROR_STATE);
  EXPECT_EQ(refused([](llmc_state_header& h) { h.bytes = UINT64_MAX; }), LLMC_ERROR_STATE);
  EXPECT_EQ(refused([](llmc_state_header& h) { h.token_bytes = UINT64_MAX / 2; }),
            LLMC_ERROR_STATE_MODEL);
  EXPECT_EQ(refused([](llmc_state_header& h) { h.hidden = 0; }), LLMC_ERROR_STATE_MODEL);
  EXPECT_EQ(refused([](llmc_state_header& h) { h.zero[15] = 1; }), LLMC_ERROR_STATE_MODEL);
  EXPECT_EQ(refused([](llmc_state_header& h) { h.source_hash = 1; }), LLMC_ERROR_STATE_MODEL);
  EXPECT_EQ(refused([](llmc_state_header& h) { h.state_bytes = 64; }), LLMC_ERROR_STATE_MODEL);
  for (const std::int32_t id : {-2, INT32_MIN, static_cast<std::int32_t>(kVocab)}) {
    Bytes lie = state;
    std::memcpy(lie.data() + sizeof(llmc_state_header) + 4 * 19, &id, 4);
    lie = forged(lie, header_of(state));
    EXPECT_EQ(llmc_state_load(to, lie.data(), lie.size()), LLMC_ERROR_STATE);
  }
  EXPECT_EQ(saved(to), before);
}

// Tokens whose recurrent states are not saved would be run again; embeddings cannot be.
TEST(State, EmbeddingsWithoutTheirRecurrentStateAreRefused) {
  const Session from(config(), model({.recurrent = true}));
  const auto tokens = prompt(8);
  ASSERT_EQ(llmc_prefill(from, tokens.data(), tokens.size(), nullptr), LLMC_OK);
  ASSERT_EQ(llmc_rewind(from, 5), LLMC_OK);
  Bytes lie = saved(from);
  ASSERT_EQ(header_of(lie).state_bytes, 0u);
  const std::int32_t none = -1;
  std::memcpy(lie.data() + sizeof(llmc_state_header), &none, sizeof none);
  lie = forged(lie, header_of(lie));
  EXPECT_EQ(llmc_state_load(from, lie.data(), lie.size()), LLMC_ERROR_STATE);
}

TEST(State, ArgumentsAreChecked) {
  Session s;
  Bytes state = saved(s);
  EXPECT_EQ(llmc_state_bytes(nullptr), 0u);
  EXPECT_EQ(llmc_state_save(nullptr, state.data(), state.size(), nullptr), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_state_save(s, nullptr, state.size(), nullptr), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_state_save(s, state.data(), state.size() - 1, nullptr), LLMC_ERROR_BUFFER);
  EXPECT_EQ(llmc_state_load(s, nullptr, 128), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_state_load(nullptr, state.data(), state.size()), LLMC_ERROR_ARGUMENT);
}

TEST(Prefix, SequencesBeginBehindWhatWasCompiledIn) {
  const auto tokens = prompt(40);
  constexpr std::uint32_t kPrefix = 19;
  const std::vector<std::int32_t> first(tokens.begin(), tokens.begin() + kPrefix);
  Session maker;
  ASSERT_EQ(llmc_prefill(maker, tokens.data(), kPrefix, nullptr), LLMC_OK);
  const Bytes state = saved(maker);
  const CompiledPrompt compiled(model(), first);
  Session s(config(), compiled.in(model({.sequences = 2})));
  ASSERT_EQ(s.status, LLMC_OK);
  EXPECT_EQ(llmc_position(s), kPrefix);
  EXPECT_EQ(llmc_prompt_size(s), kPrefix);
  EXPECT_EQ(saved(s), state);
  EXPECT_EQ(llmc_free_blocks(s), llmc_pool_blocks(s));
  std::uint32_t second = 0;
  ASSERT_EQ(llmc_new_sequence(s, &second), LLMC_OK);
  for (const std::uint32_t sequence : {0u, second, 0u}) {
    ASSERT_EQ(llmc_select(s, sequence), LLMC_OK);
    ASSERT_EQ(llmc_reset(s), LLMC_OK);
    EXPECT_EQ(hash_logits(llmc_logits(s)), plain_hash(first));
    ASSERT_EQ(llmc_prefill(s, tokens.data() + kPrefix, 15, nullptr), LLMC_OK);
    EXPECT_EQ(hash_logits(llmc_logits(s)), plain_hash({tokens.begin(), tokens.begin() + 34}));
    // Two whole blocks of the prefix are never copied.
    EXPECT_EQ(llmc_free_blocks(s), llmc_pool_blocks(s) - (sequence == second ? 6 : 3));
    if (sequence == second) {
      ASSERT_EQ(llmc_rewind(s, 5), LLMC_OK);  // into the prefix
      ASSERT_EQ(llmc_append(s, 1), LLMC_OK);
      std::vector<std::int32_t> own(tokens.begin(), tokens.begin() + 5);
      own.push_back(1);
      EXPECT_EQ(hash_logits(llmc_logits(s)), plain_hash(own));
      ASSERT_EQ(llmc_reset(s), LLMC_OK);
    }
  }
  EXPECT_TRUE(compiled.intact());
}

TEST(Prefix, ASessionMayBeginWithoutIt) {
  const CompiledPrompt compiled(model(), prompt(19));
  llmc_config c = config();
  c.begin = LLMC_BEGIN_EMPTY;
  Session s(c, compiled.in(model({.sequences = 2})));
  ASSERT_EQ(s.status, LLMC_OK);
  EXPECT_EQ(llmc_prompt_size(s), 0u);
  std::uint32_t second = 0;
  ASSERT_EQ(llmc_new_sequence(s, &second), LLMC_OK);
  for (const std::uint32_t sequence : {0u, second}) {
    ASSERT_EQ(llmc_select(s, sequence), LLMC_OK);
    EXPECT_EQ(llmc_position(s), 0u);
    EXPECT_EQ(llmc_logits(s), nullptr);
    ASSERT_EQ(llmc_append(s, 4), LLMC_OK);
    EXPECT_EQ(hash_logits(llmc_logits(s)), plain_hash({4}));
    ASSERT_EQ(llmc_reset(s), LLMC_OK);
    EXPECT_EQ(llmc_position(s), 0u);
  }
  c.begin = LLMC_BEGIN_EMPTY + 1;
  EXPECT_EQ(Session(c, compiled.in(model())).status, LLMC_ERROR_ARGUMENT);
  // An application of an earlier header, which had no such field.
  c.size = offsetof(llmc_config, begin);
  Session earlier(c, compiled.in(model()));
  ASSERT_EQ(earlier.status, LLMC_OK);
  EXPECT_EQ(llmc_position(earlier), 19u);
}

TEST(Prefix, TokensAreReadBack) {
  const std::vector<std::int32_t> first = prompt(19);
  const CompiledPrompt compiled(model(), first);
  Session s(config(), compiled.in(model()));
  ASSERT_EQ(llmc_append(s, 7), LLMC_OK);
  std::vector<std::int32_t> tokens(20, -1);
  ASSERT_EQ(llmc_tokens(s, 0, tokens.data(), 20), LLMC_OK);
  EXPECT_TRUE(std::equal(first.begin(), first.end(), tokens.begin()));
  EXPECT_EQ(tokens[19], 7);
  std::int32_t one = -1;
  ASSERT_EQ(llmc_tokens(s, 17, &one, 1), LLMC_OK);
  EXPECT_EQ(one, first[17]);
  EXPECT_EQ(llmc_tokens(s, 20, nullptr, 0), LLMC_OK);
  EXPECT_EQ(llmc_tokens(s, 19, tokens.data(), 2), LLMC_ERROR_POSITION);
  EXPECT_EQ(llmc_tokens(s, 21, tokens.data(), 0), LLMC_ERROR_POSITION);
  EXPECT_EQ(llmc_tokens(s, 0, tokens.data(), SIZE_MAX), LLMC_ERROR_POSITION);
  EXPECT_EQ(llmc_tokens(s, 0, nullptr, 1), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_tokens(nullptr, 0, tokens.data(), 1), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_prompt_size(nullptr), 0u);
}

}  // namespace
}  // namespace llmc::fake
