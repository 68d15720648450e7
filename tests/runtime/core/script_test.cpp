#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <random>

#include "runtime/core/session.h"
#include "tests/runtime/core/compiled_prompt.h"
#include "tests/runtime/core/plain_model.h"

/// Random scripts of calls against a plain model that knows nothing but tokens. LLMC_SCRIPTS says
/// how many (10,000).
namespace llmc::fake {
namespace {

using Tokens = std::vector<std::int32_t>;

/// What a sequence should be.
struct Plain {
  Tokens tokens;
  bool logits = false;
};

struct Saved {
  std::vector<unsigned char> bytes;
  Plain plain;
};

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
    if (below(3) == 0) {
      const Sizes alone{.contiguous = sizes_.contiguous};
      prompt_.emplace(model(alone), some_tokens(1 + below(kContext)));
      described = prompt_->in(described);
      config_.begin = below(4) == 0 ? LLMC_BEGIN_EMPTY : LLMC_BEGIN_PROMPT;
      if (config_.begin == LLMC_BEGIN_PROMPT) begin_ = {prompt_->tokens(), true};
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
      check(current_);
      if (testing::Test::HasFailure()) return;
    }
    std::vector<std::uint32_t> all;
    for (const auto& [id, plain] : plain_) all.push_back(id);
    for (const std::uint32_t id : all) check(id);
    EXPECT_TRUE(session_->arena.guard_intact());
    EXPECT_TRUE(!prompt_ || prompt_->intact());
  }

