#include <gmock/gmock.h>

#include <algorithm>

#include "linear.h"

/// Sums at their bounds: the largest codes, scales, mins and activations, of one sign and of both,
/// so that a sum kept in too few bits anywhere shows.
namespace llmc::test {
namespace {

constexpr std::uint32_t kExtremeTokens[] = {1, 2, 3, 4, 5, 6, 7, 8, 12, 130};

/// Which activations are -1 (the rest are 1): none, all, every other block, every other one.
constexpr bool negative(std::size_t pattern, std::size_t k) {
  return pattern == 1 || (pattern == 2 && k / kBlock % 2 == 1) || (pattern == 3 && k % 2 == 1);
}
constexpr std::size_t kPatterns = 4;

template <class W>
void expect_reference(const Aligned<unsigned char>& data) {
  constexpr std::size_t N = W::kRows, K = W::kColumns;
  Aligned<float> x(kExtremeTokens[std::size(kExtremeTokens) - 1] * K);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = negative(i / K % kPatterns, i % K) ? -1 : 1;
  std::vector<float> want[kPatterns];
  for (std::size_t pattern = 0; pattern < kPatterns; ++pattern) {
    want[pattern] = reference_product<W>(data.data(), x.data() + pattern * K);
  }
  for (const std::uint32_t tokens : kExtremeTokens) {
    Aligned<float> y(tokens * N);
    run_linear(make_run(tokens, 1), Rows<K>{x.data()}, W{data.data()}, Store<N>{y.data()});
    for (std::size_t i = 0; i < tokens * N; ++i) {
      ASSERT_EQ(bits_of(y[i]), bits_of(want[i / N % kPatterns][i % N]))
          << "K " << K << ", " << tokens << " tokens, token " << i / N << ", row " << i % N;
    }
  }
}

template <std::size_t K>
void expect_q4(std::uint8_t code, std::uint8_t scale, std::uint8_t min) {
  using W = WeightQ4<40, K>;
  Aligned<unsigned char> data(W::bytes);
  for (std::size_t row = 0; row < W::kRows; ++row) {
    std::uint8_t* panel = data.data() + row / kPanelRows * W::kPanelBytes;
    const std::size_t lane = row % kPanelRows;
    for (std::size_t k = 0; k < K; ++k) q4_set_code(panel, lane, k, code);
    for (std::size_t b = 0; b < block_count(K); ++b) {
      q4_set_scale(panel, K, lane, b, scale);
      q4_set_min(panel, K, lane, b, min);
    }
    q4_set_row(panel, lane, f32_to_bf16(0.01f), f32_to_bf16(row % 2 == 0 ? -0.02f : 0.0f));
  }
  expect_reference<W>(data);
}
template <std::size_t K>
void expect_q4() {
  expect_q4<K>(15, 15, 255);
  expect_q4<K>(15, 15, 0);
  expect_q4<K>(0, 15, 255);
  expect_q4<K>(8, 15, 128);  // about where bytes and mins change their sign
  expect_q4<K>(9, 15, 127);
}

TEST(LinearExtremes, Q4) {
  expect_q4<256>();
  expect_q4<512>();
  expect_q4<64>();
  expect_q4<384>();
  expect_q4<480>();
  expect_q4<33>();
}

template <CodedFormat kFormat, std::size_t K>
void expect_coded(int code) {
  using W = Weight<coded_weight(kFormat), 24, K>;
  Aligned<unsigned char> data(W::bytes);
  for (std::size_t row = 0; row < W::kRows; ++row) {
    std::uint8_t* panel = data.data() + row / kPanelRows * W::kPanelBytes;
    const std::size_t lane = row % kPanelRows;
    for (std::size_t k = 0; k < K; ++k) coded_set_code(kFormat, panel, K, lane, k, code);
    for (std::size_t g = 0; g < ceil_div(K, kFormat.block); ++g) {
      coded_set_group(kFormat, panel, K, lane, g, 0.5f, 0);
    }
  }
  expect_reference<W>(data);
}
template <std::uint32_t kBits, std::size_t K>
void expect_coded(int code) {
  expect_coded<CodedFormat{kBits, 16, CodedScale::kF16, CodedZero::kNone}, K>(code);
  expect_coded<CodedFormat{kBits, 32, CodedScale::kF16, CodedZero::kInteger}, K>(code);
  expect_coded<CodedFormat{kBits, 256, CodedScale::kF32, CodedZero::kNone}, K>(code);
}

TEST(LinearExtremes, CodedBytes) {
  expect_coded<8, 288>(127);
  expect_coded<8, 288>(-128);
  expect_coded<8, 77>(-128);
}
TEST(LinearExtremes, SixBits) {
  expect_coded<kSixBits, 288>(31);
  expect_coded<kSixBits, 288>(-32);
  expect_coded<kSixBits, 77>(31);
  expect_coded<kSixBits, 512>(-32);
  expect_coded<kSplitSixBits, 288>(31);
  expect_coded<kSplitSixBits, 512>(-32);
}
TEST(LinearExtremes, CodedNibbles) {
  expect_coded<4, 288>(15);
  expect_coded<4, 288>(0);
  expect_coded<4, 77>(15);
}

}  // namespace
}  // namespace llmc::test
