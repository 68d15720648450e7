// Matrix products on an OpenCL device, beside the documented arithmetic.
#include "tests/opencl/device_run.h"

namespace llmc::test {
namespace {

using hosted::opencl::MatrixProducts;

constexpr std::uint32_t kRows = 11;

/// What a format is called in llmc/device.h.
llmc_device_matrix matrix_of(WeightKind kind, std::uint64_t offset, std::size_t bytes,
                             std::size_t rows) {
  llmc_device_matrix matrix{};
  matrix.offset = offset;
  matrix.bytes = bytes;
  matrix.rows = static_cast<std::uint32_t>(rows);
  matrix.kind = kind == WeightKind::kF32   ? LLMC_MATRIX_F32
                : kind == WeightKind::kF16 ? LLMC_MATRIX_F16
                : kind == WeightKind::kQ4  ? LLMC_MATRIX_Q4
                                           : LLMC_MATRIX_CODED;
  if (matrix.kind != LLMC_MATRIX_CODED) return matrix;
  const CodedFormat format = coded_format(kind);
  matrix.bits = static_cast<std::uint16_t>(format.bits);
  matrix.block = static_cast<std::uint16_t>(format.block);
  matrix.scale_bytes = static_cast<std::uint16_t>(coded_number_bytes(format));
  matrix.zero = static_cast<std::uint16_t>(format.zero);
  return matrix;
}
template <class W>
llmc_device_matrix matrix_of(std::uint64_t offset, std::size_t bytes, std::size_t rows) {
  llmc_device_matrix matrix = matrix_of(W::kKind, offset, bytes, rows);
  matrix.hadamard = W::kBasis == Basis::kHadamard ? 1 : 0;
  return matrix;
}

constexpr auto kHalf = CodedScale::kF16, kFull = CodedScale::kF32;
constexpr auto kZeroInteger = CodedZero::kInteger, kZeroFloat = CodedZero::kFloat;
template <std::uint32_t kBits, std::uint32_t kBlockWidth, CodedScale kScale, CodedZero kZero,
          std::size_t kN, std::size_t kK>
using Coded = Case<coded_weight({kBits, kBlockWidth, kScale, kZero}), kN, kK>;

template <class T>
class OpenClLinear : public testing::Test {};
using Cases = testing::Types<
    Case<WeightKind::kQ4, 40, 288>, Case<WeightKind::kQ4, 13, 511>, Case<WeightKind::kQ4, 72, 1>,
    Case<WeightKind::kQ8, 40, 600>, Case<coded_weight(kSixBits), 13, 511>,
    Case<WeightKind::kF32, 17, 77>, Case<WeightKind::kF16, 24, 300>,
    Coded<4, 32, kHalf, CodedZero::kNone, 17, 511>, Coded<4, 16, kFull, kZeroInteger, 13, 77>,
    Coded<4, 64, kHalf, kZeroFloat, 9, 300>, Coded<4, 256, kFull, CodedZero::kNone, 8, 1100>,
    Case<WeightKind::kQ4, 40, 288, Basis::kHadamard>,
    Case<WeightKind::kQ8, 24, 640, Basis::kHadamard>,
    Case<coded_weight(kSixBits), 24, 480, Basis::kHadamard>,
    Case<WeightKind::kQ8, 17, 511, Basis::kHadamard>,
    Case<WeightKind::kQ4, 8, 192, Basis::kHadamard>, Coded<8, 16, kHalf, kZeroInteger, 9, 330>,
    Coded<8, 64, kFull, kZeroFloat, 17, 77>>;
TYPED_TEST_SUITE(OpenClLinear, Cases);

TYPED_TEST(OpenClLinear, HasTheDocumentedBits) {
  using W = typename TypeParam::W;
  constexpr std::size_t N = TypeParam::N, K = TypeParam::K;
  const auto data = make_weight<W>(N, 100 + N);
  auto x = random_floats(kRows * K, 200, 3);
  if (K > 256) std::memset(&x[2 * K], 0, 256 * sizeof(float));  // a superblock of zeros
  const auto want = reference_products<TypeParam>(data.data(), x);
  struct Way {
    bool copies;
    std::optional<MatrixProducts> matrix;
  };
  for (const auto [copies, matrix] :
       {Way{false, {}}, Way{true, MatrixProducts::kNone}, Way{true, MatrixProducts::kEmulated}}) {
    if (matrix == MatrixProducts::kEmulated && !W::kQuantized) continue;
    LLMC_NEED_OPENCL(device, {.copies = copies, .matrix_products = matrix});
    for (const std::uint32_t rows : {1u, 8u, kRows}) {
      Weights weights;
      weights.add(random_floats(16, 1));
      const std::size_t out = round_up(kRows * std::max(K * 4, quantized_bytes(K, 1)), 64);
      OneStep step(kRows, out + round_up(kRows * N * 4, 64));
      const bool quantized = copies && W::kQuantized;  // the CPU has quantized the rows
      const std::size_t row_bytes = quantized ? quantized_bytes(K, 1) : K * 4;
      step.op = operation(LLMC_OP_LINEAR, N, K);
      step.op.quantized = quantized ? 1 : 0;
      step.op.out = out;
      step.op.matrix =
          matrix_of<W>(weights.add(data.data(), data.size()), data.size(), packed_rows(N));
      step.cross(0, row_bytes, false);
      step.cross(out, N * 4, true);
      if (quantized) {
        const TestRun run = make_run(kRows, 1);
        quantize_rows<K, W::kBasis>(KernelContext{&run, kRows, nullptr}, x.data(),
                                    step.scratch.data());
      } else {
        std::memcpy(step.scratch.data(), x.data(), kRows * K * 4);
      }
      const std::uint64_t copied = device.copied_bytes();
      ASSERT_EQ(step.run(device, weights, rows), LLMC_DEVICE_DONE);
      if (matrix) ASSERT_EQ(device.matrix_products(), *matrix);
      EXPECT_EQ(device.copied_bytes() - copied,
                device.shares_memory() ? 0 : rows * (N * 4 + row_bytes));
      for (std::size_t i = 0; i < rows * N; ++i)
        ASSERT_EQ(bits_of(step.rows(out)[i]), bits_of(want[i])) << "row " << i / N << ", " << i % N;
      // Rows that the chunk does not have are not written.
      if (rows < kRows) EXPECT_EQ(bits_of(step.rows(out)[rows * N]), 0xffffffffu);
    }
  }
}

/// Several tiles of rows and of tokens, the last ones incomplete. `groups`: limits of work items.
template <class C>
void expect_tiles(std::initializer_list<std::size_t> groups,
                  std::optional<MatrixProducts> matrix = {}) {
  using W = typename C::W;
  constexpr std::uint32_t kTokens = 70;
  const auto data = make_weight<W>(C::N, 7);
  const auto x = random_floats(kTokens * C::K, 9, 3);
  const auto want = reference_products<C>(data.data(), x);
  for (const std::size_t group : groups) {
    LLMC_NEED_OPENCL(device,
                     {.device = {}, .copies = true, .max_group = group, .matrix_products = matrix});
    Weights weights;
    const std::size_t out = round_up(x.size() * 4, 64);
    OneStep step(kTokens, out + round_up(want.size() * 4, 64));
    std::memcpy(step.scratch.data(), x.data(), x.size() * 4);
    step.op = operation(LLMC_OP_LINEAR, C::N, C::K);
    step.op.out = out;
    step.op.matrix =
        matrix_of<W>(weights.add(data.data(), data.size()), data.size(), packed_rows(C::N));
    step.cross(0, C::K * 4, false);
    step.cross(out, C::N * 4, true);
    ASSERT_EQ(step.run(device, weights, kTokens), LLMC_DEVICE_DONE);
    if (matrix) ASSERT_EQ(device.matrix_products(), *matrix);
    for (std::size_t i = 0; i < want.size(); ++i)
      ASSERT_EQ(bits_of(step.rows(out)[i]), bits_of(want[i]))
          << "groups of " << group << ", token " << i / C::N << ", row " << i % C::N;
  }
}
TEST(OpenClTiles, HaveTheDocumentedBits) {
  expect_tiles<Case<WeightKind::kQ4, 140, 300>>({32, 1024}, MatrixProducts::kNone);
  expect_tiles<Case<WeightKind::kF32, 140, 77>>({64});
  expect_tiles<Coded<4, 128, kHalf, kZeroInteger, 140, 300>>({1024}, MatrixProducts::kNone);
  for (const auto matrix :
       {std::optional<MatrixProducts>{}, std::optional(MatrixProducts::kEmulated)}) {
    expect_tiles<Case<WeightKind::kQ4, 140, 800>>({1024}, matrix);
    expect_tiles<Coded<4, 128, kHalf, kZeroInteger, 140, 300>>({1024}, matrix);
    expect_tiles<Case<coded_weight(kSixBits), 140, 480>>({1024}, matrix);
    expect_tiles<Coded<8, 256, kFull, kZeroFloat, 72, 700>>({1024}, matrix);
  }
}

constexpr std::size_t kN = 24, kK = 288;
using FourBits = Case<WeightKind::kQ4, kN, kK>;
using EightBits = Case<WeightKind::kQ8, kN, kK>;
using Gate = Case<WeightKind::kQ4, 2 * kN, kK>;
using GateF16 = Case<WeightKind::kF16, 2 * kN, kK>;

class OpenClProducts : public OpenClTest {
 protected:
  static hosted::OpenClOptions options() {
    return {
        .copies = GetParam(),
        .matrix_products = GetParam() ? std::optional(MatrixProducts::kEmulated) : std::nullopt};
  }
};
INSTANTIATE_TEST_SUITE_P(Copies, OpenClProducts, testing::Bool());

/// The inputs of a product, and what a test compares.
struct Inputs {
  Aligned<float> x = random_floats(kRows * kK, 3, 2), norm = random_floats(kK, 4),
                 norm_bias = random_floats(kK, 5), bias = random_floats(2 * kN, 6),
                 residual = random_floats(kRows * 2 * kN, 7);

