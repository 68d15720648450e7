#include <cstdlib>
#include <map>
#include <optional>

#include "tests/grammar/fake_vocabulary.h"
#include "tests/runtime/core/plain_model.h"

/// Random scripts of calls on sequences with a grammar, compared with a model that reads every text
/// from its beginning. LLMC_GRAMMAR_SCRIPTS: number of scripts (1,000).
namespace llmc::hosted::grammar::testing {
namespace {

using Tokens = std::vector<std::int32_t>;

/// Expected state of a sequence. `from`: position where its text begins; none: no grammar.
struct Plain {
  Tokens tokens;
  bool logits = false;
  std::optional<std::size_t> from;
};

struct Saved {
  std::vector<unsigned char> bytes;
  Plain plain;
};

constexpr std::uint32_t kSequences = 3, kBatch = 2;

class Script {
 public:
  Script(std::uint32_t seed, const Tables& tables)
      : random_(seed),
        tables_(tables),
        session_(config(), fake::model({.sequences = kSequences, .batch = kBatch})) {
    for (const int i : {0, 1}) grammars_[i] = made(memories_[i]);
    scratch_ = made(memories_[2]);
    plain_[0] = {};
  }

  void run(int calls) {
    ASSERT_EQ(session_.status, LLMC_OK);
    for (int i = 0; i < calls; ++i) {
      call();
      if (::testing::Test::HasFailure()) return;
      for (const auto& [id, plain] : plain_) check(id);
      ASSERT_EQ(llmc_select(s(), current_), LLMC_OK);
      if (::testing::Test::HasFailure()) return;
    }
    EXPECT_TRUE(session_.arena.guard_intact());
  }
  int held() const { return held_; }
  int before() const { return before_; }

 private:
  struct Memory {
    alignas(64) unsigned char bytes[LLMC_GRAMMAR_BYTES];
  };

  llmc_config config() {
    llmc_config config = fake::config();
    config.cancel = [](void* self) {
      return static_cast<int>(static_cast<Script*>(self)->cancel_);
    };
    config.cancel_user = this;
    return config;
  }
  std::uint32_t below(std::size_t n) {
    return n == 0 ? 0 : random_() % static_cast<std::uint32_t>(n);
  }
  llmc_session* s() { return session_; }
  Plain& plain() { return plain_.at(current_); }
  std::uint32_t any_sequence() {
    auto it = plain_.begin();
    std::advance(it, below(plain_.size()));
    return it->first;
  }
  llmc_grammar* made(Memory& memory) const {
    llmc_grammar* grammar = nullptr;
    llmc_grammar_init(memory.bytes, sizeof memory.bytes, tables_.bytes.data(), tables_.bytes.size(),
                      &grammar);
    return grammar;
  }

  /// Reads the text of a sequence from its beginning; nullptr: not a text of the grammar, or none.
  llmc_grammar* text_of(const Plain& plain) {
    if (*plain.from > plain.tokens.size()) return nullptr;
    llmc_grammar_restart(scratch_);
    for (std::size_t i = *plain.from; i < plain.tokens.size(); ++i)
      if (llmc_grammar_accept(scratch_, plain.tokens[i]) != LLMC_OK) return nullptr;
    return scratch_;
  }

  struct Answer {
    llmc_status status;
    std::int32_t token;
  };
  /// Expected status of choosing the next token.
  Answer next_of(const Plain& plain) {
    if (!plain.logits) return {LLMC_ERROR_NO_LOGITS, -1};
    std::uint32_t mask[2] = {0xFFFFFFFFu, 0xFFFFFFFFu};
    if (plain.from) {
      if (plain.tokens.size() < *plain.from) return {LLMC_ERROR_POSITION, -1};
      llmc_grammar* const grammar = text_of(plain);
      if (grammar == nullptr) return {LLMC_ERROR_GRAMMAR, -1};
      llmc_grammar_allow(grammar, mask, 2);
    }
    const std::vector<float> logits = fake::plain_logits(plain.tokens);
    std::int32_t best = -1;
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(fake::kVocab); ++i) {
      const auto at = static_cast<std::size_t>(i);
      if ((mask[at / 32] >> at % 32 & 1) == 0) continue;
      if (best < 0 || logits[at] > logits[static_cast<std::size_t>(best)]) best = i;
    }
    return {best < 0 ? LLMC_ERROR_NO_CANDIDATE : LLMC_OK, best};
  }

