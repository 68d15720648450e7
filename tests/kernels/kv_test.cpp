#include <gmock/gmock.h>

#include <cmath>

#include "harness.h"
#include "llmc/kernels/kv_state.h"
#include "reference_cache.h"

namespace llmc::test {
namespace {

using enum KvFormat;

template <class Shape>
class KvStoreTest : public testing::Test {
 protected:
  static constexpr std::size_t kRow = Shape::kKvHeads * Shape::kHeadDim, kLayer = 1;

  /// Rows as they come, then such as are special: zeros, one value, one that is much larger, a tiny
  /// range on a large number, numbers near the ends of what floats hold.
  static Aligned<float> rows(std::size_t tokens, std::uint64_t seed) {
    Aligned<float> x = random_floats(tokens * kRow, seed, 3);
    for (std::size_t t = 0; t < tokens; ++t) {
      for (std::size_t i = 0; i < kRow; ++i) {
        float& number = x[t * kRow + i];
        const bool first = i % Shape::kHeadDim == 0;
        if (t % 16 == 3) number = 0;
        if (t % 16 == 4) number = -1.25f;
        if (t % 16 == 5 && first) number = 1000;
        if (t % 16 == 6) number = 1 + (first ? 0x1p-23f : 0);
        if (t % 16 == 7) number *= 0x1p-100f;
        if (t % 16 == 8) number *= 0x1p-90f;
        if (t % 16 == 9) number *= 0x1p120f;
        if (t % 16 == 10) number = std::abs(number) + 5;
        if (t % 16 == 11) number = std::ldexp(number, -static_cast<int>(i % 24));
      }
    }
    return x;
  }
  static void store(Cache<Shape>& cache, const Aligned<float>& k, const Aligned<float>& v,
                    std::uint32_t begin, std::uint32_t end, std::uint32_t threads) {
    TestRun run = make_run(end - begin, threads, begin);
    run.segment().blocks = cache.blocks();
    kv_store<Shape>(KernelContext{&run, end - begin, nullptr}, kLayer, k.data() + begin * kRow,
                    v.data() + begin * kRow);
  }
};

using StoreShapes = testing::Types<AttentionShape<4, 2, 16, 8, 2>,
                                   AttentionShape<3, 1, 20, 16, 2, formats_of(kF16, kF16)>,
                                   AttentionShape<3, 3, 20, 8, 2, formats_of(kInt8, kInt8)>,
                                   AttentionShape<2, 1, 72, 24, 2, formats_of(kInt8, kFp8)>,
                                   AttentionShape<2, 1, 5, 8, 2, formats_of(kF32, kFp8)>,
                                   AttentionShape<4, 4, 64, 32, 2, formats_of(kF16, kInt8)>>;
TYPED_TEST_SUITE(KvStoreTest, StoreShapes);

TYPED_TEST(KvStoreTest, NumbersAreWhatTheFormatSays) {
  using Shape = TypeParam;
  constexpr std::uint32_t kTokens = 70;
  const auto k = this->rows(kTokens, 1), v = this->rows(kTokens, 2);
  Cache<Shape> cache(kTokens + 10);
  this->store(cache, k, v, 0, kTokens, 3);
  for (std::uint32_t t = 0; t < kTokens; ++t) {
    for (std::size_t h = 0; h < Shape::kKvHeads; ++h) {
      const std::size_t row = (t * Shape::kKvHeads + h) * Shape::kHeadDim;
      const auto keys = reference_kept(Shape::kFormats.keys, true, k.data() + row, Shape::kHeadDim);
      const auto values =
          reference_kept(Shape::kFormats.values, false, v.data() + row, Shape::kHeadDim);
      for (std::size_t d = 0; d < Shape::kHeadDim; ++d) {
        const Kept key = cache.key(1, h, t, d), value = cache.value(1, h, t, d);
        EXPECT_TRUE(key == keys[d]) << t << ' ' << h << ' ' << d << ": " << key.number << " * "
                                    << key.scale << " + " << key.midpoint << " of " << k[row + d];
        EXPECT_TRUE(value == values[d]) << t << ' ' << h << ' ' << d << ": " << value.number
                                        << " * " << value.scale << " of " << v[row + d];
        if (testing::Test::HasFailure()) return;
      }
    }
  }
  EXPECT_TRUE(cache.untouched(1, 0, kTokens));
}

TYPED_TEST(KvStoreTest, ABlockFollowsFromItsTokens) {
  using Shape = TypeParam;
  constexpr std::uint32_t kTokens = 2 * Shape::kBlockTokens;
  const auto k = this->rows(kTokens, 3), v = this->rows(kTokens, 4);
  const auto other = this->rows(kTokens, 5);
  // One layer, the other one holds what the memory held.
  using OneLayer = AttentionShape<Shape::kHeads, Shape::kKvHeads, Shape::kHeadDim,
                                  Shape::kBlockTokens, 1, Shape::kFormats>;
  const auto fill = [&](Cache<OneLayer>& cache, std::uint32_t chunk, std::uint32_t threads,
                        const Aligned<float>& keys, const Aligned<float>& values) {
    for (std::uint32_t at = 0; at < kTokens; at += chunk) {
      const std::uint32_t count = std::min(chunk, kTokens - at);
      TestRun run = make_run(count, threads, at);
      run.segment().blocks = cache.blocks();
      kv_store<OneLayer>(KernelContext{&run, count, nullptr}, 0, keys.data() + at * this->kRow,
                         values.data() + at * this->kRow);
    }
  };
  Cache<OneLayer> once(kTokens, 0xff), steps(kTokens, 0x5a);
  fill(once, kTokens, 4, k, v);
  fill(steps, 3, 1, other, other);
  fill(steps, 1, 1, k, v);
  for (const std::uint32_t p : {0u, static_cast<std::uint32_t>(Shape::kBlockTokens)})
    EXPECT_EQ(once.block(p), steps.block(p)) << p;
}

TYPED_TEST(KvStoreTest, SavedTokensComeBackInBlocksOfAnotherSize) {
  using Shape = TypeParam;
  constexpr std::uint32_t kTokens = 2 * Shape::kBlockTokens, kSlots = Shape::kBlockTokens;
  const auto k = this->rows(kTokens, 7), v = this->rows(kTokens, 8);
  Cache<Shape> cache(kTokens);
  this->store(cache, k, v, 0, kTokens, 2);
  // The other layer as well: kv_save takes all of them.
  TestRun run = make_run(kTokens, 1, 0);
  run.segment().blocks = cache.blocks();
  kv_store<Shape>(KernelContext{&run, kTokens, nullptr}, 0, v.data(), k.data());
  constexpr std::size_t kToken =
      kv_token_bytes(2, Shape::kKvHeads, Shape::kHeadDim, Shape::kFormats);
  Aligned<unsigned char> state(kTokens * kToken);
  kv_save<Shape>(cache.blocks()[0], 0, kSlots, state.data());
  kv_save<Shape>(cache.blocks()[1], 0, kSlots, state.data() + kSlots * kToken);
  using Whole =
      AttentionShape<Shape::kHeads, Shape::kKvHeads, Shape::kHeadDim, kTokens, 2, Shape::kFormats>;
  Cache<Whole> computed(kTokens, 0x11), loaded(kTokens, 0x22);
  run.segment().blocks = computed.blocks();
  kv_store<Whole>(KernelContext{&run, kTokens, nullptr}, 0, v.data(), k.data());
  kv_store<Whole>(KernelContext{&run, kTokens, nullptr}, 1, k.data(), v.data());
  kv_load<Whole>(loaded.blocks()[0], 0, 3, state.data());
  kv_load<Whole>(loaded.blocks()[0], 3, kTokens - 3, state.data() + 3 * kToken);
  EXPECT_EQ(computed.block(0), loaded.block(0));
}

TYPED_TEST(KvStoreTest, WhatIsNotFiniteIsNotHidden) {
  using Shape = TypeParam;
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    auto k = this->rows(1, 6);
    k[2] = bad;
    Cache<Shape> cache(8);
    this->store(cache, k, k, 0, 1, 1);
    const double key = cache.key(1, 0, 0, 2).value(), value = cache.value(1, 0, 0, 2).value();
    EXPECT_FALSE(std::isfinite(key)) << bad;
    EXPECT_FALSE(std::isfinite(value)) << bad;
  }
}

TEST(KvCodesTest, EveryE4m3IsReadExactly) {
  for (int code = 0; code < 256; code += 8) {
    std::uint8_t bytes[8];
    for (int i = 0; i < 8; ++i) bytes[i] = static_cast<std::uint8_t>(code + i);
    float got[8], whole[8];
    store(got, load_e4m3(bytes));
    store(whole, to_f32(load_i8(bytes)));
    for (int i = 0; i < 8; ++i) {
      EXPECT_EQ(whole[i], static_cast<float>(static_cast<std::int8_t>(bytes[i])));
      if ((bytes[i] & 0x7f) == 0x7f) continue;  // NaN, which is never stored
      EXPECT_EQ(bits_of(got[i]), bits_of(e4m3_value(bytes[i]))) << code + i;
    }
  }
}

TEST(KvCodesTest, E4m3IsTheNearest) {
  // Values of all codes, midpoints of neighbours, values next to midpoints, and others.
  Random random(8);
  const auto check = [](const float(&y)[8]) {
    std::int32_t code[8];
    store_i32(code, e4m3_code(load(y)));
    for (int i = 0; i < 8; ++i) {
      ASSERT_GE(code[i], -128);
      ASSERT_LE(code[i], 127);
      EXPECT_EQ(bits_of(e4m3_value(static_cast<std::uint8_t>(code[i]))),
                bits_of(e4m3_nearest(y[i])))
          << std::hexfloat << y[i];
    }
  };
  for (int code = 0; code < 0x7e; ++code) {
    const auto low = static_cast<float>(e4m3_magnitude(code));
    const auto middle = static_cast<float>((e4m3_magnitude(code) + e4m3_magnitude(code + 1)) / 2);
    check({low, -low, middle, -middle, std::nextafterf(middle, 0), std::nextafterf(middle, 2),
           1.75f * random.uniform(), std::ldexp(random.uniform(), -12)});
  }
  check({1.75f, -1.75f, 1.75000012f, -1.75000012f, 1e-30f, -1e-30f, 0x1p-149f, 0.0f});
}

}  // namespace
}  // namespace llmc::test