  /// Runs the operation with x at 0, and the residual where the result comes.
  void expect_same(hosted::OpenClDevice& device, llmc_device_op op, Weights weights, int norm_kind,
                   const Aligned<float>& want) const {
    const std::size_t out = round_up(x.size() * 4, 64);
    OneStep step(kRows, out + round_up(residual.size() * 4, 64));
    std::memcpy(step.scratch.data(), x.data(), x.size() * 4);
    std::memcpy(step.rows(out), residual.data(), residual.size() * 4);
    op.out = out;
    op.norm = static_cast<std::uint16_t>(norm_kind);
    op.epsilon = 1e-5f;
    op.bias = weights.add(bias);
    if (norm_kind != LLMC_NORM_NONE) op.norm_weight = weights.add(norm);
    if (norm_kind == LLMC_NORM_LAYER) op.norm_bias = weights.add(norm_bias);
    if (op.kind == LLMC_OP_LINEAR) op.y = out;
    step.op = op;
    const std::size_t width = want.size() / kRows * 4;
    step.cross(0, x.size() / kRows * 4, false);
    if (op.y == out) step.cross(out, width, false);
    step.cross(out, width, true);
    ASSERT_EQ(step.run(device, weights, kRows), LLMC_DEVICE_DONE);
    for (std::size_t i = 0; i < want.size(); ++i) {
      const float found = step.rows(out)[i];
      if (std::isnan(want[i]) && std::isnan(found)) continue;  // with any payload
      ASSERT_EQ(bits_of(found), bits_of(want[i])) << norm_kind << ", " << i;
    }
  }
};

/// A norm, a bias, a function and a residual around a matrix whose last rows have another format.
TEST_P(OpenClProducts, HaveNormsFunctionsAndResiduals) {
  LLMC_NEED_OPENCL(device, options());
  const Inputs in;
  const auto first = make_weight<FourBits::W>(kN, 1), second = make_weight<EightBits::W>(kN, 2);
  const Joined<FourBits::W, EightBits::W> both{{first.data()}, {second.data()}};
  for (const int kind : {LLMC_NORM_NONE, LLMC_NORM_RMS, LLMC_NORM_LAYER}) {
    Aligned<float> want(kRows * 2 * kN);
    const AddStore<2 * kN, GeluTanh> epilogue{want.data(), in.residual.data(), in.bias.data()};
    const TestRun run = make_run(kRows, 1);
    if (kind == LLMC_NORM_NONE) run_linear(run, Rows<kK>{in.x.data()}, both, epilogue);
    if (kind == LLMC_NORM_RMS)
      run_linear(run, RmsNorm<kK>{in.x.data(), in.norm.data(), 1e-5f}, both, epilogue);
    if (kind == LLMC_NORM_LAYER)
      run_linear(run, LayerNorm<kK>{in.x.data(), in.norm.data(), in.norm_bias.data(), 1e-5f}, both,
                 epilogue);
    llmc_device_op op = operation(LLMC_OP_LINEAR, 2 * kN, kK);
    Weights weights;
    op.matrix =
        matrix_of(WeightKind::kQ4, weights.add(first.data(), first.size()), first.size(), kN);
    op.matrix_2 =
        matrix_of(WeightKind::kQ8, weights.add(second.data(), second.size()), second.size(), kN);
    op.function = LLMC_FUNCTION_GELU_TANH;
    in.expect_same(device, op, weights, kind, want);
  }
}

/// A width that is not one of whole panels.
TEST_P(OpenClProducts, AreGatedWithAnyWidth) {
  LLMC_NEED_OPENCL(device, options());
  constexpr std::size_t kOdd = 13;
  using W = Weight<WeightKind::kQ8, packed_gated_rows(kOdd), kK>;
  Inputs in;
  in.bias = random_floats(packed_gated_rows(kOdd), 9);
  const auto data = make_weight<W>(packed_gated_rows(kOdd), 8);
  Aligned<float> want(kRows * kOdd);
  run_linear(make_run(kRows, 1), Rows<kK>{in.x.data()}, W{data.data()},
             Gated<kOdd, Gelu>{want.data(), in.bias.data()});
  llmc_device_op op = operation(LLMC_OP_GATED_LINEAR, 2 * kOdd, kK);
  Weights weights;
  op.matrix = matrix_of(W::kKind, weights.add(data.data(), data.size()), data.size(),
                        packed_gated_rows(kOdd));
  op.function = LLMC_FUNCTION_GELU;
  in.expect_same(device, op, weights, LLMC_NORM_NONE, want);
}

template <class C>
void expect_gated(hosted::OpenClDevice& device) {
  const Inputs in;
  const auto data = make_weight<typename C::W>(2 * kN, 8);
  Aligned<float> want(kRows * kN);
  run_linear(make_run(kRows, 1), RmsNorm<kK>{in.x.data(), in.norm.data(), 1e-5f},
             typename C::W{data.data()}, Gated<kN, Silu>{want.data(), in.bias.data()});
  llmc_device_op op = operation(LLMC_OP_GATED_LINEAR, 2 * kN, kK);
  Weights weights;
  op.matrix = matrix_of(C::W::kKind, weights.add(data.data(), data.size()), data.size(), 2 * kN);
  op.function = LLMC_FUNCTION_SILU;
  in.expect_same(device, op, weights, LLMC_NORM_RMS, want);
}
TEST_P(OpenClProducts, AreGated) {
  LLMC_NEED_OPENCL(device, options());
  expect_gated<Gate>(device);
  expect_gated<GateF16>(device);
}

/// Rows with infinities, NaN, subnormal numbers and zeros.
TEST_P(OpenClProducts, OfExtremeRowsHaveTheSameBits) {
  LLMC_NEED_OPENCL(device, options());
  Inputs in;
  std::memset(static_cast<void*>(in.residual.data()), 0, in.residual.size() * 4);
  for (std::size_t k = 0; k < kK; ++k) {
    in.x[kK + k] = 0;
    in.x[2 * kK + k] *= 0x1p-130f;
    in.x[3 * kK + k] *= 0x1p-100f;
    in.x[4 * kK + k] *= 0x1p100f;
  }
  in.x[5 * kK + 7] = HUGE_VALF;
  in.x[6 * kK + 260] = bits_float(0x7fc00000u);
  const auto data = make_weight<FourBits::W>(kN, 1);
  Aligned<float> want(kRows * kN);
  run_linear(make_run(kRows, 1), Rows<kK>{in.x.data()}, FourBits::W{data.data()},
             AddStore<kN>{want.data(), in.residual.data(), in.bias.data()});
  llmc_device_op op = operation(LLMC_OP_LINEAR, kN, kK);
  Weights weights;
  op.matrix = matrix_of(WeightKind::kQ4, weights.add(data.data(), data.size()), data.size(), kN);
  in.expect_same(device, op, weights, LLMC_NORM_NONE, want);
}

}  // namespace
}  // namespace llmc::test
