#include "runtime/core/kv_cache.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

namespace llmc::core {
namespace {

struct Pool {
  Pool(std::uint32_t blocks, std::uint32_t block_tokens, std::uint32_t context)
      : table(blocks), free_blocks(blocks) {
    cache.init(table.data(), free_blocks.data(), blocks, block_tokens, context);
  }
  /// Ids of the blocks that hold the sequence; every one different.
  std::set<std::uint32_t> held() const {
    std::set<std::uint32_t> ids;
    for (const std::uint32_t id : table) {
      if (id == UINT32_MAX) continue;
      EXPECT_LT(id, table.size());
      EXPECT_TRUE(ids.insert(id).second) << id;
    }
    return ids;
  }
  std::vector<std::uint32_t> table;
  std::vector<std::uint32_t> free_blocks;
  KvCache cache;
};

TEST(KvCache, HandsOutBlocksAsTheSequenceGrows) {
  Pool pool(4, 8, 30);
  EXPECT_EQ(pool.held().size(), 0u);
  EXPECT_EQ(pool.cache.room(), 30u);
  pool.cache.reserve(8);
  EXPECT_EQ(pool.held().size(), 1u);
  EXPECT_EQ(pool.cache.position(), 0u);  // written, not yet committed
  pool.cache.commit(8);
  EXPECT_EQ(pool.cache.position(), 8u);
  pool.cache.reserve(1);
  pool.cache.commit(1);
  EXPECT_EQ(pool.held().size(), 2u);
  pool.cache.reserve(21);
  pool.cache.commit(21);
  EXPECT_EQ(pool.held().size(), 4u);
  EXPECT_EQ(pool.cache.room(), 0u);
}

TEST(KvCache, BlocksKeepTheirPlaceAndComeBack) {
  Pool pool(4, 8, 32);
  pool.cache.reserve(32);
  pool.cache.commit(32);
  const std::vector<std::uint32_t> full = pool.table;
  pool.cache.truncate(9);
  EXPECT_EQ(pool.held(), (std::set<std::uint32_t>{full[0], full[1]}));
  EXPECT_EQ(pool.table[0], full[0]);
  EXPECT_EQ(pool.table[1], full[1]);
  pool.cache.truncate(8);
  EXPECT_EQ(pool.held().size(), 1u);
  pool.cache.reserve(24);
  EXPECT_EQ(pool.held().size(), 4u);
  pool.cache.truncate(8);  // reserved, never committed
  EXPECT_EQ(pool.held().size(), 1u);
  pool.cache.truncate(0);
  EXPECT_EQ(pool.held().size(), 0u);
}

TEST(KvCache, NoBlockIsLostOverRandomUse) {
  Pool pool(13, 4, 50);
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    if (random() % 2 == 0) {
      const std::uint32_t n = static_cast<std::uint32_t>(random() % (pool.cache.room() + 1));
      pool.cache.reserve(n);
      if (random() % 4 == 0) {
        pool.cache.truncate(pool.cache.position());
      } else {
        pool.cache.commit(n);
      }
    } else {
      pool.cache.truncate(static_cast<std::uint32_t>(random() % (pool.cache.position() + 1)));
    }
    ASSERT_EQ(pool.held().size(), (pool.cache.position() + 3) / 4);
  }
  pool.cache.truncate(0);
  pool.cache.reserve(50);
  EXPECT_EQ(pool.held().size(), 13u);
}

}  // namespace
}  // namespace llmc::core
