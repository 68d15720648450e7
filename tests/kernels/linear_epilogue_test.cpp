#include <gmock/gmock.h>

#include <cmath>

#include "linear.h"
#include "reference_cache.h"

namespace llmc::test {
namespace {

template <class T>
class LinearEpilogueTest : public testing::Test {};

using EpilogueCases = testing::Types<Case<WeightKind::kQ4, 13, 77>, Case<WeightKind::kQ4, 40, 288>,
                                     Case<WeightKind::kQ8, 17, 288>, Case<WeightKind::kF16, 13, 77>,
                                     Case<WeightKind::kF32, 56, 40>>;
TYPED_TEST_SUITE(LinearEpilogueTest, EpilogueCases);

TYPED_TEST(LinearEpilogueTest, NormalizesItsInput) {
  using W = typename TypeParam::W;
  constexpr std::size_t N = TypeParam::N, K = TypeParam::K;
  const auto data = make_weight<W>(N, 100 + N);
  const auto gain = random_floats(K, 4);
  for (const std::uint32_t tokens : {1u, 5u, 134u}) {
    const auto x = random_floats(tokens * K, 6, 2);
    for (const std::uint32_t threads : {1u, 2u, 3u, 4u}) {
      Aligned<float> y(tokens * N), normalized(tokens * K), want(tokens * N);
      const TestRun run = make_run(tokens, threads);
      rms_norm<K>(KernelContext{&run, tokens, nullptr}, x.data(), gain.data(), 1e-5f,
                  normalized.data());
      run_linear(run, Rows<K>{normalized.data()}, W{data.data()}, Store<N>{want.data()});
      run_linear(run, RmsNorm<K>{x.data(), gain.data(), 1e-5f}, W{data.data()}, Store<N>{y.data()});
      EXPECT_TRUE(y == want) << tokens;
    }
  }
}

TYPED_TEST(LinearEpilogueTest, LayerNormalizesItsInput) {
  using W = typename TypeParam::W;
  constexpr std::size_t N = TypeParam::N, K = TypeParam::K;
  const auto data = make_weight<W>(N, 100 + N);
  const auto gain = random_floats(K, 4), shift = random_floats(K, 5);
  for (const std::uint32_t tokens : {1u, 5u, 134u}) {
    const auto x = random_floats(tokens * K, 6, 2);
    for (const float* bias : {shift.data(), static_cast<const float*>(nullptr)}) {
      Aligned<float> y(tokens * N), normalized(tokens * K), want(tokens * N);
      const TestRun run = make_run(tokens, 3);
      layer_norm<K>(KernelContext{&run, tokens, nullptr}, x.data(), gain.data(), bias, 1e-5f,
                    normalized.data());
      run_linear(run, Rows<K>{normalized.data()}, W{data.data()}, Store<N>{want.data()});
      run_linear(run, LayerNorm<K>{x.data(), gain.data(), bias, 1e-5f}, W{data.data()},
                 Store<N>{y.data()});
      EXPECT_TRUE(y == want) << tokens;
    }
  }
}

template <class Fn>
float of_one(float x) {
  float lanes[8];
  store(lanes, Fn::apply(splat(x)));
  return lanes[0];
}

TYPED_TEST(LinearEpilogueTest, AppliesAFunction) {
  using W = typename TypeParam::W;
  constexpr std::size_t N = TypeParam::N, K = TypeParam::K;
  const auto data = make_weight<W>(N, 7);
  const auto bias = random_floats(W::kRows, 3);
  for (const std::uint32_t tokens : {1u, 7u}) {
    const auto x = random_floats(tokens * K, 8);
    const auto residual = random_floats(tokens * N, 9);
    const TestRun run = make_run(tokens, 2);
    Aligned<float> product(tokens * N), plain(tokens * N), sum(tokens * N), into(tokens * N);
    run_linear(run, Rows<K>{x.data()}, W{data.data()}, Store<N>{product.data(), bias.data()});
    run_linear(run, Rows<K>{x.data()}, W{data.data()},
               Store<N, GeluTanh>{plain.data(), bias.data()});
    std::memcpy(into.data(), residual.data(), residual.size() * sizeof(float));
    run_linear(run, Rows<K>{x.data()}, W{data.data()}, AddTo<N, Tanh>{into.data(), bias.data()});
    run_linear(run, Rows<K>{x.data()}, W{data.data()},
               AddStore<N, Tanh>{sum.data(), residual.data(), bias.data()});
    for (std::size_t i = 0; i < sum.size(); ++i) {
      ASSERT_EQ(bits_of(plain[i]), bits_of(of_one<GeluTanh>(product[i])));
      ASSERT_EQ(bits_of(into[i]), bits_of(residual[i] + of_one<Tanh>(product[i])));
    }
    EXPECT_TRUE(into == sum);
  }
}

TYPED_TEST(LinearEpilogueTest, AddsToAResidual) {
  using W = typename TypeParam::W;
  constexpr std::size_t N = TypeParam::N, K = TypeParam::K;
  const auto data = make_weight<W>(N, 7);
  for (const std::uint32_t tokens : {1u, 7u}) {
    const auto x = random_floats(tokens * K, 8);
    const auto residual = random_floats(tokens * N, 9);
    const TestRun run = make_run(tokens, 2);
    Aligned<float> product(tokens * N), sum(tokens * N), into(tokens * N);
    run_linear(run, Rows<K>{x.data()}, W{data.data()}, Store<N>{product.data()});
    std::memcpy(into.data(), residual.data(), residual.size() * sizeof(float));
    run_linear(run, Rows<K>{x.data()}, W{data.data()}, AddTo<N>{into.data()});
    run_linear(run, Rows<K>{x.data()}, W{data.data()}, AddStore<N>{sum.data(), residual.data()});
    for (std::size_t i = 0; i < sum.size(); ++i) {
      ASSERT_EQ(bits_of(into[i]), bits_of(residual[i] + product[i]));
    }
    EXPECT_TRUE(into == sum);
  }
}

template <class Fn>
void check_gated() {
  constexpr std::size_t I = 21, K = 96;
  using W = WeightQ4<packed_gated_rows(I), K>;
  const auto data = make_weight<W>(W::kRows, 11);
  const auto bias = random_floats(W::kRows, 12);
  for (const std::uint32_t tokens : {1u, 9u, 70u}) {
    const auto x = random_floats(tokens * K, 13);
    const TestRun run = make_run(tokens, 3);
    Aligned<float> rows(tokens * W::kRows), y(tokens * I);
    run_linear(run, Rows<K>{x.data()}, W{data.data()}, Store<W::kRows>{rows.data(), bias.data()});
    run_linear(run, Rows<K>{x.data()}, W{data.data()}, Gated<I, Fn>{y.data(), bias.data()});
    for (std::size_t t = 0; t < tokens; ++t) {
      for (std::size_t i = 0; i < I; ++i) {
        const float* row = rows.data() + t * W::kRows + i / 8 * 16 + i % 8;
        ASSERT_EQ(bits_of(y[t * I + i]), bits_of(of_one<Fn>(row[0]) * row[8])) << t << ' ' << i;
      }
    }
  }
}

TEST(LinearFusedTest, GatedTakesGateAndUpPanelsInTurn) {
  check_gated<Silu>();
  check_gated<Gelu>();
  check_gated<GeluTanh>();
  check_gated<Relu>();
}

template <class Config>
void check_qkv(bool rotate, bool norm, std::uint32_t tokens) {
  constexpr std::size_t K = 64, kDim = Config::kHeadDim, kPadded = Config::kPadded;
  using W = WeightQ8<packed_qkv_rows(Config::kHeads, Config::kKvHeads, kDim), K>;
  // Rows past head_dim of each head are padding: zero weights and bias.
  Aligned<unsigned char> data(W::bytes), all(W::bytes);
  packing::fill_weight<W>(all.data(), W::kRows, 21);
  auto bias = random_floats(W::kRows, 22);
  for (std::size_t row = 0; row < W::kRows; ++row) {
    uint8_t* to = data.data() + row / 8 * W::kPanelBytes;
    const uint8_t* from = all.data() + row / 8 * W::kPanelBytes;
    if (row % kPadded >= kDim) {
      bias[row] = 0;
      continue;
    }
    for (std::size_t k = 0; k < K; ++k) q8_set_code(to, row % 8, k, q8_code(from, row % 8, k));
    for (std::size_t b = 0; b < 2; ++b) {
      q8_set_scale(to, K, row % 8, b, load_u16(from + q8_scale_position(K, row % 8, b)));
    }
  }
  constexpr std::uint32_t kPosition = 13, kLayer = 1;
  const auto x = random_floats(tokens * K, 23);
  const auto frequencies = random_floats(Config::kRotation.dims / 2 + 1, 24);
  Cache<Config> cache(64);
  TestRun run = make_run(tokens, 3, kPosition);
  run.segment().blocks = cache.blocks();
  Aligned<float> table(tokens * Config::kRotation.dims + 1), q(tokens * Config::kHeads * kDim);
  Aligned<float> rows(tokens * W::kRows);
  const KernelContext context{&run, tokens, nullptr};
  rope_angles<Config::kRotation.dims>(context, frequencies.data(), table.data());
  run_linear(run, Rows<K>{x.data()}, W{data.data()}, Store<W::kRows>{rows.data(), bias.data()});
  const auto q_norm = random_floats(kDim, 25), k_norm = random_floats(kDim, 26);
  const QkvRope<Config> plain{q.data(), kLayer, rotate ? table.data() : nullptr, bias.data()};
  if (norm) {
    run_linear(run, Rows<K>{x.data()}, W{data.data()},
               QkvNormRope<Config>{plain, q_norm.data(), k_norm.data(), 1e-6f});
  } else {
    run_linear(run, Rows<K>{x.data()}, W{data.data()}, plain);
  }
  for (std::size_t t = 0; t < tokens; ++t) {
    for (std::size_t h = 0; h < Config::kHeads + 2 * Config::kKvHeads; ++h) {
      float want[kPadded];
      std::memcpy(want, rows.data() + t * W::kRows + h * kPadded, sizeof(want));
      if (norm && h < Config::kHeads + Config::kKvHeads) {
        TestRun one = make_run(1, 1);
        rms_norm<kDim>(KernelContext{&one, 1, nullptr}, want,
                       (h < Config::kHeads ? q_norm : k_norm).data(), 1e-6f, want);
      }
      if (rotate && h < Config::kHeads + Config::kKvHeads) {
        reference_rope(want, Config::kRotation.dims, Config::kRotation.interleaved,
                       frequencies.data(), kPosition + t);
      }
      for (std::size_t d = 0; d < kDim; ++d) {
        const float got =
            h < Config::kHeads ? q[(t * Config::kHeads + h) * kDim + d]
            : h < Config::kHeads + Config::kKvHeads
                ? cache.key(kLayer, h - Config::kHeads, kPosition + t, d).number
                : cache.value(kLayer, h - Config::kHeads - Config::kKvHeads, kPosition + t, d)
                      .number;
        const bool half = h >= Config::kHeads && Config::kFormats != KvFormats{};
        ASSERT_NEAR(got, want[d], (half ? 0x1p-11 : 1e-6) * (std::abs(want[d]) + 1))
            << t << ' ' << h << ' ' << d;
      }
    }
    // Padding dims are zero, not what the memory held.
    for (std::size_t d = kDim; d < kPadded; ++d) {
      EXPECT_EQ(cache.key(kLayer, 0, kPosition + t, d).number, 0.0f);
      EXPECT_EQ(cache.value(kLayer, 0, kPosition + t, d).number, 0.0f);
    }
  }
  EXPECT_TRUE(cache.untouched(kLayer, kPosition, kPosition + tokens));
}
template <class Config>
void check_qkv(bool rotate, bool norm = false) {
  check_qkv<Config>(rotate, norm, 19);
  check_qkv<Config>(rotate, norm, 5);
  check_qkv<Config>(rotate, norm, 16);
}

TEST(LinearFusedTest, QkvRotatesAndStoresIntoBlocks) {
  check_qkv<QkvConfig<AttentionShape<4, 2, 16, 8, 2>>>(true);
  check_qkv<QkvConfig<AttentionShape<4, 2, 16, 32, 2>>>(false);
  check_qkv<QkvConfig<AttentionShape<3, 1, 20, 16, 3>>>(true);  // padded heads
  check_qkv<QkvConfig<AttentionShape<2, 2, 24, 8, 2>, Rotation{.dims = 10}>>(
      true);  // partial rotation
  check_qkv<QkvConfig<AttentionShape<2, 1, 16, 24, 2>, Rotation{.dims = 16, .interleaved = true}>>(
      true);                                                          // interleaved pairs
  check_qkv<QkvConfig<AttentionShape<3, 1, 20, 16, 3>>>(true, true);  // norms of the heads
  check_qkv<QkvConfig<AttentionShape<4, 2, 16, 32, 2>>>(false, true);
  constexpr KvFormats kHalves{KvFormat::kF16, KvFormat::kF16};
  check_qkv<QkvConfig<AttentionShape<3, 1, 20, 16, 3, kHalves>>>(true);
}

template <class First, class Second>
void check_joined() {
  constexpr std::size_t K = First::kColumns, N = First::kRows + Second::kRows;
  const auto first = make_weight<First>(First::kRows, 41);
  const auto second = make_weight<Second>(Second::kRows, 42);
  const auto bias = random_floats(N, 43);
  for (const std::uint32_t tokens : {1u, 2u, 7u, 16u, 130u}) {
    const auto x = random_floats(tokens * K, 44);
    const TestRun run = make_run(tokens, 3);
    Aligned<float> y(tokens * N), a(tokens * First::kRows), b(tokens * Second::kRows);
    run_linear(run, Rows<K>{x.data()}, First{first.data()},
               Store<First::kRows>{a.data(), bias.data()});
    run_linear(run, Rows<K>{x.data()}, Second{second.data()},
               Store<Second::kRows>{b.data(), bias.data() + First::kRows});
    run_linear(run, Rows<K>{x.data()},
               Joined<First, Second>{First{first.data()}, Second{second.data()}},
               Store<N>{y.data(), bias.data()});
    for (std::size_t t = 0; t < tokens; ++t) {
      for (std::size_t n = 0; n < N; ++n) {
        const float want =
            n < First::kRows ? a[t * First::kRows + n] : b[t * Second::kRows + n - First::kRows];
        ASSERT_EQ(bits_of(y[t * N + n]), bits_of(want)) << t << ' ' << n;
      }
    }
  }
}

TEST(LinearJoinedTest, JoinedMatricesOfTwoFormats) {
  check_joined<WeightQ4<40, 288>, WeightQ8<24, 288>>();
  check_joined<WeightQ8<8, 77>, WeightQ4<64, 77>>();
  check_joined<WeightF16<40, 77>, WeightF32<24, 77>>();
}

}  // namespace
}  // namespace llmc::test