  void call() {
    switch (below(14)) {
      case 0:
      case 1:
        return append();
      case 2:
      case 3:
      case 4:
        return step();
      case 5:
        return step_both();
      case 6: {
        const std::uint32_t to = below(plain().tokens.size() + 1);
        ASSERT_EQ(llmc_rewind(s(), to), LLMC_OK);
        if (to < plain().tokens.size()) plain().logits = false;
        plain().tokens.resize(to);
        return;
      }
      case 7:
        ASSERT_EQ(llmc_reset(s()), LLMC_OK);
        plain().tokens.clear();
        plain().logits = false;
        return;
      case 8:
        return fork();
      case 9:
        current_ = any_sequence();
        ASSERT_EQ(llmc_select(s(), current_), LLMC_OK);
        return;
      case 10:
        return slide();
      case 11: {
        if (saved_.size() > 6) saved_.erase(saved_.begin());
        saved_.push_back({std::vector<unsigned char>(llmc_state_bytes(s())), plain()});
        ASSERT_EQ(
            llmc_state_save(s(), saved_.back().bytes.data(), saved_.back().bytes.size(), nullptr),
            LLMC_OK);
        return;
      }
      case 12: {
        if (saved_.empty()) return;
        const Saved& state = saved_[below(saved_.size())];
        ASSERT_EQ(llmc_state_load(s(), state.bytes.data(), state.bytes.size()), LLMC_OK);
        plain().tokens = state.plain.tokens;
        plain().logits = state.plain.logits;
        return;
      }
      default: {
        const bool on = below(4) != 0;
        ASSERT_EQ(llmc_set_grammar(s(), on ? grammars_[below(2)] : nullptr), LLMC_OK);
        plain().from = on ? std::optional(plain().tokens.size()) : std::nullopt;
        return;
      }
    }
  }

  /// Tokens that are usually allowed.
  void append() {
    Tokens tokens(1 + below(4));
    for (std::int32_t& token : tokens)
      token = static_cast<std::int32_t>(below(below(3) != 0 ? 20 : fake::kVocab));
    cancel_ = below(5) == 0;
    const llmc_status status = llmc_prefill(s(), tokens.data(), tokens.size(), nullptr);
    const bool fits = plain().tokens.size() + tokens.size() <= fake::kContext;
    ASSERT_EQ(status, !fits ? LLMC_ERROR_CONTEXT_FULL : cancel_ ? LLMC_ERROR_CANCELLED : LLMC_OK);
    cancel_ = false;
    if (status != LLMC_OK) return;
    plain().tokens.insert(plain().tokens.end(), tokens.begin(), tokens.end());
    plain().logits = true;
  }

  void step() {
    const Answer expected = next_of(plain());
    std::int32_t token = -7;
    if (below(3) == 0) {
      ASSERT_EQ(llmc_sample(s(), &token), expected.status);
      ASSERT_EQ(token, expected.status == LLMC_OK ? expected.token : -7);
    }
    token = -7;
    cancel_ = below(5) == 0;
    const llmc_status status = llmc_step(s(), &token);
    const bool full = plain().logits && plain().tokens.size() == fake::kContext;
    ASSERT_EQ(status, full                         ? LLMC_ERROR_CONTEXT_FULL
                      : expected.status != LLMC_OK ? expected.status
                      : cancel_                    ? LLMC_ERROR_CANCELLED
                                                   : LLMC_OK);
    cancel_ = false;
    before_ += status == LLMC_ERROR_POSITION;
    if (status != LLMC_OK) ASSERT_EQ(token, -7);
    if (status != LLMC_OK) return;
    ASSERT_EQ(token, expected.token);
    plain().tokens.push_back(token);
    held_ += plain().from.has_value();
  }

