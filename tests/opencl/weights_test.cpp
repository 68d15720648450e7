// Weights that do not fit one buffer of the device.
#include "tests/opencl/device_run.h"

namespace llmc::test {
namespace {

constexpr std::uint32_t kInputs = 3;
constexpr std::size_t kOutputs = 64, kColumns = 64;
using Floats = Case<WeightKind::kF32, kOutputs, kColumns>;

/// Two products of the same rows.
struct TwoProducts : OneStep {
  TwoProducts() : OneStep(kInputs, round_up(kInputs * (kColumns + 2 * kOutputs) * 4, 64)) {
    std::memcpy(scratch.data(), x.data(), x.size() * 4);
    for (std::size_t i = 0; i < 2; ++i) {
      ops[i] = operation(LLMC_OP_LINEAR, kOutputs, kColumns);
      ops[i].out = (kInputs * kColumns + i * kInputs * kOutputs) * 4;
      ops[i].matrix.offset = weights.add(data[i].data(), data[i].size());
      ops[i].matrix.bytes = data[i].size();
      ops[i].matrix.rows = kOutputs;
      ops[i].matrix.kind = LLMC_MATRIX_F32;
      cross(ops[i].out, kOutputs * 4, true);
    }
    cross(0, kColumns * 4, false);
    program.ops = ops;
    step_ops[1] = 2;
  }
  Aligned<float> x = random_floats(kInputs * kColumns, 3);
  Aligned<unsigned char> data[2] = {make_weight<typename Floats::W>(kOutputs, 10),
                                    make_weight<typename Floats::W>(kOutputs, 11)};
  llmc_device_op ops[2];
  Weights weights;
};

class OpenClWeights : public OpenClTest {};
INSTANTIATE_TEST_SUITE_P(Copies, OpenClWeights, testing::Bool());

TEST_P(OpenClWeights, AreDividedByTheLargestBuffer) {
  for (const std::uint64_t largest : {std::uint64_t{20000}, UINT64_MAX}) {
    LLMC_NEED_OPENCL(device, {.copies = GetParam(), .max_buffer = largest});
    TwoProducts step;
    ASSERT_EQ(step.run(device, step.weights, kInputs), LLMC_DEVICE_DONE);
    for (std::size_t i = 0; i < 2; ++i) {
      const auto want = reference_products<Floats>(step.data[i].data(), step.x);
      for (std::size_t j = 0; j < want.size(); ++j)
        ASSERT_EQ(bits_of(step.rows(step.ops[i].out)[j]), bits_of(want[j]))
            << "product " << i << ", element " << j << ", buffers of " << largest;
    }
  }
}

TEST_P(OpenClWeights, OfAnOperationMustFitOne) {
  LLMC_NEED_OPENCL(opencl, {.copies = GetParam(), .max_buffer = 10000});
  TwoProducts step;
  const Aligned<unsigned char> weights = step.weights.aligned();
  const llmc_device& device = opencl.device();
  EXPECT_EQ(step.prepare(device, weights), LLMC_ERROR_DEVICE);
  const std::string message = device.message(device.user);
  EXPECT_TRUE(message.starts_with("the model needs ") &&
              message.ends_with(" bytes in one buffer, the device allows 10000"))
      << message;
}

}  // namespace
}  // namespace llmc::test
