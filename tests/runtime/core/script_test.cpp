#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <tuple>

#include "runtime/core/session.h"
#include "tests/runtime/core/compiled_prompt.h"
#include "tests/runtime/core/plain_sequence.h"

/// Random scripts of calls against plain sequences that know nothing but tokens. LLMC_SCRIPTS says
/// how many (10,000).
namespace llmc::fake {
namespace {

class Script {
 public:
  explicit Script(std::uint32_t seed) : random_(seed) {
    sizes_.contiguous = below(5) == 0;
    sizes_.sequences = 1 + below(6);
    sizes_.batch = 1 + below(4);
    const std::uint32_t whole = sizes_.contiguous ? 1 : (kContext + kBlock - 1) / kBlock;
    const std::uint32_t most = whole * sizes_.sequences;
    sizes_.pool = below(2) == 0 ? most + (sizes_.sequences - 1) : 1 + below(most);
    ample_ = sizes_.pool >= most;
    sizes_.positions = below(2) == 0;
    begin_.has_positions = sizes_.positions;
    config_ = config();
    config_.chunk = 1 + below(kChunk);
    config_.threads = 1 + below(kThreadsMax);
    config_.full_context = below(2);
    config_.keep_first = below(12);
    config_.slide_tokens = below(2) == 0 ? 0 : below(20);
    config_.cancel = [](void* self) {
      int& left = static_cast<Script*>(self)->calls_to_cancel_;
      return static_cast<int>(left >= 0 && left-- == 0);
    };
    config_.cancel_user = this;
    llmc_model described = model(sizes_);
    if (below(2) == 0) described.choose = choose;
    if (below(3) == 0) {
      const Sizes alone{.contiguous = sizes_.contiguous, .positions = sizes_.positions};
      prompt_.emplace(model(alone), some_tokens(1 + below(kContext)));
      described = prompt_->in(described);
      config_.begin = below(4) == 0 ? LLMC_BEGIN_EMPTY : LLMC_BEGIN_PROMPT;
      if (config_.begin == LLMC_BEGIN_PROMPT) begin_.add(prompt_->tokens(), 0.0f);
    }
    session_ = std::make_unique<Session>(config_, described);
    plain_[0] = begin_;
  }

  void run(int calls) {
    ASSERT_EQ(session_->status, LLMC_OK);
    for (int i = 0; i < calls; ++i) {
      call();
      if (testing::Test::HasFailure()) return;
      check_blocks();
      check(current_, below(3) == 0);  // most choices leave unread logits out
      if (testing::Test::HasFailure()) return;
    }
    std::vector<std::uint32_t> all;
    for (const auto& [id, plain] : plain_) all.push_back(id);
    for (const std::uint32_t id : all) check(id, true);
    EXPECT_TRUE(session_->arena.guard_intact());
    EXPECT_TRUE(!prompt_ || prompt_->intact());
  }

 private:
  std::uint32_t below(std::uint32_t n) { return n == 0 ? 0 : random_() % n; }
  llmc_session* s() { return *session_; }
  Tokens some_tokens(std::uint32_t n, std::int32_t first = 0) {
    Tokens tokens(n);
    for (std::int32_t& token : tokens) token = first + static_cast<std::int32_t>(below(kVocab));
    return tokens;
  }
  std::uint32_t any_sequence() {
    auto it = plain_.begin();
    std::advance(it, below(static_cast<std::uint32_t>(plain_.size())));
    return it->first;
  }

  /// An error that the pool's size alone may cause.
  bool pool_is_full(llmc_status status) {
    if (status != LLMC_ERROR_POOL_FULL) return false;
    EXPECT_FALSE(ample_) << "the pool has a block for every token";
    return true;
  }