  void step_both() {
    if (plain_.size() < 2) return;
    const std::uint32_t ids[] = {plain_.begin()->first, std::next(plain_.begin())->first};
    llmc_status expected = LLMC_OK;
    std::int32_t next[2], tokens[2] = {-7, -7};
    for (const int i : {0, 1}) {
      const Answer answer = next_of(plain_.at(ids[i]));
      next[i] = answer.token;
      if (expected == LLMC_OK) expected = answer.status;
    }
    for (const std::uint32_t id : ids) {
      if (expected == LLMC_OK && plain_.at(id).tokens.size() == fake::kContext)
        expected = LLMC_ERROR_CONTEXT_FULL;
    }
    cancel_ = below(5) == 0;
    if (cancel_ && expected == LLMC_OK) expected = LLMC_ERROR_CANCELLED;
    ASSERT_EQ(llmc_step_batch(s(), ids, 2, tokens), expected);
    cancel_ = false;
    for (const int i : {0, 1}) {
      ASSERT_EQ(tokens[i], expected == LLMC_OK ? next[i] : -7);
      if (expected == LLMC_OK) plain_.at(ids[i]).tokens.push_back(tokens[i]);
    }
  }

  void fork() {
    const std::uint32_t from = any_sequence();
    std::uint32_t to = 0;
    if (plain_.size() == kSequences) {
      for (const auto& [id, plain] : plain_) to = id != current_ ? id : to;
      ASSERT_EQ(llmc_release(s(), to), LLMC_OK);
      plain_.erase(to);
      return;
    }
    ASSERT_EQ(llmc_fork(s(), from, &to), LLMC_OK);
    plain_[to] = plain_.at(from);
  }

  void slide() {
    const std::size_t size = plain().tokens.size();
    const std::uint32_t keep = below(size + 1), drop = below(size - keep + 1);
    const bool cuts = drop > 0 && plain().from && *plain().from < keep + drop;
    ASSERT_EQ(llmc_slide(s(), keep, drop), cuts ? LLMC_ERROR_CONTEXT_FULL : LLMC_OK);
    if (cuts || drop == 0) return;
    plain().tokens.erase(plain().tokens.begin() + keep, plain().tokens.begin() + keep + drop);
    plain().logits = keep + drop < size;
    if (plain().from) *plain().from -= drop;
  }

  void check(std::uint32_t id) {
    const Plain& plain = plain_.at(id);
    ASSERT_EQ(llmc_select(s(), id), LLMC_OK);
    Tokens tokens(llmc_position(s()));
    ASSERT_EQ(llmc_tokens(s(), 0, tokens.data(), tokens.size()), LLMC_OK);
    ASSERT_EQ(tokens, plain.tokens);
    int state = -1;
    const llmc_status status = llmc_text_state(s(), &state);
    if (!plain.from || *plain.from > plain.tokens.size()) {
      ASSERT_EQ(status, LLMC_OK);
      ASSERT_EQ(state, plain.from ? LLMC_GRAMMAR_INCOMPLETE : LLMC_GRAMMAR_MAY_END);
      return;
    }
    const llmc_grammar* const grammar = text_of(plain);
    ASSERT_EQ(status, grammar == nullptr ? LLMC_ERROR_GRAMMAR : LLMC_OK);
    if (grammar != nullptr) ASSERT_EQ(state, llmc_grammar_text_state(grammar));
  }

  std::mt19937 random_;
  const Tables& tables_;
  bool cancel_ = false;
  fake::Session session_;
  Memory memories_[3];
  llmc_grammar* grammars_[2] = {};
  llmc_grammar* scratch_ = nullptr;
  std::map<std::uint32_t, Plain> plain_;
  std::uint32_t current_ = 0;
  std::vector<Saved> saved_;
  int held_ = 0, before_ = 0;
};

TEST(GrammarScripts, HoldTextsFromWhereTheyBegin) {
  const char* const given = std::getenv("LLMC_GRAMMAR_SCRIPTS");
  const int scripts = given != nullptr ? std::atoi(given) : 1000;
  const Tables tables = *build_tables(parsed(kLists), fake_vocabulary());
  int held = 0, before = 0;
  for (int seed = 0; seed < scripts; ++seed) {
    SCOPED_TRACE(seed);
    Script script(static_cast<std::uint32_t>(seed), tables);
    script.run(120);
    if (HasFailure()) return;
    held += script.held();
    before += script.before();
  }
  EXPECT_GT(held, scripts);
  EXPECT_GT(before, scripts / 10);
}

}  // namespace
}  // namespace llmc::hosted::grammar::testing
