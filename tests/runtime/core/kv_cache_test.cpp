#include "runtime/core/kv_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

namespace llmc::core {
namespace {

constexpr std::uint32_t kBlockBytes = 64;  // ids of up to 16 tokens and nothing else

/// A pool with some sequences, each with its expected tokens.
struct Pool {
  Pool(std::uint32_t blocks, std::uint32_t block_tokens, std::uint32_t context,
       std::size_t sequences = 1)
      : block_tokens(block_tokens),
        memory(blocks * kBlockBytes, 0xEE),
        users(blocks, 77),
        free_blocks(blocks, 77),
        tables(sequences, std::vector<unsigned char*>((context + block_tokens - 1) / block_tokens)),
        cached(sequences),
        tokens(sequences) {
    cache.init({memory.data(), users.data(), free_blocks.data(), kBlockBytes, blocks, block_tokens,
                context, false});
    for (std::size_t i = 0; i < sequences; ++i) cached[i].blocks = tables[i].data();
  }
  /// Reserves, writes and commits.
  bool append(std::size_t sequence, const std::vector<std::int32_t>& ids) {
    CachedTokens& s = cached[sequence];
    const auto n = static_cast<std::uint32_t>(ids.size());
    if (!cache.reserve(s, n)) return false;
    cache.note(s, ids.data(), n);
    cache.commit(s, n);
    KvCache::finish(s);
    tokens[sequence].insert(tokens[sequence].end(), ids.begin(), ids.end());
    return true;
  }
  void truncate(std::size_t sequence, std::uint32_t position) {
    cache.truncate(cached[sequence], position);
    tokens[sequence].resize(position);
  }
  /// Every sequence holds its tokens, every block is free or counted right, none is lost.
  void check() const {
    std::map<const unsigned char*, std::uint32_t> seen;
    for (std::size_t i = 0; i < cached.size(); ++i) {
      const TokenHistory history = cache.history(cached[i]);
      ASSERT_EQ(history.count(), tokens[i].size()) << i;
      for (std::uint32_t t = 0; t < history.count(); ++t)
        ASSERT_EQ(history[t], tokens[i][t]) << i << ' ' << t;
      ASSERT_EQ(cached[i].held, (tokens[i].size() + block_tokens - 1) / block_tokens);
      for (std::uint32_t b = 0; b < cached[i].held; ++b) ++seen[cached[i].blocks[b]];
    }
    std::size_t used = 0;
    for (const auto& [block, count] : seen) {
      if (block < memory.data() || block >= memory.data() + memory.size()) continue;
      const auto id = static_cast<std::size_t>(block - memory.data()) / kBlockBytes;
      ASSERT_EQ(users[id], count);
      ++used;
    }
    ASSERT_EQ(cache.free_blocks() + used, users.size());
    std::vector<std::uint32_t> ids(free_blocks.begin(), free_blocks.begin() + cache.free_blocks());
    std::ranges::sort(ids);
    ASSERT_EQ(std::ranges::adjacent_find(ids), ids.end());
    for (const std::uint32_t id : ids) ASSERT_EQ(users[id], 0u);
  }