  void call() {
    switch (below(19)) {
      case 0:
      case 1:
        return append(some_tokens(below(kContext / 2)));
      case 18:
        return append(some_tokens(below(kContext / 4), kEmbedding));
      case 2:
      case 17:
        return step();
      case 3: {
        Plain& plain = plain_[current_];
        const std::uint32_t to = below(static_cast<std::uint32_t>(plain.tokens.size()) + 2);
        const llmc_status status = llmc_rewind(s(), to);
        ASSERT_EQ(status, to > plain.tokens.size() ? LLMC_ERROR_POSITION : LLMC_OK);
        if (status == LLMC_OK) plain.cut(to);
        return;
      }
      case 4:
      case 5: {
        std::uint32_t to = 0;
        const bool empty = below(4) == 0;
        const std::uint32_t from = any_sequence();
        const llmc_status status = empty ? llmc_new_sequence(s(), &to) : llmc_fork(s(), from, &to);
        ASSERT_EQ(status, plain_.size() == sizes_.sequences ? LLMC_ERROR_SEQUENCE : LLMC_OK);
        if (status != LLMC_OK) return;
        ASSERT_FALSE(plain_.contains(to));
        plain_[to] = empty ? begin_ : plain_[from];
        plain_[to].guide.reset();  // two cannot lead one guide
        return;
      }
      case 6: {
        const std::uint32_t gone = any_sequence();
        const bool stays = gone == current_ || leads_another(gone, gone);
        ASSERT_EQ(llmc_release(s(), gone), stays ? LLMC_ERROR_ARGUMENT : LLMC_OK);
        if (!stays) plain_.erase(gone);
        return;
      }
      case 7:
        current_ = any_sequence();
        ASSERT_EQ(llmc_select(s(), current_), LLMC_OK);
        return;
      case 8:
        return batch();
      case 9:
        return save();
      case 10:
        return load();
      case 11:
        return slide();
      case 12:
        ASSERT_EQ(llmc_reset(s()), LLMC_OK);
        return plain_[current_].restart(begin_);
      case 13:
        return sample();
      case 14:
        return set_sampling();
      case 15:
      case 16:
        return set_guidance();
      default:
        return fail();
    }
  }

  /// The application says no to one of the next questions, now and then.
  void perhaps_cancel(std::uint32_t questions) {
    calls_to_cancel_ = below(6) == 0 ? static_cast<int>(below(questions)) : -1;
    asked_to_cancel_ = calls_to_cancel_ >= 0;
  }
  /// Whether that was the answer; nothing has changed then.
  bool was_cancelled(llmc_status status) {
    calls_to_cancel_ = -1;
    if (status != LLMC_ERROR_CANCELLED) return false;
    EXPECT_TRUE(asked_to_cancel_);
    return true;
  }

  void append(Tokens added) {
    Plain& plain = plain_[current_];
    const bool embeddings = !added.empty() && added[0] >= kEmbedding;
    // Perhaps what was drawn, or stood there before a rewind.
    if (plain.drawn && plain.drawn->token >= 0 && !added.empty() && !embeddings && below(2) == 0)
      added[0] = plain.drawn->token;
    Plain after = plain;
    const float mu = added.empty() ? 0.0f : plain.mu_behind(ids_of(added)[0]);
    const llmc_status room = after.make_room(added.size(), config_);
    std::vector<Positions> positions;  // of embeddings, in any order
    if (embeddings && sizes_.positions && below(3) != 0) positions.resize(added.size());
    for (Positions& of_row : positions)
      for (std::int32_t& position : of_row) position = static_cast<std::int32_t>(below(60));
    perhaps_cancel(4);
    std::size_t done = 99;
    const llmc_status status = embeddings ? append_rows(s(), added, positions, &done)
                                          : llmc_prefill(s(), added.data(), added.size(), &done);
    ASSERT_EQ(done, status == LLMC_OK ? added.size() : 0);
    if (was_cancelled(status) || pool_is_full(status)) return;
    ASSERT_EQ(status, room);
    if (room != LLMC_OK || added.empty()) return;
    after.add(added, mu, positions);
    plain = after;
  }

  const Plain* guide_of(const Plain& plain) const {
    return plain.guide ? &plain_.at(plain.guide->sequence) : nullptr;
  }
  bool leads_another(std::uint32_t id, std::uint32_t but) const {
    for (const auto& [other, plain] : plain_)
      if (other != but && plain.guide && plain.guide->sequence == id) return true;
    return false;
  }
  /// Whether there is all that a choice needs.
  bool may_choose(const Plain& plain) const {
    return plain.logits && (!plain.guide || guide_of(plain)->logits);
  }

