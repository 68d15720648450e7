#pragma once

#include <stddef.h>
#include <stdint.h>

#include "history.h"

/// Assigns cache blocks to sequences. A growing sequence takes blocks from one pool; a block
/// returns to the pool when no sequence uses it. Sequences with a common prefix may share blocks,
/// and may use read-only blocks outside the pool. A shared block is copied before it is written to.
namespace llmc::core {

/// The part of a sequence that the cache manages.
struct CachedTokens {
  unsigned char** blocks;   // [number of blocks of a full context]; the first `held` are valid
  unsigned char* replaced;  // the block that a reservation has replaced by a copy; null: none
  uint32_t held;
  uint32_t position;  // number of stored tokens
  int32_t shift;      // shift of the last embedding (history.h); 0: none
};

class KvCache {
 public:
  struct Layout {
    unsigned char* pool;  // [pool_blocks][block_bytes], 64-byte aligned
    uint32_t* users;      // [pool_blocks] number of sequences that use each block
    uint32_t* free;       // [pool_blocks] stack of the numbers of free blocks
    uint64_t block_bytes;
    uint32_t pool_blocks, block_tokens, context;
    bool has_shifts;  // whether the ids of embeddings contain shifts (embedding_id())
  };
  void init(const Layout& layout);

  uint32_t room(const CachedTokens& s) const { return at_.context - s.position; }
  uint32_t free_blocks() const { return free_count_; }
  TokenHistory history(const CachedTokens& s) const {
    return {s.blocks, at_.block_tokens, s.position};
  }

  /// Returns whether any of the tokens first .. end - 1 is an embedding, which cannot be run again.
  bool has_embeddings(const CachedTokens& s, uint32_t first, uint32_t end) const;

  /// Reserves blocks that no other sequence uses for `tokens` (<= room) more tokens. Returns false
  /// without any change if the pool has too few blocks. The reservation must be ended by finish()
  /// or abandon() before any other use of the sequence.
  bool reserve(CachedTokens& s, uint32_t tokens);
  /// Stores the ids of the next `count` reserved tokens, and mirostat's state after each of them.
  void note(const CachedTokens& s, const int32_t* tokens, uint32_t count, float mu = 0.0f) const;
  /// Replaces the id kNoToken of the embedding at `position`, which note() has stored, by
  /// embedding_id(shift).
  void note_shift(const CachedTokens& s, uint32_t position, int32_t shift) const;
  /// Returns mirostat's state (sampler.h) after the token at `position`, which must exist.
  float& mu(const CachedTokens& s, uint32_t position) const;
  /// Returns mirostat's state after the last token; the initial state if there is no token.
  float mu(const CachedTokens& s) const { return s.position == 0 ? 0.0f : mu(s, s.position - 1); }
  /// Increases `position` by `tokens` reserved tokens whose K and V all workers have written. While
  /// a sequence grows, only this function changes `position`, so a reader never sees tokens whose K
  /// and V are still being written. Chunks in flight are committed to a copy of `s` first.
  void commit(CachedTokens& s, uint32_t tokens) const {
    s.position += tokens;
    if (at_.has_shifts) s.shift = last_shift(s, s.position - tokens, s.shift);
  }
  /// Ends a reservation, which can then no longer be abandoned.
  static void finish(CachedTokens& s) { s.replaced = nullptr; }
  /// Undoes a reservation, including the tokens that were committed from it: `position` becomes
  /// `start` again.
  void abandon(CachedTokens& s, uint32_t start);

  /// Drops all tokens from position `keep` (<= position), and reserves blocks for a total of
  /// `tokens`. Returns false without any change if the pool has too few blocks.
  bool replace(CachedTokens& s, uint32_t keep, uint32_t tokens);

  /// Drops all tokens from `position` to the end.
  void truncate(CachedTokens& s, uint32_t position);
  /// Makes an empty sequence share the tokens and blocks of `from`.
  void share(const CachedTokens& from, CachedTokens& to);
  /// Sets an empty sequence to `tokens` tokens in contiguous blocks outside the pool, which begin
  /// at `first`. The blocks are never written to or released.
  void adopt(CachedTokens& s, const unsigned char* first, uint32_t tokens) const;

 private:
  uint32_t blocks_for(uint32_t tokens) const {
    return tokens / at_.block_tokens + (tokens % at_.block_tokens != 0);
  }
  /// Returns the shift of the last embedding from position `first` on; `before` if there is none.
  int32_t last_shift(const CachedTokens& s, uint32_t first, int32_t before) const;
  bool in_pool(const unsigned char* block) const;
  uint32_t* users_of(const unsigned char* block) const;
  bool is_shared(const unsigned char* block) const;
  unsigned char* take();
  void drop(unsigned char* block);

  Layout at_;
  uint32_t free_count_;
};

}  // namespace llmc::core
