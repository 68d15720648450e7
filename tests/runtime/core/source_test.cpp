#include <gtest/gtest.h>

#include "tests/runtime/core/fake_model.h"

namespace llmc::fake {
namespace {

using Ids = std::vector<std::int32_t>;

llmc_status encode_ids(llmc_session* session, const Ids& ids) {
  return llmc_encode(session, ids.data(), ids.size());
}

TEST(Source, TokensNeedOne) {
  const Session session(config(), model(Sizes{.source = 5}));
  const Ids prompt{1, 2, 3};
  EXPECT_EQ(llmc_source_limit(session), 5u);
  EXPECT_EQ(llmc_source_size(session), 0u);
  EXPECT_EQ(llmc_prefill(session, prompt.data(), 3, nullptr), LLMC_ERROR_SOURCE);
  EXPECT_EQ(llmc_append(session, 1), LLMC_ERROR_SOURCE);
  EXPECT_EQ(encode_ids(session, {7, 8}), LLMC_OK);
  EXPECT_EQ(llmc_source_size(session), 2u);
  EXPECT_EQ(llmc_prefill(session, prompt.data(), 3, nullptr), LLMC_OK);
}

TEST(Source, AnotherOneDropsTheTokensOfAllSequences) {
  const Session session(config(), model(Sizes{.sequences = 2, .batch = 2, .source = 5}));
  std::uint32_t second = 0;
  ASSERT_EQ(llmc_new_sequence(session, &second), LLMC_OK);
  ASSERT_EQ(encode_ids(session, {7, 8}), LLMC_OK);
  const std::size_t free_blocks = llmc_free_blocks(session);
  for (const std::uint32_t sequence : {0u, second}) {
    ASSERT_EQ(llmc_select(session, sequence), LLMC_OK);
    ASSERT_EQ(llmc_append(session, 4), LLMC_OK);
  }
  const std::uint64_t first_source = hash_logits(llmc_logits(session));
  ASSERT_EQ(encode_ids(session, {9, 8, 1}), LLMC_OK);
  EXPECT_EQ(llmc_free_blocks(session), free_blocks);
  for (const std::uint32_t sequence : {0u, second}) {
    ASSERT_EQ(llmc_select(session, sequence), LLMC_OK);
    EXPECT_EQ(llmc_position(session), 0u);
    EXPECT_EQ(llmc_logits(session), nullptr);
    ASSERT_EQ(llmc_append(session, 4), LLMC_OK);
    EXPECT_NE(hash_logits(llmc_logits(session)), first_source);
  }
  ASSERT_EQ(encode_ids(session, {7, 8}), LLMC_OK);
  ASSERT_EQ(llmc_append(session, 4), LLMC_OK);
  EXPECT_EQ(hash_logits(llmc_logits(session)), first_source);
}

TEST(Source, InvalidOnesAreRefused) {
  const Session session(config(), model(Sizes{.source = 5}));
  ASSERT_EQ(encode_ids(session, {7, 8}), LLMC_OK);
  ASSERT_EQ(llmc_append(session, 4), LLMC_OK);
  const std::uint64_t before = hash_logits(llmc_logits(session));
  EXPECT_EQ(llmc_encode(session, nullptr, 1), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(encode_ids(session, {}), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(encode_ids(session, {1, 2, 3, 4, 5, 6}), LLMC_ERROR_CONTEXT_FULL);
  EXPECT_EQ(encode_ids(session, {1, -1}), LLMC_ERROR_TOKEN);
  EXPECT_EQ(encode_ids(session, {1, kVocab}), LLMC_ERROR_TOKEN);
  EXPECT_EQ(hash_logits(llmc_logits(session)), before) << "unchanged";
  EXPECT_EQ(llmc_source_size(session), 2u);
  EXPECT_EQ(encode_ids(Session(), {1}), LLMC_ERROR_SOURCE);
}

TEST(Source, StatesNeedTheirOwn) {
  const llmc_model with_source = model(Sizes{.source = 5});
  const Session from(config(), with_source), to(config(), with_source);
  ASSERT_EQ(encode_ids(from, {7, 8}), LLMC_OK);
  ASSERT_EQ(llmc_append(from, 4), LLMC_OK);
  std::vector<unsigned char> state(llmc_state_bytes(from));
  ASSERT_EQ(llmc_state_save(from, state.data(), state.size(), nullptr), LLMC_OK);
  EXPECT_EQ(llmc_state_load(to, state.data(), state.size()), LLMC_ERROR_SOURCE) << "none";
  ASSERT_EQ(encode_ids(to, {8, 7}), LLMC_OK);
  EXPECT_EQ(llmc_state_load(to, state.data(), state.size()), LLMC_ERROR_SOURCE) << "another one";
  EXPECT_EQ(llmc_position(to), 0u);
  ASSERT_EQ(encode_ids(to, {7, 8}), LLMC_OK);
  ASSERT_EQ(llmc_state_load(to, state.data(), state.size()), LLMC_OK);
  ASSERT_EQ(llmc_append(from, 1), LLMC_OK);
  ASSERT_EQ(llmc_append(to, 1), LLMC_OK);
  EXPECT_EQ(hash_logits(llmc_logits(to)), hash_logits(llmc_logits(from)));
}

TEST(Source, FeaturesHaveFrames) {
  const Session session(config(), model(Sizes{.source = 6, .features = true}));
  EXPECT_EQ(llmc_source_minimum(session), 2u);
  EXPECT_EQ(llmc_source_limit(session), 6u);
  EXPECT_EQ(llmc_source_width(session), kSourceWidth);
  const std::vector<float> features(7 * kSourceWidth, 0.5f), others(6 * kSourceWidth, 2.0f);
  EXPECT_EQ(encode_ids(session, {1, 2}), LLMC_ERROR_SOURCE) << "of the other kind";
  EXPECT_EQ(llmc_encode_features(session, nullptr, 2), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_encode_features(session, features.data(), 1), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_encode_features(session, features.data(), 7), LLMC_ERROR_CONTEXT_FULL);
  EXPECT_EQ(llmc_source_size(session), 0u);
  ASSERT_EQ(llmc_encode_features(session, features.data(), 6), LLMC_OK);
  EXPECT_EQ(llmc_source_size(session), 3u) << "rows";
  ASSERT_EQ(llmc_append(session, 4), LLMC_OK);
  const std::uint64_t logits = hash_logits(llmc_logits(session));
  ASSERT_EQ(llmc_encode_features(session, others.data(), 6), LLMC_OK);
  ASSERT_EQ(llmc_append(session, 4), LLMC_OK);
  EXPECT_NE(hash_logits(llmc_logits(session)), logits);
  const std::vector<float> failing(6 * kSourceWidth, -1);
  EXPECT_EQ(llmc_encode_features(session, failing.data(), 6), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_source_size(session), 0u);
  EXPECT_EQ(llmc_append(session, 4), LLMC_ERROR_SOURCE);
  const Session of_ids(config(), model(Sizes{.source = 5}));
  EXPECT_EQ(llmc_encode_features(of_ids, features.data(), 2), LLMC_ERROR_SOURCE);
  EXPECT_EQ(llmc_source_width(of_ids), 0u);
}

TEST(Source, ForksShareIt) {
  const Session session(config(), model(Sizes{.sequences = 2, .source = 5}));
  ASSERT_EQ(encode_ids(session, {7, 8}), LLMC_OK);
  ASSERT_EQ(llmc_append(session, 4), LLMC_OK);
  std::uint32_t fork = 0;
  ASSERT_EQ(llmc_fork(session, 0, &fork), LLMC_OK);
  ASSERT_EQ(llmc_append(session, 5), LLMC_OK);
  const std::uint64_t original = hash_logits(llmc_logits(session));
  ASSERT_EQ(llmc_select(session, fork), LLMC_OK);
  ASSERT_EQ(llmc_append(session, 5), LLMC_OK);
  EXPECT_EQ(hash_logits(llmc_logits(session)), original);
}

/// A session with `sources` sources, each encoded for a sequence of its own.
constexpr Sizes kOwnSources{.sequences = 4, .batch = 4, .source = 5, .sources = 3};
const Ids kSources[] = {{7, 8}, {9, 8, 1, 2}, {3}};

/// Returns the hash of the logits of each sequence after the prompt and a token, alone in a
/// session.
std::vector<std::uint64_t> alone(const Ids& prompt, std::int32_t token) {
  std::vector<std::uint64_t> hashes;
  for (const Ids& source : kSources) {
    const Session session(config(), model(Sizes{.source = 5}));
    EXPECT_EQ(encode_ids(session, source), LLMC_OK);
    EXPECT_EQ(llmc_prefill(session, prompt.data(), prompt.size(), nullptr), LLMC_OK);
    EXPECT_EQ(llmc_append(session, token), LLMC_OK);
    hashes.push_back(hash_logits(llmc_logits(session)));
  }
  return hashes;
}

TEST(OwnSources, RowsOfABatchHaveTheBitsOfTheSequencesAlone) {
  const Session session(config(), model(kOwnSources));
  const Ids prompt = fake::prompt(11);  // in two chunks
  std::vector<std::uint32_t> sequences{0, 0, 0};
  for (std::size_t i = 0; i < 3; ++i) {
    if (i > 0) ASSERT_EQ(llmc_new_sequence(session, &sequences[i]), LLMC_OK);
    ASSERT_EQ(llmc_select(session, sequences[i]), LLMC_OK);
    EXPECT_EQ(llmc_source_size(session), 0u) << "a new sequence has none";
    EXPECT_EQ(llmc_prefill(session, prompt.data(), 2, nullptr), LLMC_ERROR_SOURCE);
    ASSERT_EQ(encode_ids(session, kSources[i]), LLMC_OK);
    EXPECT_EQ(llmc_source_size(session), kSources[i].size());
    ASSERT_EQ(llmc_prefill(session, prompt.data(), prompt.size(), nullptr), LLMC_OK);
  }
  const Ids tokens{4, 4, 4};
  ASSERT_EQ(llmc_append_batch(session, sequences.data(), 3, tokens.data()), LLMC_OK);
  const auto expected = alone(prompt, 4);
  for (std::size_t i = 0; i < 3; ++i) {
    ASSERT_EQ(llmc_select(session, sequences[i]), LLMC_OK);
    EXPECT_EQ(hash_logits(llmc_logits(session)), expected[i]) << i;
  }
}

TEST(OwnSources, EncodingKeepsTheOtherSequences) {
  const Session session(config(), model(kOwnSources));
  ASSERT_EQ(encode_ids(session, kSources[0]), LLMC_OK);
  ASSERT_EQ(llmc_append(session, 4), LLMC_OK);
  const std::uint64_t first = hash_logits(llmc_logits(session));
  std::uint32_t second = 0;
  ASSERT_EQ(llmc_new_sequence(session, &second), LLMC_OK);
  EXPECT_EQ(llmc_append_batch(session, &second, 1, kSources[0].data()), LLMC_ERROR_SOURCE);
  ASSERT_EQ(llmc_select(session, second), LLMC_OK);
  ASSERT_EQ(encode_ids(session, kSources[1]), LLMC_OK);
  ASSERT_EQ(llmc_select(session, 0), LLMC_OK);
  EXPECT_EQ(llmc_position(session), 1u);
  EXPECT_EQ(llmc_source_size(session), kSources[0].size());
  EXPECT_EQ(hash_logits(llmc_logits(session)), first);
  ASSERT_EQ(llmc_rewind(session, 0), LLMC_OK);
  ASSERT_EQ(llmc_append(session, 4), LLMC_OK);
  EXPECT_EQ(hash_logits(llmc_logits(session)), first);
  ASSERT_EQ(llmc_reset(session), LLMC_OK);
  EXPECT_EQ(llmc_source_size(session), kSources[0].size()) << "a reset keeps the source";
}

TEST(OwnSources, AForkSharesItsSourceUntilItEncodesAnother) {
  const Session session(config(), model(kOwnSources));
  ASSERT_EQ(encode_ids(session, kSources[0]), LLMC_OK);
  ASSERT_EQ(llmc_append(session, 4), LLMC_OK);
  std::uint32_t fork = 0;
  ASSERT_EQ(llmc_fork(session, 0, &fork), LLMC_OK);
  ASSERT_EQ(llmc_append(session, 5), LLMC_OK);
  const std::uint64_t original = hash_logits(llmc_logits(session));
  ASSERT_EQ(llmc_select(session, fork), LLMC_OK);
  ASSERT_EQ(llmc_append(session, 5), LLMC_OK);
  EXPECT_EQ(hash_logits(llmc_logits(session)), original);
  ASSERT_EQ(encode_ids(session, kSources[1]), LLMC_OK);
  EXPECT_EQ(llmc_position(session), 0u);
  ASSERT_EQ(llmc_select(session, 0), LLMC_OK);
  EXPECT_EQ(llmc_position(session), 2u);
  EXPECT_EQ(llmc_source_size(session), kSources[0].size());
  EXPECT_EQ(hash_logits(llmc_logits(session)), original);
  ASSERT_EQ(llmc_rewind(session, 0), LLMC_OK);
  for (const std::int32_t token : {4, 5}) ASSERT_EQ(llmc_append(session, token), LLMC_OK);
  EXPECT_EQ(hash_logits(llmc_logits(session)), original);
}

TEST(OwnSources, ASourceIsFreeWhenNoSequenceAttendsToIt) {
  const Session session(config(), model(kOwnSources));
  std::uint32_t sequences[4] = {0};
  ASSERT_EQ(encode_ids(session, {1, 2}), LLMC_OK);
  for (std::size_t i = 1; i < 3; ++i) {
    ASSERT_EQ(llmc_new_sequence(session, &sequences[i]), LLMC_OK);
    ASSERT_EQ(llmc_select(session, sequences[i]), LLMC_OK);
    ASSERT_EQ(encode_ids(session, {1, 2}), LLMC_OK);
    ASSERT_EQ(encode_ids(session, {2, 1}), LLMC_OK) << "replaces its own";
  }
  ASSERT_EQ(llmc_append(session, 4), LLMC_OK);
  ASSERT_EQ(llmc_fork(session, sequences[2], &sequences[3]), LLMC_OK);
  ASSERT_EQ(llmc_select(session, sequences[3]), LLMC_OK);
  const std::uint64_t before = hash_logits(llmc_logits(session));
  EXPECT_EQ(encode_ids(session, {3}), LLMC_ERROR_POOL_FULL) << "the fork's is that of its original";
  EXPECT_EQ(llmc_position(session), 1u);
  EXPECT_EQ(llmc_source_size(session), 2u);
  EXPECT_EQ(hash_logits(llmc_logits(session)), before);
  ASSERT_EQ(llmc_release(session, sequences[2]), LLMC_OK);
  ASSERT_EQ(encode_ids(session, {3}), LLMC_OK) << "it is now the fork's own";
  ASSERT_EQ(llmc_new_sequence(session, &sequences[2]), LLMC_OK);
  ASSERT_EQ(llmc_select(session, sequences[2]), LLMC_OK);
  EXPECT_EQ(encode_ids(session, {4}), LLMC_ERROR_POOL_FULL);
  EXPECT_EQ(llmc_append(session, 4), LLMC_ERROR_SOURCE);
  ASSERT_EQ(llmc_release(session, sequences[1]), LLMC_OK);
  ASSERT_EQ(encode_ids(session, {4, 4, 4}), LLMC_OK);
  EXPECT_EQ(llmc_source_size(session), 3u);
  EXPECT_TRUE(session.arena.guard_intact());
}

TEST(OwnSources, StatesNeedThatOfTheirSequence) {
  const Session session(config(), model(kOwnSources));
  ASSERT_EQ(encode_ids(session, kSources[0]), LLMC_OK);
  ASSERT_EQ(llmc_append(session, 4), LLMC_OK);
  const std::uint64_t logits = hash_logits(llmc_logits(session));
  std::vector<unsigned char> state(llmc_state_bytes(session));
  ASSERT_EQ(llmc_state_save(session, state.data(), state.size(), nullptr), LLMC_OK);
  std::uint32_t second = 0;
  ASSERT_EQ(llmc_new_sequence(session, &second), LLMC_OK);
  ASSERT_EQ(llmc_select(session, second), LLMC_OK);
  EXPECT_EQ(llmc_state_load(session, state.data(), state.size()), LLMC_ERROR_SOURCE);
  ASSERT_EQ(encode_ids(session, kSources[1]), LLMC_OK);
  EXPECT_EQ(llmc_state_load(session, state.data(), state.size()), LLMC_ERROR_SOURCE);
  ASSERT_EQ(encode_ids(session, kSources[0]), LLMC_OK);
  ASSERT_EQ(llmc_state_load(session, state.data(), state.size()), LLMC_OK);
  EXPECT_EQ(hash_logits(llmc_logits(session)), logits);
}

TEST(OwnSources, AFailedEncoderLeavesNoSource) {
  const Session session(config(),
                        model(Sizes{.sequences = 2, .source = 6, .sources = 2, .features = true}));
  const std::vector<float> features(6 * kSourceWidth, 0.5f), failing(6 * kSourceWidth, -1);
  ASSERT_EQ(llmc_encode_features(session, features.data(), 6), LLMC_OK);
  std::uint32_t fork = 0;
  ASSERT_EQ(llmc_fork(session, 0, &fork), LLMC_OK);
  EXPECT_EQ(llmc_encode_features(session, failing.data(), 6), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_source_size(session), 0u);
  EXPECT_EQ(llmc_append(session, 4), LLMC_ERROR_SOURCE);
  ASSERT_EQ(llmc_select(session, fork), LLMC_OK);
  EXPECT_EQ(llmc_append(session, 4), LLMC_OK) << "the fork keeps the first one";
}

}  // namespace
}  // namespace llmc::fake