  void sample() {
    Plain& plain = plain_[current_];
    std::int32_t token = -7;
    const llmc_status status = llmc_sample(s(), &token);
    ASSERT_EQ(status, may_choose(plain) ? LLMC_OK : LLMC_ERROR_NO_LOGITS);
    if (status != LLMC_OK) return;
    const core::Choice choice = plain_choice(plain, guide_of(plain));
    ASSERT_EQ(token, choice.token);
    plain.drawn = Plain::Drawn{plain.tokens.size(), choice.token, choice.mu};
  }

  void set_sampling() {
    llmc_sampling sampling{};
    sampling.seed = below(1000);
    sampling.temperature = below(3) == 0 ? 0.0f : 1.5f;
    sampling.mirostat = static_cast<std::int32_t>(below(3));
    sampling.mirostat_lr = 0.3f;
    sampling.mirostat_ent = 3.0f;
    sampling.repeat_last_n = below(2) == 0 ? 0 : 8;
    sampling.repeat_penalty = 1.3f;
    ASSERT_EQ(llmc_set_sampling(s(), &sampling), LLMC_OK);
    plain_[current_].sampling = sampling;
  }

  void set_guidance() {
    const std::uint32_t guide = below(3) == 0 ? below(sizes_.sequences) : any_sequence();
    const float scale = below(3) == 0 ? 1.0f : 1.5f;
    const llmc_status status = llmc_set_guidance(s(), guide, scale);
    std::optional<Plain::Guide>& own = plain_[current_].guide;
    if (scale == 1.0f) {
      ASSERT_EQ(status, LLMC_OK);
      own.reset();
      return;
    }
    const bool known = plain_.contains(guide);
    const bool may = known && guide != current_ && sizes_.batch >= 2 &&
                     !leads_another(guide, current_) && !leads_another(current_, current_) &&
                     !plain_.at(guide).guide;
    ASSERT_EQ(status, !known ? LLMC_ERROR_SEQUENCE : may ? LLMC_OK : LLMC_ERROR_ARGUMENT);
    if (may) own = Plain::Guide{guide, scale};
  }

  void step() {
    Plain& plain = plain_[current_];
    Plain* const guide = plain.guide ? &plain_.at(plain.guide->sequence) : nullptr;
    Plain after = plain;
    // Two are stepped together, and then no context slides.
    const llmc_status room = guide == nullptr ? after.make_room(1, config_)
                             : std::max(plain.tokens.size(), guide->tokens.size()) < kContext
                                 ? LLMC_OK
                                 : LLMC_ERROR_CONTEXT_FULL;
    perhaps_cancel(2);
    std::int32_t token = -7;
    const llmc_status status = llmc_step(s(), &token);
    if (status != LLMC_OK) ASSERT_EQ(token, -7);
    if (was_cancelled(status) || pool_is_full(status)) return;
    const bool full =
        plain.logits && plain.tokens.size() == kContext && config_.full_context == LLMC_FULL_STATUS;
    ASSERT_EQ(status, full                 ? LLMC_ERROR_CONTEXT_FULL
                      : !may_choose(plain) ? LLMC_ERROR_NO_LOGITS
                                           : room);
    if (status != LLMC_OK) return;
    const core::Choice choice = plain_choice(plain, guide);
    ASSERT_EQ(token, choice.token);
    after.add({token}, choice.mu);
    plain = after;
    if (guide != nullptr) guide->add({token}, guide->mu_behind(token));
  }

