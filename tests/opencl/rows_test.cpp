// Row operations on an OpenCL device, beside the kernels of the CPU.
#include <gmock/gmock.h>

#include "llmc/hosted.h"
#include "llmc/kernels/elementwise.h"
#include "tests/opencl/device_run.h"

namespace llmc::test {
namespace {

constexpr std::uint32_t kTokens = 5;
constexpr std::size_t kWidth = 77;
constexpr std::size_t kRowBytes = 1600;  // f32[kTokens][kWidth], to a multiple of 64

/// Ordinary numbers, and each kind of number for which a function is written differently.
Aligned<float> numbers(std::uint64_t seed) {
  auto x = random_floats(kTokens * kWidth, seed, 4);
  const float special[] = {0.0f,    -0.0f,     0x1p-140f,  -0x1p-130f,   88.9f, 89.1f,
                           -103.9f, -104.1f,   0.625f,     0.93f,        20.0f, -20.0f,
                           1e30f,   HUGE_VALF, -HUGE_VALF, std::nanf("")};
  std::memcpy(x.data(), special, sizeof special);
  return x;
}

class OpenClRows : public OpenClTest {};
INSTANTIATE_TEST_SUITE_P(Copies, OpenClRows, testing::Bool());

struct RowOp {
  Aligned<float> x = numbers(1), y = numbers(2);
  Weights weights;
  std::uint64_t row = weights.add(random_floats(kWidth, 3)),
                bias = weights.add(random_floats(kWidth, 4));

