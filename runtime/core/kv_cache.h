#pragma once

#include <stdint.h>

/// Which pool block holds which tokens of the sequence. Blocks are handed out as it grows and given
/// back when it shrinks; nothing is ever copied or moved.
namespace llmc::core {

class KvCache {
 public:
  /// `table` and `free_blocks`: u32[blocks] each, in the arena.
  void init(uint32_t* table, uint32_t* free_blocks, uint32_t blocks, uint32_t block_tokens,
            uint32_t context);

  /// Tokens stored. Moves with `commit` and `truncate` only, so a reader on the thread that owns
  /// the session never sees tokens whose K and V are still being written.
  uint32_t position() const { return position_; }
  uint32_t room() const { return context_ - position_; }
  const uint32_t* table() const { return table_; }

  /// Makes sure blocks stand ready for `tokens` (<= room()) more.
  void reserve(uint32_t tokens);
  /// The reserved tokens have been written by all workers.
  void commit(uint32_t tokens) { position_ += tokens; }
  /// Drops everything from `position` (<= position()) on, and what was reserved.
  void truncate(uint32_t position);

 private:
  uint32_t blocks_for(uint32_t tokens) const {
    return tokens / block_tokens_ + (tokens % block_tokens_ != 0);
  }

  uint32_t* table_;
  uint32_t* free_;  // a stack: the block given back last goes out first, while it is in cache
  uint32_t free_count_;
  uint32_t held_;  // entries of table_ in use
  uint32_t position_;
  uint32_t context_;
  uint32_t block_tokens_;
};

}  // namespace llmc::core