  std::uint32_t block_tokens;
  std::vector<unsigned char> memory;
  std::vector<std::uint32_t> users, free_blocks;
  std::vector<std::vector<unsigned char*>> tables;
  std::vector<CachedTokens> cached;
  std::vector<std::vector<std::int32_t>> tokens;
  KvCache cache;
};

std::vector<std::int32_t> ids(std::size_t n, std::int32_t from = 1) {
  std::vector<std::int32_t> result(n);
  std::iota(result.begin(), result.end(), from);
  return result;
}

TEST(KvCache, HandsOutBlocksAsTheSequenceGrows) {
  Pool pool(4, 8, 30);
  CachedTokens& s = pool.cached[0];
  EXPECT_EQ(pool.cache.free_blocks(), 4u);
  EXPECT_EQ(pool.cache.room(s), 30u);
  ASSERT_TRUE(pool.cache.reserve(s, 8));
  EXPECT_EQ(pool.cache.free_blocks(), 3u);
  EXPECT_EQ(s.position, 0u);  // written, not yet committed
  pool.cache.commit(s, 8);
  KvCache::finish(s);
  EXPECT_EQ(s.position, 8u);
  pool.tokens[0] = ids(8, 0);
  ASSERT_TRUE(pool.cache.reserve(s, 0));
  EXPECT_EQ(s.held, 1u);
  ASSERT_TRUE(pool.cache.reserve(s, 1));
  pool.cache.commit(s, 1);
  EXPECT_EQ(s.held, 2u);
  ASSERT_TRUE(pool.cache.reserve(s, 21));
  pool.cache.commit(s, 21);
  EXPECT_EQ(pool.cache.free_blocks(), 0u);
  EXPECT_EQ(pool.cache.room(s), 0u);
}

TEST(KvCache, BlocksKeepTheirPlaceAndComeBack) {
  Pool pool(4, 8, 32);
  ASSERT_TRUE(pool.append(0, ids(32)));
  const std::vector<unsigned char*> full = pool.tables[0];
  pool.truncate(0, 9);
  EXPECT_EQ(pool.cache.free_blocks(), 2u);
  EXPECT_EQ(pool.tables[0][0], full[0]);
  EXPECT_EQ(pool.tables[0][1], full[1]);
  pool.truncate(0, 8);
  EXPECT_EQ(pool.cache.free_blocks(), 3u);
  ASSERT_TRUE(pool.cache.reserve(pool.cached[0], 24));
  EXPECT_EQ(pool.cache.free_blocks(), 0u);
  pool.cache.abandon(pool.cached[0], 8);  // reserved, never committed
  EXPECT_EQ(pool.cache.free_blocks(), 3u);
  pool.check();
  pool.truncate(0, 0);
  EXPECT_EQ(pool.cache.free_blocks(), 4u);
}

TEST(KvCache, SharedBlocksAreCopiedWhenWritten) {
  Pool pool(6, 8, 40, 3);
  ASSERT_TRUE(pool.append(0, ids(20)));
  pool.cache.share(pool.cached[0], pool.cached[1]);
  pool.cache.share(pool.cached[0], pool.cached[2]);
  pool.tokens[1] = pool.tokens[2] = pool.tokens[0];
  pool.check();
  EXPECT_EQ(pool.cache.free_blocks(), 3u);
  ASSERT_TRUE(pool.append(1, {100}));  // copies the third block, shares two
  EXPECT_EQ(pool.cache.free_blocks(), 2u);
  EXPECT_EQ(pool.tables[0][1], pool.tables[1][1]);
  EXPECT_NE(pool.tables[0][2], pool.tables[1][2]);
  pool.check();
  ASSERT_TRUE(pool.append(0, {101}));  // number 2 still sees the block
  EXPECT_EQ(pool.cache.free_blocks(), 1u);
  ASSERT_TRUE(pool.append(2, {102}));  // alone with it now
  EXPECT_EQ(pool.cache.free_blocks(), 1u);
  pool.check();
  pool.truncate(2, 10);
  ASSERT_TRUE(pool.append(2, {103}));  // in the middle of a shared block
  EXPECT_EQ(pool.cache.free_blocks(), 1u);
  EXPECT_NE(pool.tables[0][1], pool.tables[2][1]);
  pool.check();
}

TEST(KvCache, AnExhaustedPoolChangesNothing) {
  Pool pool(3, 8, 40, 2);
  ASSERT_TRUE(pool.append(0, ids(20)));
  EXPECT_FALSE(pool.append(0, ids(5)));
  pool.check();
  pool.cache.share(pool.cached[0], pool.cached[1]);
  pool.tokens[1] = pool.tokens[0];
  EXPECT_FALSE(pool.append(1, ids(1)));  // no block for the copy
  pool.check();
  pool.truncate(0, 16);
  EXPECT_TRUE(pool.append(1, ids(1)));  // has the block to itself
  EXPECT_FALSE(pool.append(0, ids(1)));
  pool.check();
}

TEST(KvCache, AbandonedCopiesGoBack) {
  Pool pool(4, 8, 40, 2);
  ASSERT_TRUE(pool.append(0, ids(12)));
  pool.cache.share(pool.cached[0], pool.cached[1]);
  pool.tokens[1] = pool.tokens[0];
  const auto tables = pool.tables;
  // Both, as a batch does: the second one would have had the block to itself.
  ASSERT_TRUE(pool.cache.reserve(pool.cached[0], 1));
  EXPECT_NE(pool.tables[0][1], tables[0][1]);
  ASSERT_TRUE(pool.cache.reserve(pool.cached[1], 1));
  EXPECT_EQ(pool.tables[1][1], tables[1][1]);
  pool.cache.abandon(pool.cached[1], 12);
  pool.cache.abandon(pool.cached[0], 12);
  EXPECT_EQ(pool.tables[0][1], tables[0][1]);
  EXPECT_EQ(pool.cache.free_blocks(), 2u);
  pool.check();
  // After some of the tokens were run.
  ASSERT_TRUE(pool.cache.reserve(pool.cached[0], 10));
  pool.cache.note(pool.cached[0], ids(4, 50).data(), 4);
  pool.cache.commit(pool.cached[0], 4);
  pool.cache.abandon(pool.cached[0], 12);
  pool.check();
}

TEST(KvCache, BlocksOutsideThePoolAreOnlyRead) {
  alignas(64) std::array<std::int32_t, 48> outside;
  std::iota(outside.begin(), outside.end(), 0);
  const auto before = outside;
  Pool pool(3, 16, 48, 2);
  pool.cache.adopt(pool.cached[0], reinterpret_cast<unsigned char*>(outside.data()), 20);
  pool.tokens[0] = ids(20, 0);
  pool.check();
  EXPECT_EQ(pool.cache.free_blocks(), 3u);
  pool.cache.share(pool.cached[0], pool.cached[1]);
  pool.tokens[1] = pool.tokens[0];
  ASSERT_TRUE(pool.append(0, ids(1)));  // copies what is partly filled
  EXPECT_EQ(pool.cache.free_blocks(), 2u);
  pool.truncate(1, 16);
  ASSERT_TRUE(pool.append(1, ids(3)));
  ASSERT_TRUE(pool.cache.reserve(pool.cached[1], 20));
  pool.cache.abandon(pool.cached[1], 19);
  pool.check();
  pool.truncate(0, 0);
  pool.truncate(1, 5);
  ASSERT_TRUE(pool.append(1, ids(1)));
  pool.check();
  EXPECT_EQ(outside, before);
}

TEST(KvCache, NoBlockIsLostOverRandomUse) {
  constexpr std::size_t kSequences = 5;
  Pool pool(13, 4, 50, kSequences);
  std::mt19937 random(1);
  const auto below = [&](std::size_t n) { return static_cast<std::uint32_t>(random() % n); };
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::size_t s = below(kSequences), other = below(kSequences);
    CachedTokens& cached = pool.cached[s];
    switch (below(4)) {
      case 0:
        pool.truncate(s, below(cached.position + 1));
        break;
      case 1:
        if (s == other) break;
        pool.truncate(s, 0);
        pool.cache.share(pool.cached[other], cached);
        pool.tokens[s] = pool.tokens[other];
        break;
      case 2: {
        const std::uint32_t position = cached.position, n = below(pool.cache.room(cached) + 1);
        if (!pool.cache.reserve(cached, n)) break;
        const std::uint32_t part = below(n + 1);
        pool.cache.note(cached, ids(n, -7).data(), part);
        pool.cache.commit(cached, part);
        pool.cache.abandon(cached, position);
        break;
      }
      default:
        refused += !pool.append(s, ids(below(std::min(pool.cache.room(cached), 9u) + 1), i));
        break;
    }
    pool.check();
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(refused, 100);
  for (std::size_t s = 0; s < kSequences; ++s) pool.truncate(s, 0);
  EXPECT_EQ(pool.cache.free_blocks(), 13u);
}

}  // namespace
}  // namespace llmc::core
