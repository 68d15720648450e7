#pragma once

#include <stddef.h>
#include <stdint.h>

#include "history.h"

/// Which blocks hold the tokens of which sequence. Blocks come from one pool as sequences grow and
/// go back to it when nobody uses them any more; sequences that begin with the same tokens may
/// share blocks, and blocks outside the pool, which are only read. Before a block that others see
/// is written to, it is copied.
namespace llmc::core {

/// The part of a sequence that the cache manages.
struct CachedTokens {
  unsigned char** blocks;   // [blocks of a whole context], of which `held` are in use
  unsigned char* replaced;  // the block whose copy a reservation made; null: none
  uint32_t held;
  uint32_t position;  // tokens stored
};

class KvCache {
 public:
  struct Layout {
    unsigned char* pool;  // [pool_blocks][block_bytes], 64-byte aligned
    uint32_t* users;      // [pool_blocks]
    uint32_t* free;       // [pool_blocks]
    uint64_t block_bytes;
    uint32_t pool_blocks, block_tokens, context;
  };
  void init(const Layout& layout);

  uint32_t room(const CachedTokens& s) const { return at_.context - s.position; }
  uint32_t free_blocks() const { return free_count_; }
  TokenHistory history(const CachedTokens& s) const {
    return {s.blocks, at_.block_tokens, s.position};
  }

  /// Makes sure blocks of its own stand ready for `tokens` (<= room) more. False, and nothing is
  /// changed, when the pool has too few. What was reserved is committed or abandoned before the
  /// sequence is used otherwise.
  bool reserve(CachedTokens& s, uint32_t tokens);
  /// Notes the ids of the next `count` reserved tokens, and the state of mirostat after them.
  void note(const CachedTokens& s, const int32_t* tokens, uint32_t count, float mu = 0.0f) const;
  /// Mirostat's state after the token at `position` (sampler.h), which is there.
  float& mu(const CachedTokens& s, uint32_t position) const;
  /// After the last token; that of a start when there is none.
  float mu(const CachedTokens& s) const { return s.position == 0 ? 0.0f : mu(s, s.position - 1); }
  /// So many of the reserved tokens have been written by all workers: `position` moves now and in
  /// truncate only, so a reader never sees tokens whose K and V are still being written.
  static void commit(CachedTokens& s, uint32_t tokens) { s.position += tokens; }
  /// No more tokens are to come of the reservation.
  static void finish(CachedTokens& s) { s.replaced = nullptr; }
  /// Takes a reservation back, with what was committed of it: position becomes `start` again.
  void abandon(CachedTokens& s, uint32_t start);

  /// Drops everything from `keep` (<= position) on and reserves for up to `tokens` in all; false,
  /// and nothing is changed, when the pool has too few blocks for that.
  bool replace(CachedTokens& s, uint32_t keep, uint32_t tokens);

  /// Drops everything from `position` on.
  void truncate(CachedTokens& s, uint32_t position);
  /// An empty sequence becomes one of the same tokens in the same blocks.
  void share(const CachedTokens& from, CachedTokens& to);
  /// An empty sequence becomes one of `tokens` tokens in blocks outside the pool, one after the
  /// other from `first` on. They are never written, nor given back.
  void adopt(CachedTokens& s, const unsigned char* first, uint32_t tokens) const;

 private:
  uint32_t blocks_for(uint32_t tokens) const {
    return tokens / at_.block_tokens + (tokens % at_.block_tokens != 0);
  }
  bool in_pool(const unsigned char* block) const;
  uint32_t* users_of(const unsigned char* block) const;
  bool others_see(const unsigned char* block) const;
  unsigned char* take();
  void drop(unsigned char* block);

  Layout at_;
  uint32_t free_count_;
};

}  // namespace llmc::core