 private:
  std::uint32_t below(std::uint32_t n) { return n == 0 ? 0 : random_() % n; }
  llmc_session* s() { return *session_; }
  Tokens some_tokens(std::uint32_t n) {
    Tokens tokens(n);
    for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(below(kVocab));
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
    switch (below(14)) {
      case 0:
      case 1:
        return append(some_tokens(below(kContext / 2)));
      case 2:
        return step();
      case 3: {
        Plain& plain = plain_[current_];
        const std::uint32_t to = below(static_cast<std::uint32_t>(plain.tokens.size()) + 2);
        const llmc_status status = llmc_rewind(s(), to);
        ASSERT_EQ(status, to > plain.tokens.size() ? LLMC_ERROR_POSITION : LLMC_OK);
        if (status == LLMC_OK && to < plain.tokens.size()) {
          plain.tokens.resize(to);
          plain.logits = false;
        }
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
        return;
      }
      case 6: {
        const std::uint32_t gone = any_sequence();
        ASSERT_EQ(llmc_release(s(), gone), gone == current_ ? LLMC_ERROR_ARGUMENT : LLMC_OK);
        if (gone != current_) plain_.erase(gone);
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
        plain_[current_] = begin_;
        return;
      default:
        return fail();
    }
  }

  /// The tokens that are kept when `n` more do not fit, as llmc.h says it.
  bool make_room(Tokens& tokens, std::size_t n) const {
    if (tokens.size() + n <= kContext) return true;
    if (config_.full_context != LLMC_FULL_SLIDE) return false;
    const std::size_t keep = std::min<std::size_t>(config_.keep_first, tokens.size());
    const std::size_t most = tokens.size() - keep, least = tokens.size() + n - kContext;
    if (least > most) return false;
    std::size_t drop = config_.slide_tokens != 0 ? config_.slide_tokens : (most + 1) / 2;
    drop = std::max(std::min(drop, most), least);
    const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(keep);
    tokens.erase(begin, begin + static_cast<std::ptrdiff_t>(drop));
    return true;
  }

  void append(const Tokens& added) {
    Plain& plain = plain_[current_];
    Tokens tokens = plain.tokens;
    const bool fits = make_room(tokens, added.size());
    calls_to_cancel_ = below(6) == 0 ? static_cast<int>(below(4)) : -1;
    std::size_t done = 99;
    const llmc_status status = llmc_prefill(s(), added.data(), added.size(), &done);
    calls_to_cancel_ = -1;
    ASSERT_EQ(done, status == LLMC_OK ? added.size() : 0);
    if (status == LLMC_ERROR_CANCELLED || pool_is_full(status)) return;
    ASSERT_EQ(status, fits ? LLMC_OK : LLMC_ERROR_CONTEXT_FULL);
    if (!fits || added.empty()) return;
    plain.tokens = tokens;
    plain.tokens.insert(plain.tokens.end(), added.begin(), added.end());
    plain.logits = true;
  }

  void step() {
    Plain& plain = plain_[current_];
    Tokens tokens = plain.tokens;
    const bool fits = make_room(tokens, 1);
    std::int32_t token = -7;
    const llmc_status status = llmc_step(s(), &token);
    if (status != LLMC_OK) ASSERT_EQ(token, -7);
    if (pool_is_full(status)) return;
    ASSERT_EQ(status, !plain.logits ? LLMC_ERROR_NO_LOGITS
                      : !fits       ? LLMC_ERROR_CONTEXT_FULL
                                    : LLMC_OK);
    if (status != LLMC_OK) return;
    ASSERT_EQ(token, plain_greedy(plain.tokens));
    tokens.push_back(token);
    plain.tokens = tokens;
  }

  void batch() {
    std::vector<std::uint32_t> ids;
    for (const auto& [id, plain] : plain_)
      if (ids.size() < sizes_.batch && below(3) != 0) ids.push_back(id);
    std::shuffle(ids.begin(), ids.end(), random_);
    const bool steps = below(2) == 0;
    Tokens tokens = some_tokens(static_cast<std::uint32_t>(ids.size()));
    const Tokens given = tokens;
    bool full = false, known = true;
    for (const std::uint32_t id : ids) {
      full |= plain_[id].tokens.size() == kContext;
      known &= plain_[id].logits;
    }
    const llmc_status status = steps
                                   ? llmc_step_batch(s(), ids.data(), ids.size(), tokens.data())
                                   : llmc_append_batch(s(), ids.data(), ids.size(), tokens.data());
    if (status != LLMC_OK) {
      ASSERT_EQ(tokens, given);
      if (pool_is_full(status)) return;
      ASSERT_EQ(status, steps && !known ? LLMC_ERROR_NO_LOGITS : LLMC_ERROR_CONTEXT_FULL);
      ASSERT_TRUE((steps && !known) || full);
      return;
    }
    for (std::size_t i = 0; i < ids.size(); ++i) {
      Plain& plain = plain_[ids[i]];
      if (steps) ASSERT_EQ(tokens[i], plain_greedy(plain.tokens));
      plain.tokens.push_back(tokens[i]);
      plain.logits = true;
    }
    for (const std::uint32_t id : ids) check(id);
  }

  void save() {
    Saved saved{std::vector<unsigned char>(llmc_state_bytes(s()), 0xAB), plain_[current_]};
    if (below(4) == 0) {
      ASSERT_EQ(llmc_state_save(s(), saved.bytes.data(), saved.bytes.size() - 1, nullptr),
                LLMC_ERROR_BUFFER);
    }
    ASSERT_EQ(llmc_state_save(s(), saved.bytes.data(), saved.bytes.size(), nullptr), LLMC_OK);
    // Equal tokens, equal bytes, whatever was done before.
    const auto key = std::pair(saved.plain.tokens, saved.plain.logits);
    const auto [known, added] = states_.try_emplace(key, saved.bytes);
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
    if (!damaged) plain_[current_] = saved.plain;
  }

  void slide() {
    Plain& plain = plain_[current_];
    const auto size = static_cast<std::uint32_t>(plain.tokens.size());
    const std::uint32_t keep = below(size + 2), drop = below(size + 2);
    calls_to_cancel_ = below(6) == 0 ? 0 : -1;
    const llmc_status status = llmc_slide(s(), keep, drop);
    calls_to_cancel_ = -1;
    if (status == LLMC_ERROR_CANCELLED || pool_is_full(status)) return;
    ASSERT_EQ(status, keep > size || drop > size - keep ? LLMC_ERROR_POSITION : LLMC_OK);
    if (status != LLMC_OK || drop == 0) return;
    plain.tokens.erase(plain.tokens.begin() + keep, plain.tokens.begin() + keep + drop);
    plain.logits = keep + drop < size;
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

  void check(std::uint32_t id) {
    ASSERT_EQ(llmc_select(s(), id), LLMC_OK);
    const Plain& plain = plain_.at(id);
    ASSERT_EQ(llmc_position(s()), plain.tokens.size());
    const float* logits = llmc_logits(s());
    ASSERT_EQ(logits != nullptr, plain.logits);
    if (plain.logits) ASSERT_EQ(hash_logits(logits), plain_hash(plain.tokens));
    Tokens tokens(plain.tokens.size());
    ASSERT_EQ(llmc_tokens(s(), 0, tokens.data(), tokens.size()), LLMC_OK);
    ASSERT_EQ(tokens, plain.tokens);
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
      for (std::uint32_t i = 0; i < history.count(); ++i) ASSERT_EQ(history[i], plain.tokens[i]);
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
  llmc_config config_{};
  std::optional<CompiledPrompt> prompt_;
  Plain begin_;  // what sequences begin with
  std::unique_ptr<Session> session_;
  std::map<std::uint32_t, Plain> plain_;
  std::uint32_t current_ = 0;
  std::vector<Saved> saved_;
  std::map<std::pair<Tokens, bool>, std::vector<unsigned char>> states_;
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