  void batch() {
    std::vector<std::uint32_t> ids;
    for (const auto& [id, plain] : plain_)
      if (ids.size() < sizes_.batch && below(3) != 0) ids.push_back(id);
    std::shuffle(ids.begin(), ids.end(), random_);
    const bool steps = below(2) == 0;
    Tokens tokens = some_tokens(static_cast<std::uint32_t>(ids.size()));
    const Tokens given = tokens;
    std::vector<std::uint32_t> all = ids;  // with their guides
    std::vector<std::size_t> leaders;      // of which guide, an index into ids
    bool full = false, known = true;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      known &= !steps || may_choose(plain_[ids[i]]);
      if (!steps || !plain_[ids[i]].guide) continue;
      all.push_back(plain_[ids[i]].guide->sequence);
      leaders.push_back(i);
    }
    for (const std::uint32_t id : all) full |= plain_[id].tokens.size() == kContext;
    const bool once = std::set(all.begin(), all.end()).size() == all.size();
    std::vector<core::Choice> choices;
    for (const std::uint32_t id : ids)
      if (steps && known) choices.push_back(plain_choice(plain_[id], guide_of(plain_[id])));
    perhaps_cancel(1);
    const llmc_status status = steps
                                   ? llmc_step_batch(s(), ids.data(), ids.size(), tokens.data())
                                   : llmc_append_batch(s(), ids.data(), ids.size(), tokens.data());
    if (status != LLMC_OK) ASSERT_EQ(tokens, given);
    if (was_cancelled(status) || pool_is_full(status)) return;
    ASSERT_EQ(status, !known                               ? LLMC_ERROR_NO_LOGITS
                      : all.size() > sizes_.batch || !once ? LLMC_ERROR_ARGUMENT
                      : full                               ? LLMC_ERROR_CONTEXT_FULL
                                                           : LLMC_OK);
    if (status != LLMC_OK) return;
    for (std::size_t i = 0; i < all.size(); ++i) {
      Plain& plain = plain_[all[i]];
      if (steps && i < ids.size()) {
        ASSERT_EQ(tokens[i], choices[i].token);
        plain.add({tokens[i]}, choices[i].mu);
        continue;
      }
      const std::int32_t token = tokens[i < ids.size() ? i : leaders[i - ids.size()]];
      plain.add({token}, plain.mu_behind(token));
    }
    for (const std::uint32_t id : all) check(id, below(2) == 0);
  }

  void save() {
    Saved saved{std::vector<unsigned char>(llmc_state_bytes(s()), 0xAB), plain_[current_]};
    if (below(4) == 0) {
      ASSERT_EQ(llmc_state_save(s(), saved.bytes.data(), saved.bytes.size() - 1, nullptr),
                LLMC_ERROR_BUFFER);
    }
    ASSERT_EQ(llmc_state_save(s(), saved.bytes.data(), saved.bytes.size(), nullptr), LLMC_OK);
    // Equal tokens, equal bytes, whatever was done before.
    const auto [known, added] = states_.try_emplace(saved.plain.saved(), saved.bytes);
    ASSERT_TRUE(added || known->second == saved.bytes);
    saved_.push_back(std::move(saved));
  }

  void load() {
    if (saved_.empty()) return;
    Saved saved = saved_[below(static_cast<std::uint32_t>(saved_.size()))];
    const bool damaged = below(3) == 0;
    if (damaged)
      saved.bytes[20 + below(static_cast<std::uint32_t>(saved.bytes.size()) - 20)] ^= 0x10;
    const llmc_status status = llmc_state_load(s(), saved.bytes.data(), saved.bytes.size());
    if (pool_is_full(status)) return;
    ASSERT_EQ(status, damaged ? LLMC_ERROR_STATE : LLMC_OK);
    if (!damaged) plain_[current_].restart(saved.plain);
  }

  void slide() {
    Plain& plain = plain_[current_];
    const auto size = static_cast<std::uint32_t>(plain.tokens.size());
    const std::uint32_t keep = below(size + 2), drop = below(size + 2);
    perhaps_cancel(1);
    const llmc_status status = llmc_slide(s(), keep, drop);
    if (was_cancelled(status) || pool_is_full(status)) return;
    ASSERT_EQ(status, keep > size || drop > size - keep                 ? LLMC_ERROR_POSITION
                      : drop > 0 && plain.embeddings_after(keep + drop) ? LLMC_ERROR_EMBEDDINGS
                                                                        : LLMC_OK);
    if (status == LLMC_OK && drop > 0) plain.drop(keep, drop);
  }

  /// Calls that must be refused.
  void fail() {
    Tokens bad = some_tokens(1 + below(9));
    bad[below(static_cast<std::uint32_t>(bad.size()))] = below(2) == 0 ? -1 : kVocab;
    ASSERT_EQ(llmc_prefill(s(), bad.data(), bad.size(), nullptr), LLMC_ERROR_TOKEN);
    ASSERT_EQ(llmc_select(s(), sizes_.sequences), LLMC_ERROR_SEQUENCE);
    const std::uint32_t twice[] = {current_, current_};
    const std::int32_t tokens[] = {1, 1};
    ASSERT_EQ(llmc_append_batch(s(), twice, 2, tokens), LLMC_ERROR_ARGUMENT);
    const std::vector<std::uint32_t> many(sizes_.batch + 1, current_);
    ASSERT_EQ(llmc_append_batch(s(), many.data(), many.size(), bad.data()), LLMC_ERROR_ARGUMENT);
  }

