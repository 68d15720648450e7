#include <gmock/gmock.h>

#include <cmath>

#include "harness.h"
#include "llmc/kernels.h"
#include "llmc/quant/random.h"
#include "reference.h"

namespace llmc::test {
namespace {

KernelContext context_of(const llmc_run& run) {
  return {&run, run.count, nullptr};
}

template <std::size_t K, Basis kBasis = Basis::kPlain>
void check_quantize() {
  constexpr std::size_t kTokens = 3;
  auto x = random_floats(kTokens * K, K, 4);
  if (K > 40) std::fill(&x[K], &x[K] + 40, 0.0f);
  Aligned<unsigned char> area(quantized_bytes(K, kTokens), 0x55);
  const Quantized out = quantized_at<K>(area.data(), kTokens);
  for (std::size_t t = 0; t < kTokens; ++t) quantize_row<K, kBasis>(x.data() + t * K, out, t);
  for (std::size_t t = 0; t < kTokens; ++t) {
    const ReferenceActivation want = reference_quantize(x.data() + t * K, K, kBasis);
    const ActivationPlace place = activation_place(t, kTokens);
    for (std::size_t s = 0; s < super_count(K); ++s) {
      EXPECT_EQ(bits_of(out.scales[s * kTokens + t]), bits_of(want.scale[s]));
    }
    for (std::size_t b = 0; b < round_up(block_count(K), 2); ++b) {
      int sum = 0;
      for (std::size_t i = 0; i < 32 && b < block_count(K); ++i) {
        const std::size_t k = b * 32 + i;
        const int code = k < K ? want.code[k] : 0;
        const std::size_t at =
            (b * kTokens + place.first) * 32 + activation_offset(place.width, t - place.first, i);
        ASSERT_EQ(out.codes[at], code) << k;
        sum += code;
      }
      EXPECT_EQ(out.sums[((b / 2) * kTokens + t) * 2 + b % 2], sum);
    }
  }
}

TEST(QuantizeTest, CodesScalesAndSums) {
  check_quantize<1>();
  check_quantize<8>();
  check_quantize<32>();
  check_quantize<77>();
  check_quantize<256>();
  check_quantize<288>();
  check_quantize<515>();
}

TEST(QuantizeTest, InTheHadamardBasis) {
  check_quantize<32, Basis::kHadamard>();
  check_quantize<64, Basis::kHadamard>();
  check_quantize<77, Basis::kHadamard>();
  check_quantize<96, Basis::kHadamard>();
  check_quantize<128, Basis::kHadamard>();
  check_quantize<256, Basis::kHadamard>();
  check_quantize<288, Basis::kHadamard>();
  check_quantize<300, Basis::kHadamard>();
  check_quantize<448, Basis::kHadamard>();
  check_quantize<640, Basis::kHadamard>();
}

TEST(QuantizeTest, TiesGoToEven) {
  float x[32] = {127};
  for (int i = 1; i < 32; ++i) x[i] = static_cast<float>(i) - 15.5f;
  Aligned<unsigned char> area(quantized_bytes(32, 1));
  const Quantized out = quantized_at<32>(area.data(), 1);
  quantize_row<32>(x, out, 0);
  EXPECT_EQ(out.scales[0], 1.0f);
  for (int i = 1; i < 32; ++i) EXPECT_EQ(out.codes[i] % 2, 0) << i;
}

template <std::size_t K>
void check_norm() {
  const auto gain = random_floats(K, 2);
  for (const std::uint32_t tokens : {1u, 4u}) {
    auto x = random_floats(tokens * K, 3, 5);
    const auto original = random_floats(tokens * K, 3, 5);
    Aligned<float> y(tokens * K);
    const TestRun run = make_run(tokens, 3);
    rms_norm<K>(context_of(run), x.data(), gain.data(), 1e-5f, y.data());
    rms_norm<K>(context_of(run), x.data(), gain.data(), 1e-5f, x.data());
    EXPECT_TRUE(x == y);
    for (std::size_t t = 0; t < tokens; ++t) {
      double squares = 0;
      float lane[8] = {};
      for (std::size_t k = 0; k < K; ++k) {
        const float v = original[t * K + k];
        squares += static_cast<double>(v) * v;
        lane[k % 8] = std::fma(v, v, lane[k % 8]);
      }
      const float sum =
          ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
      const float inverse = 1.0f / std::sqrt(sum / static_cast<float>(K) + 1e-5f);
      for (std::size_t k = 0; k < K; ++k) {
        const float v = original[t * K + k];
        ASSERT_EQ(bits_of(y[t * K + k]), bits_of((v * inverse) * gain[k]));
        const double exact = v / std::sqrt(squares / K + 1e-5) * gain[k];
        ASSERT_NEAR(y[t * K + k], exact, std::abs(exact) * 1e-6 + 1e-30);
      }
    }
  }
}

TEST(NormTest, RootMeanSquare) {
  check_norm<1>();
  check_norm<8>();
  check_norm<77>();
  check_norm<288>();
}

template <std::size_t K, std::size_t kParts>
void check_layer_norm() {
  constexpr std::uint32_t kTokens = 4;
  const auto gain = random_floats(K, 2), shift = random_floats(K, 7);
  auto x = random_floats(kTokens * kParts * K, 3, 5);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += 2;
  Aligned<float> y(x.size()), plain(x.size()), rms(x.size());
  const TestRun run = make_run(kTokens, 3);
  layer_norm<K, kParts>(context_of(run), x.data(), gain.data(), nullptr, 1e-5f, plain.data());
  layer_norm<K, kParts>(context_of(run), x.data(), gain.data(), shift.data(), 1e-5f, y.data());
  rms_norm<K, kParts>(context_of(run), x.data(), gain.data(), 1e-5f, rms.data());
  const auto tree = [](const float* lane) {
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
           ((lane[1] + lane[5]) + (lane[3] + lane[7]));
  };
  for (std::size_t row = 0; row < kTokens * kParts; ++row) {
    const float* v = x.data() + row * K;
    float sums[8] = {}, squares[8] = {};
    double exact_mean = 0, exact_squares = 0;
    for (std::size_t k = 0; k < K; ++k) sums[k % 8] += v[k];
    const float mean = tree(sums) / static_cast<float>(K);
    for (std::size_t k = 0; k < K; ++k) {
      squares[k % 8] = std::fma(v[k] - mean, v[k] - mean, squares[k % 8]);
      exact_mean += static_cast<double>(v[k]) / K;
    }
    for (std::size_t k = 0; k < K; ++k) exact_squares += std::pow(v[k] - exact_mean, 2) / K;
    const float inverse = 1.0f / std::sqrt(tree(squares) / static_cast<float>(K) + 1e-5f);
    Aligned<float> one(K);
    const TestRun single = make_run(1, 1);
    rms_norm<K>(context_of(single), v, gain.data(), 1e-5f, one.data());
    for (std::size_t k = 0; k < K; ++k) {
      const float want = ((v[k] - mean) * inverse) * gain[k];
      ASSERT_EQ(bits_of(plain[row * K + k]), bits_of(want));
      ASSERT_EQ(bits_of(y[row * K + k]), bits_of(want + shift[k]));
      ASSERT_EQ(bits_of(rms[row * K + k]), bits_of(one[k]));
      const double exact = (v[k] - exact_mean) / std::sqrt(exact_squares + 1e-5) * gain[k];
      ASSERT_NEAR(plain[row * K + k], exact, 3e-6);
    }
  }
  auto sum = random_floats(x.size(), 9), sum_rms = random_floats(x.size(), 9);
  const auto residual = random_floats(x.size(), 9);
  layer_norm<K, kParts>(context_of(run), x.data(), gain.data(), shift.data(), 1e-5f, sum.data(),
                        sum.data());
  rms_norm<K, kParts>(context_of(run), x.data(), gain.data(), 1e-5f, sum_rms.data(),
                      sum_rms.data());
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(bits_of(sum[i]), bits_of(residual[i] + y[i]));
    ASSERT_EQ(bits_of(sum_rms[i]), bits_of(residual[i] + rms[i]));
  }
  layer_norm<K, kParts>(context_of(run), x.data(), gain.data(), shift.data(), 1e-5f, x.data());
  EXPECT_TRUE(x == y);
}

TEST(NormTest, LayerNormAndPartsOfARow) {
  check_layer_norm<8, 1>();
  check_layer_norm<77, 1>();
  check_layer_norm<288, 1>();
  check_layer_norm<20, 3>();
  check_layer_norm<64, 2>();
}

TEST(RopeTest, AnglesAndRotation) {
  constexpr std::size_t kHeads = 3, kDim = 20, kRotary = 12;
  constexpr std::uint32_t kTokens = 5, kPosition = 4000;
  const auto frequencies = random_floats(kRotary / 2, 4);
  const auto x = random_floats(kTokens * kHeads * kDim, 5);
  const TestRun run = make_run(kTokens, 3, kPosition);
  Aligned<float> table(kTokens * kRotary), halves(x.size()), pairs(x.size());
  rope_angles<kRotary>(context_of(run), frequencies.data(), table.data());
  rope<kHeads, kDim, Rotation{.dims = kRotary}>(context_of(run), x.data(), table.data(),
                                                halves.data());
  rope<kHeads, kDim, Rotation{.dims = kRotary, .interleaved = true}>(context_of(run), x.data(),
                                                                     table.data(), pairs.data());
  for (std::size_t row = 0; row < kTokens * kHeads; ++row) {
    for (const bool interleaved : {false, true}) {
      float want[kDim];
      std::memcpy(want, x.data() + row * kDim, sizeof(want));
      reference_rope(want, kRotary, interleaved, frequencies.data(), kPosition + row / kHeads);
      const float* got = (interleaved ? pairs : halves).data() + row * kDim;
      for (std::size_t d = 0; d < kDim; ++d) EXPECT_NEAR(got[d], want[d], 2e-7) << row << ' ' << d;
      for (std::size_t d = kRotary; d < kDim; ++d) EXPECT_EQ(got[d], x[row * kDim + d]);
    }
  }
}

// The pair of each row has the bits that it has in a sequence whose next token is at the row's
// position.
TEST(RopeTest, RowsOfPositions) {
  constexpr std::size_t kRotary = 10;
  constexpr std::uint8_t kRowOf[kRotary / 2] = {2, 0, 1, 1, 0};
  constexpr std::uint32_t kTokens = 5, kFirst = 700, kRows = 3;
  const auto frequencies = random_floats(kRotary / 2, 4);
  const std::int32_t positions[kTokens * kRows] = {0, 0, 0, 0, 0, 1, 0, 1, 0, 5, 9, 12, 0, 4, 4000};
  TestRun run = make_run(kTokens, 3, 20);
  run.segment().rotary_position = kFirst;
  for (const bool text : {false, true}) {
    run.positions = text ? nullptr : positions;
    Aligned<float> table(kTokens * kRotary), want(kRotary);
    rope_angles<kRotary, PositionAxes<kRows, 2, 0, 1, 1, 0>>(context_of(run), frequencies.data(),
                                                             table.data());
    for (std::uint32_t t = 0; t < kTokens; ++t)
      for (std::size_t pair = 0; pair < kRotary / 2; ++pair) {
        const auto after =
            text ? t : static_cast<std::uint32_t>(positions[t * kRows + kRowOf[pair]]);
        const TestRun there = make_run(1, 1, kFirst + after);
        rope_angles<kRotary>(context_of(there), frequencies.data(), want.data());
        for (const std::size_t i : {pair, kRotary / 2 + pair})
          EXPECT_EQ(bits_of(table[t * kRotary + i]), bits_of(want[i])) << t << ' ' << i;
      }
  }
}

TEST(EmbeddingTest, TablesOfEveryKind) {
  constexpr std::size_t kRows = 11, kWidth = 45;
  const std::int32_t ids[] = {0, 10, 3, -1, 11, 7};
  Random random(6);
  std::vector<std::uint8_t> bytes(table_bytes(TableKind::kF32, kRows, kWidth));
  for (std::size_t i = 0; i < bytes.size() / 2; ++i) {
    // Finite as f16 and as bf16; pairs of them are finite floats.
    store_u16(bytes.data() + 2 * i, static_cast<std::uint16_t>(random.next() & 0xbbff));
  }
  TestRun run = make_run(6, 3);
  run.tokens = ids;
  const auto check = [&](auto table, auto value) {
    Aligned<float> x(6 * kWidth);
    embedding(context_of(run), table, x.data());
    for (std::size_t t = 0; t < 6; ++t) {
      const std::size_t row = ids[t] < 0 || ids[t] > 10 ? 0 : static_cast<std::size_t>(ids[t]);
      for (std::size_t i = 0; i < kWidth; ++i) {
        ASSERT_EQ(bits_of(x[t * kWidth + i]), bits_of(value(row, i)));
      }
    }
  };
  const auto half = [&](std::size_t row, std::size_t i) {
    return load_u16(bytes.data() + 2 * (row * kWidth + i));
  };
  check(TableF32<kRows, kWidth>{bytes.data()}, [&](std::size_t row, std::size_t i) {
    float value;
    std::memcpy(&value, bytes.data() + 4 * (row * kWidth + i), 4);
    return value;
  });
  check(TableF16<kRows, kWidth>{bytes.data()},
        [&](std::size_t row, std::size_t i) { return f16_to_f32(half(row, i)); });
  check(TableBF16<kRows, kWidth>{bytes.data()},
        [&](std::size_t row, std::size_t i) { return bf16_to_f32(half(row, i)); });
  static_assert(TableQ8<kRows, kWidth>::bytes == kRows * (64 + 4));
  check(TableQ8<kRows, kWidth>{bytes.data()}, [&](std::size_t row, std::size_t i) {
    const std::uint8_t* at = bytes.data() + row * 68;
    return f16_to_f32(load_u16(at + 64 + i / 32 * 2)) *
           static_cast<float>(static_cast<std::int8_t>(at[i]));
  });
}

TEST(EmbeddingTest, RowsOfThePositions) {
  constexpr std::size_t kRows = 9, kWidth = 5;
  const auto table = random_floats(kRows * kWidth, 3);
  TestRun run = make_run(4, 2, 6);
  Aligned<float> x(4 * kWidth);
  embedding<ByPosition>(
      context_of(run), TableF32<kRows, kWidth>{reinterpret_cast<const std::uint8_t*>(table.data())},
      x.data());
  for (std::size_t t = 0; t < 4; ++t) {
    const std::size_t row = t < 3 ? 6 + t : 0;  // the last one is outside
    for (std::size_t i = 0; i < kWidth; ++i) EXPECT_EQ(x[t * kWidth + i], table[row * kWidth + i]);
  }
}

template <class W>
void check_weight_embedding() {
  Aligned<unsigned char> data(W::bytes);
  packing::fill_weight<W>(data.data(), W::kRows, 8);
  const std::int32_t ids[] = {5, 0, 15};
  TestRun run = make_run(3, 2);
  run.tokens = ids;
  Aligned<float> x(3 * W::kColumns);
  embedding(context_of(run), W{data.data()}, x.data());
  for (std::size_t t = 0; t < 3; ++t) {
    for (std::size_t k = 0; k < W::kColumns; ++k) {
      ASSERT_EQ(bits_of(x[t * W::kColumns + k]),
                bits_of(decoded<W>(data.data(), static_cast<std::size_t>(ids[t]), k)));
    }
  }
}

TEST(EmbeddingTest, RowsOfAPackedHead) {
  check_weight_embedding<WeightQ4<16, 288>>();
  check_weight_embedding<WeightQ8<16, 288>>();
  check_weight_embedding<WeightF16<16, 45>>();
  check_weight_embedding<WeightF32<16, 45>>();
}

template <std::size_t N>
void check_elementwise() {
  const TestRun run = make_run(3, 2);
  const KernelContext context = context_of(run);
  const auto a = random_floats(3 * N, 1), b = random_floats(3 * N, 2), row = random_floats(N, 3);
  Aligned<float> y(3 * N);
  const auto expect = [&](auto value) {
    for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(bits_of(y[i]), bits_of(value(i))) << i;
  };
  binary<Add, N>(context, a.data(), b.data(), y.data());
  expect([&](std::size_t i) { return a[i] + b[i]; });
  binary<Sub, N>(context, a.data(), b.data(), y.data());
  expect([&](std::size_t i) { return a[i] - b[i]; });
  binary<Div, N>(context, a.data(), b.data(), y.data());
  expect([&](std::size_t i) { return a[i] / b[i]; });
  binary<Min, N>(context, a.data(), b.data(), y.data());
  expect([&](std::size_t i) { return a[i] < b[i] ? a[i] : b[i]; });
  binary_row<Mul, N>(context, a.data(), row.data(), y.data());
  expect([&](std::size_t i) { return a[i] * row[i % N]; });
  binary_scalar<Max, N>(context, a.data(), 0.25f, y.data());
  expect([&](std::size_t i) { return a[i] > 0.25f ? a[i] : 0.25f; });
  unary<Neg, N>(context, a.data(), y.data());
  expect([&](std::size_t i) { return -a[i]; });
  unary<Abs, N>(context, a.data(), y.data());
  expect([&](std::size_t i) { return std::abs(a[i]); });
  unary<Sqrt, N>(context, y.data(), y.data());
  expect([&](std::size_t i) { return std::sqrt(std::abs(a[i])); });
  unary<Reciprocal, N>(context, a.data(), y.data());
  expect([&](std::size_t i) { return 1 / a[i]; });
  unary<Exp, N>(context, a.data(), y.data());
  expect([&](std::size_t i) { return exp(a[i]); });
  unary<Relu, N>(context, a.data(), y.data());
  expect([&](std::size_t i) { return a[i] > 0 ? a[i] : 0.0f; });
  copy_rows<N>(context, a.data(), y.data());
  EXPECT_TRUE(y == a);
  const auto sigmoid_of = [](float x) {
    float lanes[8];
    store(lanes, sigmoid(splat(x)));
    return lanes[0];
  };
  const auto silu_of = [](float x) {
    float lanes[8];
    store(lanes, silu(splat(x)));
    return lanes[0];
  };
  unary<Sigmoid, N>(context, a.data(), y.data());
  expect([&](std::size_t i) { return sigmoid_of(a[i]); });
  unary<Silu, N>(context, a.data(), y.data());
  expect([&](std::size_t i) { return silu_of(a[i]); });
  gated_activation<Silu, N>(context, a.data(), b.data(), y.data());
  expect([&](std::size_t i) { return silu_of(a[i]) * b[i]; });
  const auto of = [](F32x8 (*f)(F32x8), float x) {
    float lanes[8];
    store(lanes, f(splat(x)));
    return lanes[0];
  };
  gated_activation<GeluTanh, N>(context, a.data(), b.data(), y.data());
  expect([&](std::size_t i) { return of(gelu_tanh, a[i]) * b[i]; });
  unary<Tanh, N>(context, a.data(), y.data());
  expect([&](std::size_t i) { return of(tanh, a[i]); });
  unary<Erf, N>(context, a.data(), y.data());
  expect([&](std::size_t i) { return of(erf, a[i]); });
  unary<Gelu, N>(context, a.data(), y.data());
  expect([&](std::size_t i) { return of(gelu, a[i]); });
}

TEST(ElementwiseTest, EveryOperator) {
  check_elementwise<1>();
  check_elementwise<8>();
  check_elementwise<37>();
}

template <std::size_t N>
void check_argmax() {
  const auto expected = [](const Aligned<float>& x) {
    float largest = -INFINITY;
    std::uint32_t best = 0;
    for (std::uint32_t i = 0; i < N; ++i)
      if (x[i] > largest) largest = x[i], best = i;
    return best;
  };
  auto x = random_floats(N, 91);
  EXPECT_EQ(argmax<N>(x.data()), expected(x));
  // Of equals the first, wherever they are.
  for (std::size_t i = 0; i < N; ++i) {
    for (const std::size_t later : {i, i + 1, i + 5, i + 8, i + 16, i + 19}) {
      x = random_floats(N, 92);
      x[i] = 1000;
      if (later < N) x[later] = 1000;
      ASSERT_EQ(argmax<N>(x.data()), i) << N;
    }
  }
  for (std::size_t i = 0; i < N; i += 2) x[i] = NAN;
  EXPECT_EQ(argmax<N>(x.data()), expected(x));
  for (std::size_t i = 0; i < N; ++i) x[i] = i % 3 == 0 ? NAN : -INFINITY;
  EXPECT_EQ(argmax<N>(x.data()), 0u);
  x[N - 1] = INFINITY;
  EXPECT_EQ(argmax<N>(x.data()), N - 1);
}

TEST(ArgmaxTest, TheFirstOfTheLargest) {
  check_argmax<1>();
  check_argmax<8>();
  check_argmax<15>();
  check_argmax<16>();
  check_argmax<43>();
  check_argmax<136>();
}

}  // namespace
}  // namespace llmc::test