  /// Runs an operation on x and y, and compares its result.
  void expect(hosted::OpenClDevice& device, llmc_device_op op, const Aligned<float>& want) {
    static_assert(kRowBytes % 64 == 0 && kRowBytes >= kTokens * kWidth * 4);
    OneStep step(kTokens, 3 * kRowBytes);
    std::memcpy(step.rows(0), x.data(), x.size() * 4);
    std::memcpy(step.rows(kRowBytes), y.data(), y.size() * 4);
    op.out = 2 * kRowBytes;
    step.op = op;
    step.cross(0, kWidth * 4, false);
    step.cross(kRowBytes, kWidth * 4, false);
    step.cross(op.out, kWidth * 4, true);
    ASSERT_EQ(step.run(device, weights, kTokens), LLMC_DEVICE_DONE);
    for (std::size_t i = 0; i < want.size(); ++i) {
      const float found = step.rows(op.out)[i];
      if (std::isnan(want[i])) {  // its sign and payload are the processor's
        ASSERT_TRUE(std::isnan(found)) << op.function << " of " << x[i];
      } else {
        ASSERT_EQ(bits_of(found), bits_of(want[i]))
            << op.function << " of " << x[i] << ", " << y[i] << ": " << found << ", " << want[i];
      }
    }
  }
};

template <class Fn>
void expect_unary(hosted::OpenClDevice& device, int function) {
  RowOp test;
  Aligned<float> want(kTokens * kWidth);
  const TestRun run = make_run(kTokens, 1);
  unary<Fn, kWidth>(KernelContext{&run, kTokens, nullptr}, test.x.data(), want.data());
  llmc_device_op op = operation(LLMC_OP_UNARY, kWidth);
  op.function = static_cast<std::uint16_t>(function);
  test.expect(device, op, want);
}
TEST_P(OpenClRows, UnaryFunctions) {
  LLMC_NEED_OPENCL(device, {.copies = GetParam()});
  expect_unary<Identity>(device, LLMC_FUNCTION_IDENTITY);
  expect_unary<Neg>(device, LLMC_FUNCTION_NEG);
  expect_unary<Abs>(device, LLMC_FUNCTION_ABS);
  expect_unary<Sqrt>(device, LLMC_FUNCTION_SQRT);
  expect_unary<Reciprocal>(device, LLMC_FUNCTION_RECIPROCAL);
  expect_unary<Exp>(device, LLMC_FUNCTION_EXP);
  expect_unary<Sigmoid>(device, LLMC_FUNCTION_SIGMOID);
  expect_unary<Silu>(device, LLMC_FUNCTION_SILU);
  expect_unary<Relu>(device, LLMC_FUNCTION_RELU);
  expect_unary<Tanh>(device, LLMC_FUNCTION_TANH);
  expect_unary<Erf>(device, LLMC_FUNCTION_ERF);
  expect_unary<Gelu>(device, LLMC_FUNCTION_GELU);
  expect_unary<GeluTanh>(device, LLMC_FUNCTION_GELU_TANH);
}

template <class Fn>
void expect_binary(hosted::OpenClDevice& device, int function) {
  RowOp test;
  const TestRun run = make_run(kTokens, 1);
  const KernelContext context{&run, kTokens, nullptr};
  llmc_device_op op = operation(LLMC_OP_BINARY, kWidth);
  op.function = static_cast<std::uint16_t>(function);
  Aligned<float> want(kTokens * kWidth);
  op.y = kRowBytes;
  binary<Fn, kWidth>(context, test.x.data(), test.y.data(), want.data());
  test.expect(device, op, want);
  op.y = kAbsent;
  op.value = 0.7f;
  binary_scalar<Fn, kWidth>(context, test.x.data(), op.value, want.data());
  test.expect(device, op, want);
  op.number = test.row + 4;
  const Aligned<unsigned char> weights = test.weights.aligned();
  const auto* const row = reinterpret_cast<const float*>(weights.data() + test.row);
  binary_scalar<Fn, kWidth>(context, test.x.data(), row[1], want.data());
  test.expect(device, op, want);
  op.number = kAbsent;
  op.row = test.row;
  binary_row<Fn, kWidth>(context, test.x.data(), row, want.data());
  test.expect(device, op, want);
}
TEST_P(OpenClRows, BinaryFunctions) {
  LLMC_NEED_OPENCL(device, {.copies = GetParam()});
  expect_binary<Add>(device, LLMC_FUNCTION_ADD);
  expect_binary<Sub>(device, LLMC_FUNCTION_SUB);
  expect_binary<Mul>(device, LLMC_FUNCTION_MUL);
  expect_binary<Div>(device, LLMC_FUNCTION_DIV);
  expect_binary<Min>(device, LLMC_FUNCTION_MIN);
  expect_binary<Max>(device, LLMC_FUNCTION_MAX);
}

TEST_P(OpenClRows, NormsOfPartsAndGates) {
  LLMC_NEED_OPENCL(device, {.copies = GetParam()});
  RowOp test;
  test.x = random_floats(kTokens * kWidth, 5, 3);
  const TestRun run = make_run(kTokens, 1);
  const KernelContext context{&run, kTokens, nullptr};
  const Aligned<unsigned char> weights = test.weights.aligned();
  const auto* const norm = reinterpret_cast<const float*>(weights.data() + test.row);
  const auto* const bias = reinterpret_cast<const float*>(weights.data() + test.bias);
  Aligned<float> want(kTokens * kWidth);
  llmc_device_op op = operation(LLMC_OP_NORM, 11);
  op.parts = 7;
  op.norm = LLMC_NORM_RMS;
  op.norm_weight = test.row;
  op.epsilon = 1e-6f;
  rms_norm<11, 7>(context, test.x.data(), norm, op.epsilon, want.data());
  test.expect(device, op, want);
  op.norm = LLMC_NORM_LAYER;
  op.norm_bias = test.bias;
  op.y = kRowBytes;
  layer_norm<11, 7>(context, test.x.data(), norm, bias, op.epsilon, want.data(), test.y.data());
  test.expect(device, op, want);
  op = operation(LLMC_OP_GATED, kWidth);
  op.function = LLMC_FUNCTION_SILU;
  op.y = kRowBytes;
  gated_activation<Silu, kWidth>(context, test.x.data(), test.y.data(), want.data());
  test.expect(device, op, want);
}

TEST(OpenClDevice, RefusesWhatItCannotDo) {
  const auto none = hosted::OpenClDevice::create({.device = "no such device"});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.failure().status, LLMC_ERROR_DEVICE);
  LLMC_NEED_OPENCL(device, {});
  EXPECT_THAT(none.failure().message, testing::HasSubstr(device.name()));
  // A model without a description of its regions; one of another version.
  llmc_model model{};
  const llmc_device& functions = device.device();
  EXPECT_EQ(functions.prepare(functions.user, &model, nullptr, nullptr, 0), LLMC_ERROR_VERSION);
  model.abi = LLMC_MODEL_ABI;
  EXPECT_EQ(functions.prepare(functions.user, &model, nullptr, nullptr, 0), LLMC_ERROR_DEVICE);
  EXPECT_EQ(functions.wait(functions.user, 7, 0), LLMC_DEVICE_FAILED);
  // Operations and functions of a later version.
  RowOp test;
  OneStep step(kTokens, 3 * kRowBytes);
  const Aligned<unsigned char> weights = test.weights.aligned();
  const auto prepared = [&](llmc_device_op op) {
    step.op = op;
    return functions.prepare(functions.user, &step.model, weights.data(), step.scratch.data(),
                             step.scratch.size());
  };
  EXPECT_EQ(prepared(operation(99, kWidth)), LLMC_ERROR_DEVICE);
  EXPECT_THAT(functions.message(functions.user), testing::HasSubstr("99"));
  llmc_device_op later = operation(LLMC_OP_UNARY, kWidth);
  later.function = LLMC_FUNCTION_ADD;
  EXPECT_EQ(prepared(later), LLMC_ERROR_DEVICE);
  later.kind = LLMC_OP_BINARY;
  later.function = LLMC_FUNCTION_GELU;
  EXPECT_EQ(prepared(later), LLMC_ERROR_DEVICE);
  // One without weights.
  EXPECT_EQ(prepared(operation(LLMC_OP_UNARY, kWidth)), LLMC_OK);
  llmc_run run{};
  run.count = 1;
  run.scratch = step.scratch.data();
  run.weights = weights.data();
  llmc_device_job job{&step.model, &run, 0, 1};
  // The scratch of another session.
  run.scratch = step.scratch.data() + 64;
  EXPECT_EQ(functions.submit(functions.user, &job), 0u);
  EXPECT_THAT(functions.message(functions.user), testing::HasSubstr("another session"));
  run.scratch = step.scratch.data();
  const std::uint64_t ticket = functions.submit(functions.user, &job);
  EXPECT_NE(ticket, 0u);
  functions.cancel(functions.user);
  EXPECT_EQ(functions.wait(functions.user, ticket, 0), LLMC_DEVICE_FAILED) << "it was cancelled";
  functions.release(functions.user);
}

TEST(OpenClDevice, InC) {
  const llmc_device* device = nullptr;
  char message[200] = "before";
  llmc_opencl_options options{.size = 1, .copies = 0, .device = nullptr, .kernels = nullptr};
  EXPECT_EQ(llmc_opencl_device_create(nullptr, nullptr, nullptr, 0), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_opencl_device_create(&options, &device, message, sizeof message),
            LLMC_ERROR_VERSION);
  options.size = sizeof options;
  options.device = "no such device";
  EXPECT_EQ(llmc_opencl_device_create(&options, &device, message, sizeof message),
            LLMC_ERROR_DEVICE);
  EXPECT_EQ(device, nullptr);
  EXPECT_THAT(message,
              testing::AnyOf(testing::HasSubstr("no such device"), testing::HasSubstr("OpenCL")));
  LLMC_NEED_OPENCL(there, {});
  ASSERT_EQ(llmc_opencl_device_create(nullptr, &device, message, sizeof message), LLMC_OK);
  EXPECT_STREQ(message, "");
  EXPECT_EQ(llmc_opencl_device_name(device), there.name());
  EXPECT_EQ(llmc_opencl_copied_bytes(device), 0u);
  llmc_opencl_device_destroy(device);
  llmc_opencl_device_destroy(nullptr);
}

}  // namespace
}  // namespace llmc::test
