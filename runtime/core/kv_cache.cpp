#include "kv_cache.h"

namespace llmc::core {

void KvCache::init(uint32_t* table, uint32_t* free_blocks, uint32_t blocks, uint32_t block_tokens,
                   uint32_t context) {
  table_ = table;
  free_ = free_blocks;
  free_count_ = blocks;
  held_ = 0;
  position_ = 0;
  context_ = context;
  block_tokens_ = block_tokens;
  for (uint32_t i = 0; i < blocks; ++i) {
    table_[i] = UINT32_MAX;
    free_[i] = blocks - 1 - i;
  }
}

void KvCache::reserve(uint32_t tokens) {
  // The pool has a block for every table entry, so it cannot run dry.
  const uint32_t wanted = blocks_for(position_ + tokens);
  while (held_ < wanted) table_[held_++] = free_[--free_count_];
}

void KvCache::truncate(uint32_t position) {
  const uint32_t wanted = blocks_for(position);
  while (held_ > wanted) {
    free_[free_count_++] = table_[--held_];
    table_[held_] = UINT32_MAX;
  }
  position_ = position;
}

}  // namespace llmc::core
