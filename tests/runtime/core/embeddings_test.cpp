// Rows that are appended in place of tokens.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "tests/runtime/core/plain_model.h"

namespace llmc::fake {
namespace {

using Tokens = std::vector<std::int32_t>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::uint64_t logits_of(llmc_session* session) {
  return hash_logits(llmc_logits(session));
}

Tokens tokens_in(llmc_session* session) {
  Tokens tokens(llmc_position(session));
  EXPECT_EQ(llmc_tokens(session, 0, tokens.data(), tokens.size()), LLMC_OK);
  return tokens;
}

TEST(Embeddings, RowsOfTokensGiveTheBitsOfTheTokens) {
  const Tokens tokens = prompt(40);
  for (const std::uint32_t chunk : {1u, 3u, kChunk})
    for (const std::uint32_t threads : {1u, kThreadsMax})
      for (const std::size_t first : {0u, 1u, 8u, 13u}) {
        for (const bool recurrent : {false, true}) {
          llmc_config c = config();
          c.chunk = chunk;
          c.threads = threads;
          const llmc_model m = model({.recurrent = recurrent});
          const Session session(c, m), reference(config(), m);
          ASSERT_EQ(llmc_prefill(reference, tokens.data(), 40, nullptr), LLMC_OK);
          const Tokens rows(tokens.begin() + static_cast<std::ptrdiff_t>(first),
                            tokens.begin() + 30);
          ASSERT_EQ(llmc_prefill(session, tokens.data(), first, nullptr), LLMC_OK);
          ASSERT_EQ(append_rows(session, rows), LLMC_OK);
          ASSERT_EQ(llmc_prefill(session, tokens.data() + 30, 10, nullptr), LLMC_OK);
          EXPECT_EQ(logits_of(session), logits_of(reference));
          EXPECT_TRUE(session.arena.guard_intact());
        }
      }
}

TEST(Embeddings, PositionsHaveNoIds) {
  const Session session;
  ASSERT_EQ(llmc_append(session, 7), LLMC_OK);
  ASSERT_EQ(append_rows(session, {100, 5}), LLMC_OK);
  ASSERT_EQ(llmc_append(session, 8), LLMC_OK);
  EXPECT_EQ(tokens_in(session), (Tokens{7, -1, -1, 8}));
  EXPECT_EQ(logits_of(session), plain_hash({7, 100, 5, 8}));
  std::int32_t token = -1;
  ASSERT_EQ(llmc_step(session, &token), LLMC_OK);
  EXPECT_EQ(token, plain_greedy({7, 100, 5, 8}));
}

TEST(Embeddings, ProgressIsThatOfPrefill) {
  struct Progress {
    std::size_t done = 99;
    std::vector<std::size_t> seen;
  } progress;
  llmc_config c = config();
  c.cancel = [](void* user) {
    auto& self = *static_cast<Progress*>(user);
    self.seen.push_back(self.done);
    return 0;
  };
  c.cancel_user = &progress;
  const Session session(c);
  const Tokens values(2 * kChunk + 1, 60);
  ASSERT_EQ(llmc_append_embeddings(session, rows_of(values).data(), values.size(), &progress.done),
            LLMC_OK);
  EXPECT_EQ(progress.seen, (std::vector<std::size_t>{0, kChunk, std::size_t{2 * kChunk}}));
  EXPECT_EQ(progress.done, values.size());
  EXPECT_EQ(llmc_last_chunk(session), 1u);
}

TEST(Embeddings, InvalidOnesChangeNothing) {
  const Session session;
  ASSERT_EQ(llmc_append(session, 7), LLMC_OK);
  std::size_t done = 99;
  const auto refused = [&](llmc_session* of, const float* rows, std::size_t n) {
    const llmc_status status = llmc_append_embeddings(of, rows, n, &done);
    EXPECT_EQ(done, 0u);
    EXPECT_EQ(logits_of(session), plain_hash({7}));
    return status;
  };
  const std::vector<float> rows(2 * std::size_t{kContext}, 1.0f);
  EXPECT_EQ(refused(nullptr, rows.data(), 1), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(refused(session, nullptr, 1), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(refused(session, nullptr, 0), LLMC_OK) << "nothing";
  EXPECT_EQ(refused(session, rows.data(), kContext), LLMC_ERROR_CONTEXT_FULL);
  for (const float bad : {kNan, kInfinity, -kInfinity})
    for (const std::size_t at : {0u, 5u}) {
      std::vector<float> wrong(6, 1.0f);
      wrong[at] = bad;
      EXPECT_EQ(refused(session, wrong.data(), 3), LLMC_ERROR_NOT_FINITE);
    }
  EXPECT_EQ(llmc_embedding_width(session), kWidth);
  EXPECT_EQ(llmc_embedding_width(nullptr), 0u);
  llmc_model without = model();
  without.embedding_width = 0;
  const Session other(config(), without);
  EXPECT_EQ(refused(other, rows.data(), 1), LLMC_ERROR_EMBEDDINGS);
  EXPECT_EQ(llmc_embedding_width(other), 0u);
  const Session source(config(), model({.source = 5}));
  EXPECT_EQ(refused(source, rows.data(), 1), LLMC_ERROR_SOURCE);
}

TEST(Embeddings, TextContinuesAfterTheLargestPosition) {
  const Session session(config(), model({.positions = true}));
  EXPECT_EQ(llmc_position_axes(session), kPositionAxes);
  ASSERT_EQ(llmc_append(session, 7), LLMC_OK);
  const Positions grid[] = {{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}, {1, 2}};
  ASSERT_EQ(llmc_append_embeddings_at(session, rows_of(Tokens(6, 100)).data(), grid[0].data(), 6,
                                      nullptr),
            LLMC_OK);
  ASSERT_EQ(llmc_append(session, 8), LLMC_OK);
  EXPECT_EQ(llmc_position(session), 8u);
  EXPECT_EQ(tokens_in(session), (Tokens{7, -1, -1, -1, -1, -1, -1, 8}));
  EXPECT_EQ(logits_of(session),
            plain_hash({7, 100, 100, 100, 100, 100, 100, 8},
                       {{0, 0}, {1, 1}, {1, 2}, {1, 3}, {2, 1}, {2, 2}, {2, 3}, {4, 4}}));
  // After a rewind into the image, the text continues after the largest position of the rows that
  // remain.
  ASSERT_EQ(llmc_rewind(session, 3), LLMC_OK);
  ASSERT_EQ(llmc_append(session, 9), LLMC_OK);
  EXPECT_EQ(logits_of(session), plain_hash({7, 100, 100, 9}, {{0, 0}, {1, 1}, {1, 2}, {3, 3}}));
}

TEST(Embeddings, PositionsAreThoseOfTextForRowsOfTokens) {
  const Tokens tokens = prompt(30);
  const Session at(config(), model({.positions = true})),
      text(config(), model({.positions = true}));
  std::vector<Positions> places;
  for (std::int32_t i = 0; i < 30; ++i) places.push_back({i, i});
  ASSERT_EQ(llmc_append_embeddings_at(at, rows_of(tokens).data(), places[0].data(), 30, nullptr),
            LLMC_OK);
  ASSERT_EQ(llmc_prefill(text, tokens.data(), 30, nullptr), LLMC_OK);
  EXPECT_EQ(logits_of(at), logits_of(text));
}

TEST(Embeddings, PositionsDoNotDependOnChunks) {
  for (const bool recurrent : {false, true}) {
    std::uint64_t expected = 0;
    for (const std::uint32_t chunk : {kChunk, 1u, 3u}) {
      llmc_config c = config();
      c.chunk = chunk;
      const Session session(c, model({.recurrent = recurrent, .positions = true}));
      std::vector<Positions> grid;
      for (std::int32_t i = 0; i < 20; ++i) grid.push_back({i / 5, i % 5});
      const Tokens text = prompt(9);
      ASSERT_EQ(llmc_prefill(session, text.data(), 9, nullptr), LLMC_OK);
      ASSERT_EQ(append_rows(session, prompt(20), grid), LLMC_OK);
      ASSERT_EQ(llmc_prefill(session, text.data(), 9, nullptr), LLMC_OK);
      if (expected == 0) expected = logits_of(session);
      EXPECT_EQ(logits_of(session), expected) << chunk;
    }
  }
}

TEST(Embeddings, InvalidPositionsChangeNothing) {
  const Session session(config(), model({.positions = true}));
  ASSERT_EQ(llmc_append(session, 7), LLMC_OK);
  const std::uint64_t before = logits_of(session);
  const std::vector<float> rows = rows_of({1, 2});
  std::size_t done = 99;
  constexpr std::int32_t kLargest = (1 << 22) - 1 - std::int32_t{kContext};
  for (const Positions bad : {Positions{0, -1}, Positions{kLargest + 1, 0},
                              Positions{0, std::numeric_limits<std::int32_t>::max()}}) {
    const Positions places[] = {{0, 0}, bad};
    EXPECT_EQ(llmc_append_embeddings_at(session, rows.data(), places[0].data(), 2, &done),
              LLMC_ERROR_POSITION);
    EXPECT_EQ(done, 0u);
    EXPECT_EQ(llmc_position(session), 1u);
    EXPECT_EQ(logits_of(session), before);
  }
  const Positions largest[] = {{0, kLargest}};
  EXPECT_EQ(llmc_append_embeddings_at(session, rows.data(), largest[0].data(), 1, &done), LLMC_OK);
  EXPECT_EQ(llmc_append_embeddings_at(session, rows.data(), largest[0].data(), 1, &done),
            LLMC_ERROR_POSITION)
      << "it is added to that of the text";
  EXPECT_EQ(llmc_append_embeddings_at(session, rows.data(), nullptr, 1, &done),
            LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_append_embeddings_at(session, nullptr, nullptr, 0, &done), LLMC_OK);
  const Session without;
  EXPECT_EQ(llmc_append_embeddings_at(without, rows.data(), largest[0].data(), 1, &done),
            LLMC_ERROR_EMBEDDINGS);
  EXPECT_EQ(llmc_position_axes(without), 0u);
  EXPECT_EQ(llmc_position_axes(nullptr), 0u);
}

TEST(Embeddings, ThePoolMayBeTooSmall) {
  const Session session(config(), model({.sequences = 2, .pool = 3}));
  EXPECT_EQ(append_rows(session, Tokens(25, 60)), LLMC_ERROR_POOL_FULL);
  EXPECT_EQ(llmc_position(session), 0u);
  EXPECT_EQ(append_rows(session, Tokens(24, 60)), LLMC_OK);
}

TEST(Embeddings, ACancelledCallIsRolledBack) {
  for (const bool recurrent : {false, true}) {
    int left = 100;
    llmc_config c = config();
    c.cancel = [](void* user) { return static_cast<int>(--*static_cast<int*>(user) < 0); };
    c.cancel_user = &left;
    const Session session(c, model({.recurrent = recurrent}));
    ASSERT_EQ(llmc_append(session, 7), LLMC_OK);
    const std::uint64_t before = logits_of(session);
    left = 2;
    ASSERT_EQ(append_rows(session, Tokens(20, 60)), LLMC_ERROR_CANCELLED);
    EXPECT_EQ(logits_of(session), before);
    EXPECT_EQ(llmc_position(session), 1u);
    left = 100;
    ASSERT_EQ(append_rows(session, {60, 61}), LLMC_OK);
    ASSERT_EQ(llmc_append(session, 7), LLMC_OK);
    const Session reference(config(), model({.recurrent = recurrent}));
    ASSERT_EQ(append_rows(reference, {7, 60, 61, 7}), LLMC_OK);
    EXPECT_EQ(logits_of(session), logits_of(reference));
  }
}

TEST(Embeddings, ForksAndRewindsKeepThem) {
  const Session session(config(), model({.sequences = 2, .batch = 2}));
  ASSERT_EQ(append_rows(session, {60, 61, 62}), LLMC_OK);
  std::uint32_t fork = 0;
  ASSERT_EQ(llmc_fork(session, 0, &fork), LLMC_OK);
  ASSERT_EQ(llmc_rewind(session, 2), LLMC_OK);
  const std::uint32_t both[] = {0, fork};
  const std::int32_t next[] = {4, 5};
  ASSERT_EQ(llmc_append_batch(session, both, 2, next), LLMC_OK);
  EXPECT_EQ(logits_of(session), plain_hash({60, 61, 4}));
  ASSERT_EQ(llmc_select(session, fork), LLMC_OK);
  EXPECT_EQ(logits_of(session), plain_hash({60, 61, 62, 5}));
}

TEST(Embeddings, SlidesOnlyDropThem) {
  llmc_config c = config();
  c.full_context = LLMC_FULL_SLIDE;
  c.keep_first = 1;
  c.slide_tokens = 2;
  const Session session(c);
  ASSERT_EQ(llmc_append(session, 3), LLMC_OK);
  ASSERT_EQ(append_rows(session, {60, 61, 62}), LLMC_OK);
  const Tokens rest = prompt(kContext - 4);
  ASSERT_EQ(llmc_prefill(session, rest.data(), rest.size(), nullptr), LLMC_OK);
  const std::uint64_t before = logits_of(session);
  EXPECT_EQ(llmc_slide(session, 1, 2), LLMC_ERROR_EMBEDDINGS);
  EXPECT_EQ(llmc_append(session, 9), LLMC_ERROR_EMBEDDINGS) << "an automatic slide";
  std::int32_t token = -7;
  EXPECT_EQ(llmc_step(session, &token), LLMC_ERROR_EMBEDDINGS);
  EXPECT_EQ(logits_of(session), before);
  EXPECT_EQ(llmc_position(session), kContext);
  ASSERT_EQ(llmc_slide(session, 4, 2), LLMC_OK) << "they are kept where they are";
  Tokens left{3, 60, 61, 62};
  left.insert(left.end(), rest.begin() + 2, rest.end());
  EXPECT_EQ(logits_of(session), plain_hash(left));
  ASSERT_EQ(llmc_slide(session, 1, 3), LLMC_OK) << "they are dropped";
  left.erase(left.begin() + 1, left.begin() + 4);
  EXPECT_EQ(logits_of(session), plain_hash(left));
}

TEST(Embeddings, RecurrentStatesCannotBeComputedAgain) {
  int questions = 0;
  llmc_config c = config();
  c.cancel = [](void* user) { return static_cast<int>(++*static_cast<int*>(user) == 0); };
  c.cancel_user = &questions;
  const Session session(c, model({.recurrent = true}));
  const Tokens tokens = prompt(20);
  ASSERT_EQ(llmc_append(session, 3), LLMC_OK);
  ASSERT_EQ(append_rows(session, {60, 61}), LLMC_OK);
  ASSERT_EQ(llmc_prefill(session, tokens.data(), 5, nullptr), LLMC_OK);
  const std::uint64_t before = logits_of(session);
  EXPECT_EQ(llmc_rewind(session, 5), LLMC_ERROR_EMBEDDINGS);
  EXPECT_EQ(llmc_rewind(session, 2), LLMC_ERROR_EMBEDDINGS);
  EXPECT_EQ(llmc_slide(session, 4, 1), LLMC_ERROR_EMBEDDINGS);
  EXPECT_EQ(llmc_slide(session, 0, 2), LLMC_ERROR_EMBEDDINGS);
  questions = -2;
  ASSERT_EQ(llmc_prefill(session, tokens.data(), 20, nullptr), LLMC_OK) << "no roll-back";
  questions = -1;
  EXPECT_EQ(llmc_append(session, 1), LLMC_ERROR_CANCELLED);
  EXPECT_NE(logits_of(session), before);
  ASSERT_EQ(llmc_slide(session, 0, 3), LLMC_OK) << "they are dropped";
  ASSERT_EQ(append_rows(session, {60}), LLMC_OK);
  ASSERT_EQ(llmc_rewind(session, 1), LLMC_OK);
  ASSERT_EQ(llmc_append(session, 4), LLMC_OK);
  const Session reference(config(), model({.recurrent = true}));
  const Tokens left{tokens[0], 4};
  ASSERT_EQ(llmc_prefill(reference, left.data(), 2, nullptr), LLMC_OK);
  EXPECT_EQ(logits_of(session), logits_of(reference));
}

TEST(Embeddings, SavedStatesContainThem) {
  for (const bool recurrent : {false, true}) {
    llmc_model m = model({.recurrent = recurrent});
    const Session from(config(), m), to(config(), m);
    ASSERT_EQ(append_rows(from, {60, 61}), LLMC_OK);
    ASSERT_EQ(llmc_append(from, 4), LLMC_OK);
    std::vector<unsigned char> state(llmc_state_bytes(from));
    ASSERT_EQ(llmc_state_save(from, state.data(), state.size(), nullptr), LLMC_OK);
    ASSERT_EQ(llmc_state_load(to, state.data(), state.size()), LLMC_OK);
    EXPECT_EQ(tokens_in(to), (Tokens{-1, -1, 4}));
    ASSERT_EQ(llmc_append(from, 1), LLMC_OK);
    ASSERT_EQ(llmc_append(to, 1), LLMC_OK);
    EXPECT_EQ(logits_of(to), logits_of(from));
    m.embedding_width = 0;
    const Session without(config(), m);
    EXPECT_EQ(llmc_state_load(without, state.data(), state.size()), LLMC_ERROR_STATE);
  }
}

TEST(Embeddings, PenaltiesIgnoreThem) {
  const Session session;
  llmc_sampling sampling{};
  sampling.repeat_last_n = -1;
  sampling.repeat_penalty = 1.5f;
  sampling.dry_multiplier = 2.0f;
  sampling.dry_base = 1.5f;
  sampling.dry_penalty_last_n = -1;
  for (const std::int32_t allowed : {0, 1, 2}) {
    sampling.dry_allowed_length = allowed;
    ASSERT_EQ(llmc_set_sampling(session, &sampling), LLMC_OK);
    ASSERT_EQ(llmc_reset(session), LLMC_OK);
    ASSERT_EQ(append_rows(session, Tokens(20, 60)), LLMC_OK);
    std::int32_t token = -1;
    ASSERT_EQ(llmc_sample(session, &token), LLMC_OK);
    EXPECT_EQ(token, plain_greedy(Tokens(20, 60))) << "there is no token that they could penalize";
  }
}

constexpr std::size_t kScratchBytes = std::size_t{kChunk} * kLanes * 8;

/// An image encoder whose image is the number of its rows, and which uses all of scratch.
std::uint32_t encode_rows(const llmc_run* run, const void* const* inputs, const std::int64_t* dims,
                          float* rows) {
  std::memset(run->scratch, 0xAB, kScratchBytes);
  const std::int64_t count = dims == nullptr ? 4 : dims[0];
  if (count < 0 || count > 4) return 0;
  for (std::int64_t i = 0; i < count * std::int64_t{kWidth}; ++i)
    rows[i] = *static_cast<const float*>(inputs[0]);
  return static_cast<std::uint32_t>(count);
}

TEST(Embeddings, AnImageIsEncodedInTheMemoryOfTheSession) {
  llmc_model m = model();
  m.image_inputs = m.image_dims = 1;
  m.image_rows = 4;
  m.encode_image = encode_rows;
  const Session session(config(), m);
  EXPECT_EQ(llmc_image_rows(session), 4u);
  EXPECT_EQ(llmc_image_rows(nullptr), 0u);
  ASSERT_EQ(llmc_append(session, 7), LLMC_OK);
  EXPECT_EQ(llmc_last_chunk(session), 1u);
  const float pixel = 3;
  const void* const inputs[] = {&pixel};
  float rows[4 * kWidth] = {};
  std::size_t n = 99;
  ASSERT_EQ(llmc_encode_image(session, inputs, nullptr, rows, &n), LLMC_OK);
  EXPECT_EQ(n, 4u);
  EXPECT_EQ(rows[4 * kWidth - 1], 3.0f);
  EXPECT_EQ(llmc_last_chunk(session), 0u) << "its rows were in scratch";
  EXPECT_EQ(logits_of(session), plain_hash({7}));
  const std::int64_t two = 2, five = 5;
  ASSERT_EQ(llmc_encode_image(session, inputs, &two, rows, nullptr), LLMC_OK);
  EXPECT_EQ(llmc_encode_image(session, inputs, &five, rows, &n), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(n, 0u);
  ASSERT_EQ(llmc_append(session, 8), LLMC_OK);
  EXPECT_EQ(logits_of(session), plain_hash({7, 8}));
  EXPECT_TRUE(session.arena.guard_intact());

  EXPECT_EQ(llmc_encode_image(nullptr, inputs, nullptr, rows, &n), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_encode_image(session, nullptr, nullptr, rows, &n), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_encode_image(session, inputs, nullptr, nullptr, &n), LLMC_ERROR_ARGUMENT);
  const Session without;
  EXPECT_EQ(llmc_encode_image(without, inputs, nullptr, rows, &n), LLMC_ERROR_EMBEDDINGS);
}

TEST(Embeddings, AModelWithAnImageEncoderIsWhole) {
  llmc_model m = model();
  m.image_rows = 4;
  llmc_session* session = nullptr;
  std::vector<std::uint64_t> arena(m.arena_bytes / 8 + 8);
  void* const aligned =
      reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(arena.data()) + 63) / 64 * 64);
  const auto init = [&] {
    return llmc_session_init(&m, aligned, m.arena_bytes, nullptr, &session);
  };
  EXPECT_EQ(init(), LLMC_ERROR_MODEL);
  m.encode_image = encode_rows;
  EXPECT_EQ(init(), LLMC_OK);
  m.embedding_width = 0;
  EXPECT_EQ(init(), LLMC_ERROR_MODEL);
}

}  // namespace
}  // namespace llmc::fake
