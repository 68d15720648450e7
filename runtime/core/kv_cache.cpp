#include "kv_cache.h"

namespace llmc::core {

void KvCache::init(const Layout& layout) {
  at_ = layout;
  free_count_ = layout.pool_blocks;
  for (uint32_t i = 0; i < layout.pool_blocks; ++i) {
    at_.users[i] = 0;
    at_.free[i] = layout.pool_blocks - 1 - i;
  }
}

bool KvCache::in_pool(const unsigned char* block) const {
  const uintptr_t pool = reinterpret_cast<uintptr_t>(at_.pool);
  const uintptr_t address = reinterpret_cast<uintptr_t>(block);
  return address >= pool && address - pool < at_.pool_blocks * at_.block_bytes;
}

uint32_t* KvCache::users_of(const unsigned char* block) const {
  return at_.users + static_cast<uint64_t>(block - at_.pool) / at_.block_bytes;
}

bool KvCache::is_shared(const unsigned char* block) const {
  return !in_pool(block) || *users_of(block) > 1;
}

// Take the block that was released last, which is likely to be in a CPU cache.
unsigned char* KvCache::take() {
  const uint32_t id = at_.free[--free_count_];
  at_.users[id] = 1;
  return at_.pool + id * at_.block_bytes;
}

void KvCache::drop(unsigned char* block) {
  if (!in_pool(block)) return;
  uint32_t* const users = users_of(block);
  if (--*users == 0) at_.free[free_count_++] = static_cast<uint32_t>(users - at_.users);
}

// Not inlined: several functions call it, and it takes little of their time.
__attribute__((noinline)) bool KvCache::has_embeddings(const CachedTokens& s, uint32_t first,
                                                       uint32_t end) const {
  const TokenHistory tokens = history(s);
  while (first < end && tokens[first] != kNoToken) ++first;
  return first < end;
}

bool KvCache::reserve(CachedTokens& s, uint32_t tokens) {
  if (tokens == 0) return true;
  const uint32_t wanted = blocks_for(s.position + tokens);
  const uint32_t last = s.position / at_.block_tokens;
  const bool copy = s.position % at_.block_tokens != 0 && is_shared(s.blocks[last]);
  if (wanted - s.held + copy > free_count_) return false;
  if (copy) {
    unsigned char* const own = take();
    __builtin_memcpy(own, s.blocks[last], at_.block_bytes);
    // Release the block now: if several sequences are reserved together, the last one may then be
    // its only user. Reservations write nothing, so all of them can still be abandoned.
    drop(s.blocks[last]);
    s.replaced = s.blocks[last];
    s.blocks[last] = own;
  }
  while (s.held < wanted) s.blocks[s.held++] = take();
  return true;
}

float& KvCache::mu(const CachedTokens& s, uint32_t position) const {
  auto* const ids = reinterpret_cast<int32_t*>(s.blocks[position / at_.block_tokens]);
  return reinterpret_cast<float*>(ids + at_.block_tokens)[position % at_.block_tokens];
}

void KvCache::note(const CachedTokens& s, const int32_t* tokens, uint32_t count, float mu) const {
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t at = s.position + i;
    reinterpret_cast<int32_t*>(s.blocks[at / at_.block_tokens])[at % at_.block_tokens] = tokens[i];
    this->mu(s, at) = mu;
  }
}

void KvCache::note_shift(const CachedTokens& s, uint32_t position, int32_t shift) const {
  reinterpret_cast<int32_t*>(s.blocks[position / at_.block_tokens])[position % at_.block_tokens] =
      embedding_id(shift);
}

int32_t KvCache::last_shift(const CachedTokens& s, uint32_t first, int32_t before) const {
  const TokenHistory tokens = history(s);
  for (uint32_t i = s.position; i > first; --i)
    if (tokens.stored(i - 1) < 0) return shift_of(tokens.stored(i - 1));
  return before;
}

void KvCache::abandon(CachedTokens& s, uint32_t start) {
  truncate(s, start);
  if (s.replaced == nullptr) return;
  unsigned char*& last = s.blocks[start / at_.block_tokens];
  drop(last);
  last = s.replaced;
  if (in_pool(last)) ++*users_of(last);
  s.replaced = nullptr;
}

bool KvCache::replace(CachedTokens& s, uint32_t keep, uint32_t tokens) {
  uint64_t free = free_count_;
  const uint32_t kept = blocks_for(keep);
  for (uint32_t i = kept; i < s.held; ++i) free += !is_shared(s.blocks[i]);
  const bool copy = tokens > keep && keep % at_.block_tokens != 0 && is_shared(s.blocks[kept - 1]);
  if (uint64_t{blocks_for(tokens)} - kept + copy > free) return false;
  truncate(s, keep);
  return reserve(s, tokens - keep);
}

void KvCache::truncate(CachedTokens& s, uint32_t position) {
  const uint32_t wanted = blocks_for(position);
  while (s.held > wanted) drop(s.blocks[--s.held]);
  const bool shorter = position < s.position;
  s.position = position;
  if (at_.has_shifts && shorter) s.shift = last_shift(s, 0, 0);
}

void KvCache::share(const CachedTokens& from, CachedTokens& to) {
  to.held = from.held;
  to.position = from.position;
  to.shift = from.shift;
  for (uint32_t i = 0; i < from.held; ++i) {
    to.blocks[i] = from.blocks[i];
    if (in_pool(from.blocks[i])) ++*users_of(from.blocks[i]);
  }
}

void KvCache::adopt(CachedTokens& s, const unsigned char* first, uint32_t tokens) const {
  s.held = blocks_for(tokens);
  s.position = tokens;
  s.shift = 0;
  for (uint32_t i = 0; i < s.held; ++i)
    s.blocks[i] = const_cast<unsigned char*>(first + i * at_.block_bytes);
}

}  // namespace llmc::core
