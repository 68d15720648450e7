// What a callback may do with the session it is called from: look at numbers, nothing else.
#include <gtest/gtest.h>

#include <memory>

#include "llmc/speculation.h"
#include "tests/runtime/core/plain_model.h"

namespace llmc::fake {
namespace {

struct GuardedCall {
  const char* name;
  llmc_status (*make)(llmc_session*);
};

std::int32_t token = 0;
std::uint32_t number = 0;
std::size_t count = 0;
float logprob = 0.0f;
int text_state = 0;
llmc_candidate candidate{};
unsigned char bytes[8192];

constexpr GuardedCall kGuardedCalls[] = {
    {"llmc_prefill", [](auto* s) { return llmc_prefill(s, &token, 1, nullptr); }},
    {"llmc_append", [](auto* s) { return llmc_append(s, 1); }},
    {"llmc_append_embeddings",
     [](auto* s) { return llmc_append_embeddings(s, &logprob, 0, nullptr); }},
    {"llmc_append_embeddings_at",
     [](auto* s) { return llmc_append_embeddings_at(s, &logprob, &token, 0, nullptr); }},
    {"llmc_step", [](auto* s) { return llmc_step(s, &token); }},
    {"llmc_encode_image",
     [](auto* s) { return llmc_encode_image(s, nullptr, nullptr, &logprob, nullptr); }},
    {"llmc_sample", [](auto* s) { return llmc_sample(s, &token); }},
    {"llmc_set_sampling", [](auto* s) { return llmc_set_sampling(s, nullptr); }},
    {"llmc_set_dry_breakers", [](auto* s) { return llmc_set_dry_breakers(s, nullptr); }},
    {"llmc_set_logit_bias", [](auto* s) { return llmc_set_logit_bias(s, nullptr, 0); }},
    {"llmc_set_guidance", [](auto* s) { return llmc_set_guidance(s, 1, 1.0f); }},
    {"llmc_candidates",
     [](auto* s) { return llmc_candidates(s, LLMC_CANDIDATES_MODEL, &candidate, 1, &count); }},
    {"llmc_logprob", [](auto* s) { return llmc_logprob(s, 1, &logprob); }},
    {"llmc_rewind", [](auto* s) { return llmc_rewind(s, 0); }},
    {"llmc_reset", [](auto* s) { return llmc_reset(s); }},
    {"llmc_slide", [](auto* s) { return llmc_slide(s, 0, 1); }},
    {"llmc_state_save", [](auto* s) { return llmc_state_save(s, bytes, sizeof bytes, &count); }},
    {"llmc_state_load", [](auto* s) { return llmc_state_load(s, bytes, sizeof bytes); }},
    {"llmc_select", [](auto* s) { return llmc_select(s, 0); }},
    {"llmc_new_sequence", [](auto* s) { return llmc_new_sequence(s, &number); }},
    {"llmc_fork", [](auto* s) { return llmc_fork(s, 0, &number); }},
    {"llmc_release", [](auto* s) { return llmc_release(s, 1); }},
    {"llmc_append_batch", [](auto* s) { return llmc_append_batch(s, &number, 1, &token); }},
    {"llmc_step_draft",
     [](auto* s) { return llmc_step_draft(s, nullptr, 0, nullptr, 0, &token, &count); }},
    {"llmc_step_lookup",
     [](auto* s) { return llmc_step_lookup(s, 1, nullptr, 0, &token, &count); }},
    {"llmc_step_batch", [](auto* s) { return llmc_step_batch(s, &number, 1, &token); }},
    {"llmc_set_grammar", [](auto* s) { return llmc_set_grammar(s, nullptr); }},
    {"llmc_text_state", [](auto* s) { return llmc_text_state(s, &text_state); }},
};

/// Counts how often it was called, and refuses every call it makes.
struct Intruder {
  llmc_session* session = nullptr;
  int visits = 0;

  void visit() {
    if (session == nullptr) return;
    ++visits;
    for (const GuardedCall& call : kGuardedCalls)
      EXPECT_EQ(call.make(session), LLMC_ERROR_BUSY) << call.name;
    EXPECT_EQ(llmc_tokens(session, 0, &token, llmc_position(session) > 0), LLMC_OK);
    EXPECT_EQ(llmc_logits(session), nullptr);
    EXPECT_EQ(llmc_logits_at(session, 0), nullptr);
    EXPECT_EQ(llmc_logits_rows(session, 0, 1), nullptr);
  }
};

TEST(Busy, EveryFunctionSaysSoInsideACallback) {
  Intruder intruder;
  llmc_config c = config();
  c.cancel = [](void* user) { return static_cast<Intruder*>(user)->visit(), 0; };
  c.cancel_user = &intruder;
  c.parallel_for = [](void* user, void (*fn)(void*, std::uint32_t), void* arg, std::uint32_t n) {
    static_cast<Intruder*>(user)->visit();
    for (std::uint32_t i = 0; i < n; ++i) fn(arg, i);
  };
  c.parallel_user = &intruder;
  Session s(c, model({.sequences = 3, .batch = 2}));
  intruder.session = s;
  const auto tokens = prompt(20);
  EXPECT_EQ(llmc_prefill(s, tokens.data(), 20, nullptr), LLMC_OK);
  EXPECT_EQ(hash_logits(llmc_logits(s)), plain_hash(tokens));
  EXPECT_EQ(llmc_position(s), 20u);
  EXPECT_EQ(intruder.visits, 3 + 3 * 2);           // each chunk: cancel, and the model's two stages
  for (const GuardedCall& call : kGuardedCalls) {  // from outside they are as usual
    EXPECT_NE(call.make(s), LLMC_ERROR_BUSY) << call.name;
  }
}

TEST(Busy, ARefusedPromptLeavesTheCountOfTheOneThatRuns) {
  struct Shared {
    llmc_session* session = nullptr;
    std::size_t done = 0;
    int polls = 0;
  } shared;
  llmc_config c = config();
  c.cancel = [](void* user) {
    auto& self = *static_cast<Shared*>(user);
    EXPECT_EQ(self.done, static_cast<std::size_t>(self.polls++) * kChunk);
    const std::int32_t one = 1;
    EXPECT_EQ(llmc_prefill(self.session, &one, 1, &self.done), LLMC_ERROR_BUSY);
    if (self.polls == 3) self.done = 1000;  // it is the application's to write to
    return 0;
  };
  c.cancel_user = &shared;
  Session s(c);
  shared.session = s;
  const auto tokens = prompt(40);
  EXPECT_EQ(llmc_prefill(s, tokens.data(), 40, &shared.done), LLMC_OK);
  EXPECT_EQ(shared.done, 40u);
  EXPECT_EQ(llmc_position(s), 40u);
  EXPECT_EQ(hash_logits(llmc_logits(s)), plain_hash(tokens));
  EXPECT_TRUE(s.arena.guard_intact());
}

}  // namespace
}  // namespace llmc::fake
