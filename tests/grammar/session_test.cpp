#include <gtest/gtest.h>

#include "tests/grammar/fake_vocabulary.h"

namespace llmc::hosted::grammar::testing {
namespace {

class GrammarSession : public ::testing::Test {
 protected:
  GrammarSession()
      : grammar_(parsed(kLists)),
        vocabulary_(fake_vocabulary()),
        tables_(*build_tables(grammar_, vocabulary_)) {}

  llmc_grammar* make(unsigned char* memory) const {
    llmc_grammar* grammar = nullptr;
    EXPECT_EQ(llmc_grammar_init(memory, LLMC_GRAMMAR_BYTES, tables_.bytes.data(),
                                tables_.bytes.size(), &grammar),
              LLMC_OK);
    return grammar;
  }
  std::string text_of(const std::vector<std::int32_t>& tokens) const {
    std::string text;
    for (const std::int32_t token : tokens)
      text += vocabulary_.tokens[static_cast<std::size_t>(token)];
    return text;
  }
  /// Steps until the end or `most` tokens.
  static std::vector<std::int32_t> run(llmc_session* session, std::size_t most = 30) {
    std::vector<std::int32_t> tokens;
    std::int32_t token = -1;
    while (tokens.size() < most && llmc_step(session, &token) == LLMC_OK && token != kEnd)
      tokens.push_back(token);
    return tokens;
  }
  static llmc_sampling random_sampling(std::uint64_t seed) {
    llmc_sampling sampling{};
    sampling.temperature = 1.5f;
    sampling.seed = seed;
    return sampling;
  }
  /// Sets random sampling, the prompt 30 31, and the grammar.
  void begin(llmc_session* session) {
    const std::vector<std::int32_t> prompt = {30, 31};
    ASSERT_EQ(llmc_prefill(session, prompt.data(), prompt.size(), nullptr), LLMC_OK);
    const llmc_sampling sampling = random_sampling(4);
    ASSERT_EQ(llmc_set_sampling(session, &sampling), LLMC_OK);
    ASSERT_EQ(llmc_set_grammar(session, make(memory_)), LLMC_OK);
  }

