#include <gtest/gtest.h>

#include "llmc/shards.h"
#include "llmc/speculation.h"
#include "tests/runtime/core/fake_model.h"

namespace llmc::fake {
namespace {

llmc_model shard_model(std::uint32_t shard, std::uint32_t shards, Sizes sizes = {}) {
  llmc_model m = model(sizes);
  m.shard = shard;
  m.shards = shards;
  if (shard + 1 != shards) m.head = nullptr;
  m.arena_bytes = llmc_arena_layout_of_model(&m).total;
  return m;
}

TEST(Shard, OtherCallsThatRunTokensAreRefused) {
  Session session(config(), shard_model(0, 2));
  ASSERT_EQ(session.status, LLMC_OK);
  EXPECT_EQ(llmc_shard(session), 0u);
  EXPECT_EQ(llmc_shards(session), 2u);
  EXPECT_EQ(llmc_hidden_width(session), kLanes * 2);
  const std::int32_t token = 3;
  std::int32_t next = 0;
  const std::uint32_t sequence = 0;
  EXPECT_EQ(llmc_prefill(session, &token, 1, nullptr), LLMC_ERROR_SHARD);
  EXPECT_EQ(llmc_append(session, token), LLMC_ERROR_SHARD);
  EXPECT_EQ(llmc_append_batch(session, &sequence, 1, &token), LLMC_ERROR_SHARD);
  EXPECT_EQ(llmc_step(session, &next), LLMC_ERROR_NO_LOGITS);
  const std::vector<float> row = rows_of({3});
  EXPECT_EQ(llmc_append_embeddings(session, row.data(), 1, nullptr), LLMC_ERROR_SHARD);
  EXPECT_EQ(llmc_position(session), 0u);
}

TEST(Shard, TheLastOneTakesNoSteps) {
  llmc_model m = shard_model(1, 2);
  m.forward = [](const llmc_run* run) {  // the fake has rows or tokens, not both
    llmc_run of_tokens = *run;
    of_tokens.embeddings = nullptr;
    forward<kBlock>(&of_tokens);
  };
  const Session last(config(), m);
  const std::vector<std::int32_t> ids = prompt(4);
  const std::vector<float> rows(4 * kLanes * 2);
  ASSERT_EQ(llmc_forward_hidden(last, ids.data(), rows.data(), 4, 0, nullptr), LLMC_OK);
  std::int32_t draft[3] = {0, 1, 2}, tokens[3];
  std::size_t count = 7;
  ASSERT_EQ(llmc_sample(last, draft), LLMC_OK);
  EXPECT_EQ(llmc_step(last, tokens), LLMC_ERROR_SHARD);
  EXPECT_EQ(llmc_step_draft(last, draft, 3, nullptr, 0, tokens, &count), LLMC_ERROR_SHARD);
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(llmc_step_lookup(last, 3, nullptr, 0, tokens, &count), LLMC_ERROR_SHARD);
  EXPECT_EQ(llmc_position(last), 4u);
}

TEST(Shard, ArgumentsAreChecked) {
  std::vector<float> rows(kChunk * kLanes * 2), hidden(kChunk * kLanes * 2);
  const std::vector<std::int32_t> ids = prompt(kContext);
  Session whole;
  EXPECT_EQ(llmc_forward_hidden(whole, ids.data(), nullptr, 1, 0, hidden.data()), LLMC_ERROR_SHARD);
  Session first(config(), shard_model(0, 2));
  const auto run = [&](const std::int32_t* tokens, const float* from, std::size_t n,
                       std::size_t more,
                       float* to) { return llmc_forward_hidden(first, tokens, from, n, more, to); };
  EXPECT_EQ(llmc_forward_hidden(nullptr, ids.data(), nullptr, 1, 0, hidden.data()),
            LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(run(nullptr, nullptr, 1, 0, hidden.data()), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(run(ids.data(), nullptr, 0, 0, hidden.data()), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(run(ids.data(), nullptr, kChunk + 1, 0, hidden.data()), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(run(ids.data(), rows.data(), 1, 0, hidden.data()), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(run(ids.data(), nullptr, 1, 0, nullptr), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(run(ids.data(), nullptr, 1, kContext, hidden.data()), LLMC_ERROR_CONTEXT_FULL);
  EXPECT_EQ(run(ids.data(), nullptr, 1, SIZE_MAX, hidden.data()), LLMC_ERROR_CONTEXT_FULL);
  const std::int32_t wrong = kVocab;
  EXPECT_EQ(run(&wrong, nullptr, 1, 0, hidden.data()), LLMC_ERROR_TOKEN);
  EXPECT_EQ(llmc_position(first), 0u);
  // The rows of the whole model, which the fake has in its only layer.
  ASSERT_EQ(run(ids.data(), nullptr, kChunk, 3, hidden.data()), LLMC_OK);
  EXPECT_EQ(llmc_position(first), kChunk);
  EXPECT_EQ(llmc_logits(first), nullptr);
  EXPECT_EQ(llmc_logits_at(first, 0), nullptr);
  Session reference;
  ASSERT_EQ(llmc_prefill(reference, ids.data(), kChunk, nullptr), LLMC_OK);
  std::vector<float> logits(kVocab);
  std::uint32_t best = 0;
  head(nullptr, hidden.data() + (kChunk - 1) * kLanes * 2, 1, logits.data(), &best);
  EXPECT_EQ(hash_logits(logits.data()), hash_logits(llmc_logits(reference)));
}

TEST(Shard, ABatchHasTheRowsOfTheWholeModels) {
  const Sizes sizes{.sequences = 2, .batch = 2};
  Session first(config(), shard_model(0, 2, sizes)), reference(config(), model(sizes));
  const std::uint32_t sequences[] = {0, 1};
  const std::int32_t tokens[] = {5, 9};
  std::vector<float> hidden(2 * kLanes * 2), rows(2 * kLanes * 2);
  for (llmc_session* session : {first.session, reference.session}) {
    std::uint32_t added = 0;
    ASSERT_EQ(llmc_new_sequence(session, &added), LLMC_OK);
    ASSERT_EQ(added, 1u);
  }
  const auto run = [&](llmc_session* session, const std::uint32_t* members, std::size_t n,
                       const std::int32_t* ids, const float* from, float* to) {
    return llmc_forward_hidden_batch(session, members, n, ids, from, to);
  };
  float* const to = hidden.data();
  EXPECT_EQ(run(nullptr, sequences, 2, tokens, nullptr, to), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(run(first, nullptr, 2, tokens, nullptr, to), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(run(first, sequences, 2, nullptr, nullptr, to), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(run(first, sequences, 0, tokens, nullptr, to), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(run(first, sequences, 2, tokens, rows.data(), to), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(run(first, sequences, 2, tokens, nullptr, nullptr), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(run(reference, sequences, 2, tokens, nullptr, to), LLMC_ERROR_SHARD);
  const std::uint32_t same[] = {1, 1}, unknown[] = {0, 7};
  EXPECT_EQ(run(first, same, 2, tokens, nullptr, to), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(run(first, unknown, 2, tokens, nullptr, to), LLMC_ERROR_SEQUENCE);
  EXPECT_EQ(llmc_position(first), 0u);
  ASSERT_EQ(run(first, sequences, 2, tokens, nullptr, to), LLMC_OK);
  ASSERT_EQ(llmc_append_batch(reference, sequences, 2, tokens), LLMC_OK);
  for (std::uint32_t i = 0; i < 2; ++i) {
    ASSERT_EQ(llmc_select(first, i), LLMC_OK);
    ASSERT_EQ(llmc_select(reference, i), LLMC_OK);
    EXPECT_EQ(llmc_position(first), 1u);
    EXPECT_EQ(llmc_logits(first), nullptr);
    std::vector<float> logits(kVocab);
    std::uint32_t best = 0;
    head(nullptr, hidden.data() + i * kLanes * 2, 1, logits.data(), &best);
    EXPECT_EQ(hash_logits(logits.data()), hash_logits(llmc_logits(reference))) << i;
  }
}

TEST(Shard, AStateWithARowIsForgedWhereThereIsNoHead) {
  const std::vector<std::int32_t> ids = prompt(3);
  Session whole;
  ASSERT_EQ(llmc_prefill(whole, ids.data(), ids.size(), nullptr), LLMC_OK);
  const std::size_t bytes = llmc_state_bytes(whole);
  std::vector<unsigned char> state(bytes);
  ASSERT_EQ(llmc_state_save(whole, state.data(), bytes, nullptr), LLMC_OK);
  Session first(config(), shard_model(0, 2));
  EXPECT_EQ(llmc_state_load(first, state.data(), bytes), LLMC_ERROR_STATE);
  EXPECT_EQ(llmc_logits(first), nullptr);
}

TEST(Shard, DescriptorsAreChecked) {
  llmc_model m = shard_model(0, 2);
  m.head = head;
  EXPECT_EQ(Session(config(), m).status, LLMC_ERROR_MODEL);
  m = shard_model(1, 2);
  m.head = nullptr;
  EXPECT_EQ(Session(config(), m).status, LLMC_ERROR_MODEL);
  m = shard_model(1, 2);
  EXPECT_EQ(Session(config(), m).status, LLMC_OK);
  m.shard = 2;
  EXPECT_EQ(Session(config(), m).status, LLMC_ERROR_MODEL);
  m = model();
  m.shard = 1;
  EXPECT_EQ(Session(config(), m).status, LLMC_ERROR_MODEL);
}

}  // namespace
}  // namespace llmc::fake
