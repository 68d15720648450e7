// After llmc_session_init no function of llmc.h asks for memory.
#include <gmock/gmock.h>
#include <malloc.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <set>

#include "tests/runtime/core/free_grammar.h"
#include "tests/support/load.h"

namespace llmc::fake {
namespace {

/// What the calls below work with; all memory is here before the first one.
struct Stage {
  Session session{config(), model({.sequences = 3, .batch = 2})};
  std::unique_ptr<llmc_model> second = std::make_unique<llmc_model>(model());
  Arena second_arena{second->arena_bytes};
  std::vector<std::int32_t> tokens = prompt(30);
  std::vector<unsigned char> state = std::vector<unsigned char>(1 << 16);
  std::size_t written = 0, count = 0;
  FreeGrammar tables;
  alignas(64) unsigned char memory[LLMC_GRAMMAR_BYTES];
  llmc_grammar* grammar = nullptr;
  llmc_candidate candidates[4] = {};
  llmc_sampling sampling{};
  std::uint32_t fresh = 0, fork = 0, mask[2] = {};
  std::int32_t token = 0;
  float logprob = 0.0f;
  int text = 0;
};

struct Call {
  const char* name;
  bool (*works)(Stage& t, llmc_session* s);
};

constexpr llmc_logit_bias kBias[] = {{3, -1.0f}};
constexpr std::uint32_t kBoth[] = {0, 1};

/// In this order; each of them does its work.
constexpr Call kCalls[] = {
    {"llmc_session_init",
     [](Stage& t, llmc_session*) {
       llmc_session* other = nullptr;
       return llmc_session_init(t.second.get(), t.second_arena.data(), t.second_arena.size(),
                                nullptr, &other) == LLMC_OK;
     }},
    {"llmc_prefill",
     [](Stage& t, auto* s) { return llmc_prefill(s, t.tokens.data(), 20, nullptr) == LLMC_OK; }},
    {"llmc_logits_at", [](Stage&, auto* s) { return llmc_logits_at(s, 0) != nullptr; }},
    {"llmc_logits_rows", [](Stage&, auto* s) { return llmc_logits_rows(s, 0, 2) != nullptr; }},
    {"llmc_logits", [](Stage&, auto* s) { return llmc_logits(s) != nullptr; }},
    {"llmc_append", [](Stage&, auto* s) { return llmc_append(s, 1) == LLMC_OK; }},
    {"llmc_step", [](Stage& t, auto* s) { return llmc_step(s, &t.token) == LLMC_OK; }},
    {"llmc_sampling_defaults",
     [](Stage& t, auto*) { return llmc_sampling_defaults(&t.sampling), t.sampling.top_k > 0; }},
    {"llmc_sampling_order",
     [](Stage& t, auto*) {
       return llmc_sampling_order(&t.sampling, LLMC_SAMPLERS_TODAY) == LLMC_OK;
     }},
    {"llmc_set_sampling",
     [](Stage& t, auto* s) { return llmc_set_sampling(s, &t.sampling) == LLMC_OK; }},
    {"llmc_set_dry_breakers",
     [](Stage&, auto* s) { return llmc_set_dry_breakers(s, nullptr) == LLMC_OK; }},
    {"llmc_set_logit_bias",
     [](Stage&, auto* s) { return llmc_set_logit_bias(s, kBias, 1) == LLMC_OK; }},
    {"llmc_sample", [](Stage& t, auto* s) { return llmc_sample(s, &t.token) == LLMC_OK; }},
    {"llmc_candidates",
     [](Stage& t, auto* s) {
       return llmc_candidates(s, LLMC_CANDIDATES_SAMPLER, t.candidates, 4, &t.count) == LLMC_OK;
     }},
    {"llmc_logprob", [](Stage& t, auto* s) { return llmc_logprob(s, 3, &t.logprob) == LLMC_OK; }},
    {"llmc_tokens",
     [](Stage& t, auto* s) { return llmc_tokens(s, 0, t.tokens.data(), 22) == LLMC_OK; }},
    {"llmc_state_bytes", [](Stage& t, auto* s) { return llmc_state_bytes(s) <= t.state.size(); }},
    {"llmc_state_save",
     [](Stage& t, auto* s) {
       return llmc_state_save(s, t.state.data(), t.state.size(), &t.written) == LLMC_OK;
     }},
    {"llmc_rewind", [](Stage&, auto* s) { return llmc_rewind(s, 5) == LLMC_OK; }},
    {"llmc_state_load",
     [](Stage& t, auto* s) { return llmc_state_load(s, t.state.data(), t.written) == LLMC_OK; }},
    {"llmc_slide", [](Stage&, auto* s) { return llmc_slide(s, 2, 4) == LLMC_OK; }},
    {"llmc_fork", [](Stage& t, auto* s) { return llmc_fork(s, 0, &t.fork) == LLMC_OK; }},
    {"llmc_append_batch",
     [](Stage& t, auto* s) { return llmc_append_batch(s, kBoth, 2, t.tokens.data()) == LLMC_OK; }},
    {"llmc_set_guidance", [](Stage&, auto* s) { return llmc_set_guidance(s, 1, 1.5f) == LLMC_OK; }},
    {"llmc_step", [](Stage& t, auto* s) { return llmc_step(s, &t.token) == LLMC_OK; }},
    {"llmc_set_guidance", [](Stage&, auto* s) { return llmc_set_guidance(s, 1, 1.0f) == LLMC_OK; }},
    {"llmc_grammar_init",
     [](Stage& t, auto*) {
       return llmc_grammar_init(t.memory, sizeof t.memory, &t.tables, t.tables.bytes(),
                                &t.grammar) == LLMC_OK;
     }},
    {"llmc_grammar_accept",
     [](Stage& t, auto*) { return llmc_grammar_accept(t.grammar, 7) == LLMC_OK; }},
    {"llmc_grammar_allow",
     [](Stage& t, auto*) {
       return llmc_grammar_allow(t.grammar, t.mask, 2) == LLMC_OK && t.mask[0] == 0xFFFFFFFFu;
     }},
    {"llmc_grammar_text_state",
     [](Stage& t, auto*) { return llmc_grammar_text_state(t.grammar) == LLMC_GRAMMAR_MAY_END; }},
    {"llmc_grammar_restart",
     [](Stage& t, auto*) { return llmc_grammar_restart(t.grammar) == LLMC_OK; }},
    {"llmc_set_grammar",
     [](Stage& t, auto* s) { return llmc_set_grammar(s, t.grammar) == LLMC_OK; }},
    {"llmc_step_batch",
     [](Stage& t, auto* s) { return llmc_step_batch(s, kBoth, 2, t.tokens.data()) == LLMC_OK; }},
    {"llmc_text_state", [](Stage& t, auto* s) { return llmc_text_state(s, &t.text) == LLMC_OK; }},
    {"llmc_new_sequence",
     [](Stage& t, auto* s) { return llmc_new_sequence(s, &t.fresh) == LLMC_OK; }},
    {"llmc_select", [](Stage& t, auto* s) { return llmc_select(s, t.fresh) == LLMC_OK; }},
    {"llmc_release", [](Stage& t, auto* s) { return llmc_release(s, t.fork) == LLMC_OK; }},
    {"llmc_reset", [](Stage&, auto* s) { return llmc_reset(s) == LLMC_OK; }},
    {"llmc_selected", [](Stage& t, auto* s) { return llmc_selected(s) == t.fresh; }},
    {"llmc_last_chunk", [](Stage&, auto* s) { return llmc_last_chunk(s) == 0; }},
    {"llmc_logits_computed", [](Stage&, auto* s) { return llmc_logits_computed(s) <= kVocab; }},
    {"llmc_position", [](Stage&, auto* s) { return llmc_position(s) == 0; }},
    {"llmc_prompt_size", [](Stage&, auto* s) { return llmc_prompt_size(s) == 0; }},
    {"llmc_context_size", [](Stage&, auto* s) { return llmc_context_size(s) == kContext; }},
    {"llmc_chunk_size", [](Stage&, auto* s) { return llmc_chunk_size(s) == kChunk; }},
    {"llmc_batch_size", [](Stage&, auto* s) { return llmc_batch_size(s) == 2; }},
    {"llmc_vocabulary_size", [](Stage&, auto* s) { return llmc_vocabulary_size(s) == kVocab; }},
    {"llmc_thread_count", [](Stage&, auto* s) { return llmc_thread_count(s) == 1; }},
    {"llmc_sequence_limit", [](Stage&, auto* s) { return llmc_sequence_limit(s) == 3; }},
    {"llmc_pool_blocks", [](Stage&, auto* s) { return llmc_pool_blocks(s) > 0; }},
    {"llmc_free_blocks", [](Stage&, auto* s) { return llmc_free_blocks(s) > 0; }},
    {"llmc_source_limit", [](Stage&, auto* s) { return llmc_source_limit(s) == 0; }},
    {"llmc_source_minimum", [](Stage&, auto* s) { return llmc_source_minimum(s) == 0; }},
    {"llmc_source_width", [](Stage&, auto* s) { return llmc_source_width(s) == 0; }},
    {"llmc_source_size", [](Stage&, auto* s) { return llmc_source_size(s) == 0; }},
    {"llmc_encode",
     [](Stage&, auto* s) {
       const std::int32_t id = 1;
       return llmc_encode(s, &id, 1) == LLMC_ERROR_SOURCE;
     }},
    {"llmc_encode_features",
     [](Stage&, auto* s) {
       const float feature = 1;
       return llmc_encode_features(s, &feature, 1) == LLMC_ERROR_SOURCE;
     }},
    {"llmc_status_text",
     [](Stage&, auto*) { return llmc_status_text(LLMC_ERROR_BUSY) != nullptr; }},
};

TEST(Session, NothingIsAllocatedAfterInit) {
  if (tests::kAddressSanitizer) GTEST_SKIP() << "the sanitizer's allocator keeps no mallinfo2";
  const auto stage = std::make_unique<Stage>();
  for (const Call& call : kCalls) {
    const std::size_t before = mallinfo2().uordblks;
    const bool works = call.works(*stage, stage->session);
    const std::size_t after = mallinfo2().uordblks;
    ASSERT_TRUE(works) << call.name;
    EXPECT_EQ(before, after) << call.name;
  }
}

TEST(Session, NoFunctionIsLeftOutOfThat) {
  std::ifstream file(LLMC_SOURCE_DIR "/runtime/include/llmc/llmc.h");
  std::string header{std::istreambuf_iterator<char>(file), {}};
  header = std::regex_replace(header, std::regex(R"(/\*([^*]|\*[^/])*\*/)"), "");
  std::set<std::string> declared, called;
  const std::regex function(R"((?:^|\n)[a-z][^\n;(]*\b(llmc_\w+)\()");
  for (std::sregex_iterator i(header.begin(), header.end(), function), end; i != end; ++i)
    declared.insert((*i)[1]);
  for (const Call& call : kCalls) called.insert(call.name);
  EXPECT_EQ(declared, called);
}

}  // namespace
}  // namespace llmc::fake