  void check(std::uint32_t id, bool reads_logits) {
    ASSERT_EQ(llmc_select(s(), id), LLMC_OK);
    const Plain& plain = plain_.at(id);
    ASSERT_EQ(llmc_position(s()), plain.tokens.size());
    const float* logits = reads_logits ? llmc_logits(s()) : nullptr;
    if (reads_logits) ASSERT_EQ(logits != nullptr, plain.logits);
    if (logits) ASSERT_EQ(hash_logits(logits), plain_hash(plain.tokens, plain.positions));
    Tokens tokens(plain.tokens.size());
    ASSERT_EQ(llmc_tokens(s(), 0, tokens.data(), tokens.size()), LLMC_OK);
    ASSERT_EQ(tokens, ids_of(plain.tokens));
    ASSERT_EQ(llmc_select(s(), current_), LLMC_OK);
  }

  /// Every block is free or has as many users as tables name it, and holds the right tokens; those
  /// of a compiled prompt are outside the pool.
  void check_blocks() {
    std::map<const unsigned char*, std::uint32_t> seen;
    for (const auto& [id, plain] : plain_) {
      const core::CachedTokens& cached = s()->sequence(id).cached;
      const std::uint32_t block = sizes_.contiguous ? kContext : kBlock;
      ASSERT_EQ(cached.held, (plain.tokens.size() + block - 1) / block);
      ASSERT_EQ(cached.replaced, nullptr);
      for (std::uint32_t i = 0; i < cached.held; ++i)
        if (!prompt_ || !prompt_->holds(cached.blocks[i])) ++seen[cached.blocks[i]];
      const core::TokenHistory history = s()->cache.history(cached);
      for (std::uint32_t i = 0; i < history.count(); ++i) {
        ASSERT_EQ(history[i], ids_of({plain.tokens[i]})[0]);
        ASSERT_EQ(s()->cache.mu(cached, i), plain.mus[i]) << i;
      }
    }
    ASSERT_EQ(llmc_free_blocks(s()) + seen.size(), sizes_.pool);
    const llmc_arena_layout at = llmc_arena_layout_of_model(session_->description.get());
    const auto* users =
        reinterpret_cast<const std::uint32_t*>(session_->arena.data() + at.block_users);
    std::uint32_t used = 0, counted = 0;
    for (std::uint32_t i = 0; i < sizes_.pool; ++i) used += users[i];
    for (const auto& [block, count] : seen) {
      const auto offset = static_cast<std::size_t>(block - session_->arena.data()) - at.kv_pool;
      ASSERT_EQ(users[offset / session_->description->kv_block_bytes], count);
      counted += count;
    }
    ASSERT_EQ(used, counted);
  }

  std::mt19937 random_;
  Sizes sizes_;
  bool ample_ = false;
  int calls_to_cancel_ = -1;  // after so many questions the answer is yes; -1: never
  bool asked_to_cancel_ = false;
  llmc_config config_{};
  std::optional<CompiledPrompt> prompt_;
  Plain begin_;  // what sequences begin with
  std::unique_ptr<Session> session_;
  std::map<std::uint32_t, Plain> plain_;
  std::uint32_t current_ = 0;
  std::vector<Saved> saved_;
  std::map<decltype(std::declval<Plain>().saved()), std::vector<unsigned char>> states_;
};

TEST(Scripts, HaveTheHashesOfAPlainModelAndLoseNoBlock) {
#if defined(__x86_64__) && !__has_feature(address_sanitizer)
  constexpr std::uint32_t kScripts = 10000;
#else
  constexpr std::uint32_t kScripts = 1000;  // emulated, or with every access checked
#endif
  const char* wanted = std::getenv("LLMC_SCRIPTS");
  const auto scripts =
      wanted != nullptr ? static_cast<std::uint32_t>(std::strtoul(wanted, nullptr, 10)) : kScripts;
  for (std::uint32_t seed = 0; seed < scripts; ++seed) {
    SCOPED_TRACE(seed);
    Script(seed).run(40);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace llmc::fake