  Grammar grammar_;
  Vocabulary vocabulary_;
  Tables tables_;
  alignas(64) unsigned char memory_[LLMC_GRAMMAR_BYTES];
};

TEST_F(GrammarSession, HoldsWhatIsChosen) {
  int complete = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    fake::Session session;
    const std::vector<std::int32_t> prompt = {30, 31, static_cast<std::int32_t>(seed % 50)};
    ASSERT_EQ(llmc_prefill(session, prompt.data(), prompt.size(), nullptr), LLMC_OK);
    const llmc_sampling sampling = random_sampling(seed);
    ASSERT_EQ(llmc_set_sampling(session, seed % 3 == 0 ? nullptr : &sampling), LLMC_OK);
    ASSERT_EQ(llmc_set_grammar(session, make(memory_)), LLMC_OK);
    std::vector<std::int32_t> tokens;
    std::int32_t token = -1;
    int state = LLMC_GRAMMAR_INCOMPLETE;
    while (state != LLMC_GRAMMAR_COMPLETE && tokens.size() < 40 &&
           llmc_step(session, &token) == LLMC_OK && token != kEnd) {
      tokens.push_back(token);
      ASSERT_EQ(llmc_text_state(session, &state), LLMC_OK);
      ASSERT_EQ(state != LLMC_GRAMMAR_INCOMPLETE, belongs(grammar_, text_of(tokens)))
          << text_of(tokens);
    }
    if (state == LLMC_GRAMMAR_INCOMPLETE) continue;
    ++complete;
    EXPECT_TRUE(belongs(grammar_, text_of(tokens))) << text_of(tokens);
  }
  EXPECT_GT(complete, 20);
}

TEST_F(GrammarSession, IsAFunctionOfTheTokens) {
  fake::Session session;
  ASSERT_NO_FATAL_FAILURE(begin(session));
  const std::vector<std::int32_t> open = {13, 1, 12};  // [[1,
  ASSERT_EQ(llmc_prefill(session, open.data(), open.size(), nullptr), LLMC_OK);
  const auto first = run(session);
  ASSERT_FALSE(first.empty());
  // Rewind, another text, rewind again: the same tokens.
  ASSERT_EQ(llmc_rewind(session, 4), LLMC_OK);
  const std::vector<std::int32_t> other = {11, 11};  // ]]
  ASSERT_EQ(llmc_prefill(session, other.data(), other.size(), nullptr), LLMC_OK);
  int state = -1;
  ASSERT_EQ(llmc_text_state(session, &state), LLMC_OK);
  EXPECT_EQ(state, LLMC_GRAMMAR_COMPLETE);
  ASSERT_EQ(llmc_rewind(session, 4), LLMC_OK);
  ASSERT_EQ(llmc_append(session, 12), LLMC_OK);
  EXPECT_EQ(run(session), first);
}

TEST_F(GrammarSession, TheTextBeginsWhereItDidAfterARewindBeforeIt) {
  fake::Session session;
  ASSERT_NO_FATAL_FAILURE(begin(session));
  const auto first = run(session);
  ASSERT_FALSE(first.empty());
  std::int32_t token = -7;
  int state = -1;
  // Logits after the prompt need its last token again, which is not part of the text.
  for (const std::size_t back : {1u, 0u}) {
    ASSERT_EQ(llmc_rewind(session, back), LLMC_OK);
    ASSERT_EQ(llmc_text_state(session, &state), LLMC_OK);
    EXPECT_EQ(state, LLMC_GRAMMAR_INCOMPLETE);
    if (back == 0) {
      ASSERT_EQ(llmc_append(session, 32), LLMC_OK);  // after a shorter prompt no token is chosen
      EXPECT_EQ(llmc_step(session, &token), LLMC_ERROR_POSITION);
      EXPECT_EQ(llmc_sample(session, &token), LLMC_ERROR_POSITION);
      EXPECT_EQ(token, -7);
      ASSERT_EQ(llmc_reset(session), LLMC_OK);
      ASSERT_EQ(llmc_append(session, 30), LLMC_OK);
    }
    ASSERT_EQ(llmc_append(session, 31), LLMC_OK);
    EXPECT_EQ(run(session), first) << back;
  }
  // A prompt of another length requires another call of llmc_set_grammar.
  ASSERT_EQ(llmc_reset(session), LLMC_OK);
  for (const std::int32_t other : {30, 31, 32, 33}) ASSERT_EQ(llmc_append(session, other), LLMC_OK);
  EXPECT_EQ(llmc_step(session, &token), LLMC_ERROR_GRAMMAR);
  ASSERT_EQ(llmc_set_grammar(session, make(memory_)), LLMC_OK);
  EXPECT_EQ(llmc_step(session, &token), LLMC_OK);
}

TEST_F(GrammarSession, TokensThatDoNotBelongAreAStatus) {
  fake::Session session;
  ASSERT_EQ(llmc_append(session, 30), LLMC_OK);
  ASSERT_EQ(llmc_set_grammar(session, make(memory_)), LLMC_OK);
  ASSERT_EQ(llmc_append(session, 20), LLMC_OK);  // "a": not allowed, but appended
  std::int32_t token = -7;
  EXPECT_EQ(llmc_step(session, &token), LLMC_ERROR_GRAMMAR);
  EXPECT_EQ(llmc_sample(session, &token), LLMC_ERROR_GRAMMAR);
  EXPECT_EQ(token, -7);
  ASSERT_EQ(llmc_rewind(session, 1), LLMC_OK);
  ASSERT_EQ(llmc_append(session, 10), LLMC_OK);
  ASSERT_EQ(llmc_append(session, 11), LLMC_OK);  // []: complete
  ASSERT_EQ(llmc_step(session, &token), LLMC_OK);
  EXPECT_EQ(token, kEnd);
  EXPECT_EQ(llmc_step(session, &token), LLMC_ERROR_NO_CANDIDATE);
  EXPECT_EQ(llmc_set_grammar(session, nullptr), LLMC_OK);
  EXPECT_EQ(llmc_step(session, &token), LLMC_OK);
}

TEST_F(GrammarSession, TablesOfALargerVocabularyAreRefused) {
  Vocabulary large = vocabulary_;
  large.tokens.resize(fake::kVocab + 1);
  tables_ = *build_tables(grammar_, large);
  fake::Session session;
  EXPECT_EQ(llmc_set_grammar(session, make(memory_)), LLMC_ERROR_GRAMMAR_TABLES);
  int state = -1;
  EXPECT_EQ(llmc_text_state(session, &state), LLMC_OK);
  EXPECT_EQ(state, LLMC_GRAMMAR_MAY_END);
}

TEST_F(GrammarSession, TablesOfOtherTokensAreRefused) {
  const std::vector<std::int32_t> prompt = {30};
  llmc_model model = fake::model();
  model.vocabulary_hash = vocabulary_hash(vocabulary_);
  fake::Session same(fake::config(), model);
  ASSERT_EQ(llmc_prefill(same, prompt.data(), 1, nullptr), LLMC_OK);
  EXPECT_EQ(llmc_set_grammar(same, make(memory_)), LLMC_OK);
  EXPECT_FALSE(run(same).empty());

  Vocabulary other = vocabulary_;  // same size, two tokens exchanged
  std::swap(other.tokens[0], other.tokens[1]);
  model.vocabulary_hash = vocabulary_hash(other);
  fake::Session session(fake::config(), model);
  ASSERT_EQ(llmc_prefill(session, prompt.data(), 1, nullptr), LLMC_OK);
  EXPECT_EQ(llmc_set_grammar(session, make(memory_)), LLMC_ERROR_GRAMMAR_TABLES);
  int state = LLMC_GRAMMAR_INCOMPLETE;
  EXPECT_EQ(llmc_text_state(session, &state), LLMC_OK);
  EXPECT_EQ(state, LLMC_GRAMMAR_MAY_END) << "there is no grammar now";
}

TEST_F(GrammarSession, TwoSessionsMayShareOne) {
  fake::Session a, b;
  llmc_grammar* const grammar = make(memory_);
  const llmc_sampling sampling = random_sampling(2);
  std::vector<std::int32_t> texts[2][2];
  for (const int round : {0, 1}) {  // sequentially, then in turn
    llmc_session* const sessions[] = {a, b};
    for (llmc_session* const session : sessions) {
      ASSERT_EQ(llmc_reset(session), LLMC_OK);
      ASSERT_EQ(llmc_append(session, session == sessions[0] ? 30 : 31), LLMC_OK);
      ASSERT_EQ(llmc_set_sampling(session, &sampling), LLMC_OK);
      ASSERT_EQ(llmc_set_grammar(session, grammar), LLMC_OK);
      ASSERT_EQ(llmc_append(session, 13), LLMC_OK);
      if (round == 0) texts[0][session == sessions[1]] = run(session, 8);
    }
    for (int i = 0; i < 8 && round == 1; ++i) {
      for (const int which : {0, 1}) {
        std::int32_t token = -1;
        if (texts[1][which].size() == texts[0][which].size()) continue;
        ASSERT_EQ(llmc_step(sessions[which], &token), LLMC_OK);
        texts[1][which].push_back(token);
      }
    }
  }
  EXPECT_EQ(texts[0][0], texts[1][0]);
  EXPECT_EQ(texts[0][1], texts[1][1]);
}

TEST_F(GrammarSession, SlidingSparesTheText) {
  fake::Session session;
  for (std::int32_t i = 0; i < 20; ++i) ASSERT_EQ(llmc_append(session, 30), LLMC_OK);
  ASSERT_EQ(llmc_set_grammar(session, make(memory_)), LLMC_OK);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(llmc_append(session, 10), LLMC_OK);
  ASSERT_EQ(llmc_append(session, 11), LLMC_OK);
  EXPECT_EQ(llmc_slide(session, 4, 17), LLMC_ERROR_CONTEXT_FULL);
  EXPECT_EQ(llmc_position(session), 23u);
  ASSERT_EQ(llmc_slide(session, 4, 10), LLMC_OK);
  ASSERT_EQ(llmc_append(session, 11), LLMC_OK);
  int state = -1;
  ASSERT_EQ(llmc_text_state(session, &state), LLMC_OK);
  EXPECT_EQ(state, LLMC_GRAMMAR_COMPLETE);
}

TEST_F(GrammarSession, ForksGoOnWithTheirTexts) {
  fake::Session session(fake::config(), fake::model({.sequences = 3, .batch = 2}));
  ASSERT_EQ(session.status, LLMC_OK);
  const std::vector<std::int32_t> prompt = {30, 31};
  ASSERT_EQ(llmc_prefill(session, prompt.data(), prompt.size(), nullptr), LLMC_OK);
  const llmc_sampling sampling = random_sampling(9);
  ASSERT_EQ(llmc_set_sampling(session, &sampling), LLMC_OK);
  ASSERT_EQ(llmc_set_grammar(session, make(memory_)), LLMC_OK);
  ASSERT_EQ(llmc_append(session, 13), LLMC_OK);  // [[
  std::uint32_t fork = 0;
  ASSERT_EQ(llmc_fork(session, 0, &fork), LLMC_OK);
  const auto alone = run(session, 10);
  // The fork shares the grammar; stepping the two in turn changes neither.
  ASSERT_EQ(llmc_rewind(session, 2), LLMC_OK);
  ASSERT_EQ(llmc_append(session, 13), LLMC_OK);
  const std::uint32_t both[] = {0, fork};
  std::vector<std::int32_t> of_first, of_fork;
  for (std::size_t i = 0; i < alone.size(); ++i) {
    std::int32_t tokens[2];
    ASSERT_EQ(llmc_step_batch(session, both, 2, tokens), LLMC_OK);
    of_first.push_back(tokens[0]);
    of_fork.push_back(tokens[1]);
  }
  EXPECT_EQ(of_first, alone);
  EXPECT_EQ(of_fork, alone);
}

TEST_F(GrammarSession, ALoadedStateMayEndBeforeTheText) {
  // As after a rewind the start of the text is unchanged, whether or not the state is read before.
  for (const bool loads : {true, false}) {
    for (const bool looks : {true, false}) {
      fake::Session session, shorter;
      ASSERT_EQ(llmc_append(shorter, 30), LLMC_OK);
      std::vector<unsigned char> state(llmc_state_bytes(shorter));
      ASSERT_EQ(llmc_state_save(shorter, state.data(), state.size(), nullptr), LLMC_OK);
      const std::vector<std::int32_t> prompt = {30, 31, 32, 33};
      ASSERT_EQ(llmc_prefill(session, prompt.data(), prompt.size(), nullptr), LLMC_OK);
      ASSERT_EQ(llmc_set_grammar(session, make(memory_)), LLMC_OK);
      if (loads) {
        ASSERT_EQ(llmc_state_load(session, state.data(), state.size()), LLMC_OK);
      } else {
        ASSERT_EQ(llmc_rewind(session, 1), LLMC_OK);
      }
      int text = -1;
      if (looks) {
        ASSERT_EQ(llmc_text_state(session, &text), LLMC_OK);
        EXPECT_EQ(text, LLMC_GRAMMAR_INCOMPLETE);
        std::int32_t token = -7;
        EXPECT_EQ(llmc_step(session, &token), loads ? LLMC_ERROR_POSITION : LLMC_ERROR_NO_LOGITS);
      }
      for (const std::int32_t token : {34, 35, 36, 10, 1, 12, 2, 11})  // a prompt, then [1,2]
        ASSERT_EQ(llmc_append(session, token), LLMC_OK);
      ASSERT_EQ(llmc_text_state(session, &text), LLMC_OK) << loads << looks;
      EXPECT_EQ(text, LLMC_GRAMMAR_COMPLETE);
    }
  }
}

TEST_F(GrammarSession, WhatTheModelSaysNeedsNoText) {
  fake::Session session;
  ASSERT_EQ(llmc_append(session, 30), LLMC_OK);
  ASSERT_EQ(llmc_set_grammar(session, make(memory_)), LLMC_OK);
  ASSERT_EQ(llmc_append(session, 30), LLMC_OK);  // not a text of the grammar
  std::int32_t token = -1;
  EXPECT_EQ(llmc_sample(session, &token), LLMC_ERROR_GRAMMAR);
  float logprob = 1.0f;
  llmc_candidate best{};
  std::size_t count = 0;
  EXPECT_EQ(llmc_logprob(session, 3, &logprob), LLMC_OK);
  EXPECT_EQ(llmc_candidates(session, LLMC_CANDIDATES_MODEL, &best, 1, &count), LLMC_OK);
  EXPECT_EQ(count, 1u);
}

TEST_F(GrammarSession, SlidingEverythingAwayKeepsTheText) {
  fake::Session session;
  const std::vector<std::int32_t> prompt = {30, 31, 32, 33};
  ASSERT_EQ(llmc_prefill(session, prompt.data(), prompt.size(), nullptr), LLMC_OK);
  ASSERT_EQ(llmc_set_grammar(session, make(memory_)), LLMC_OK);
  ASSERT_EQ(llmc_append(session, 10), LLMC_OK);
  ASSERT_EQ(llmc_append(session, 1), LLMC_OK);
  EXPECT_EQ(llmc_slide(session, 4, 1), LLMC_ERROR_CONTEXT_FULL);
  EXPECT_EQ(llmc_slide(session, 4, 2), LLMC_ERROR_CONTEXT_FULL);
  EXPECT_EQ(llmc_position(session), 6u);
}

}  // namespace
}  // namespace llmc::hosted::grammar::testing
