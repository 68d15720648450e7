// Jobs that the device cannot do.
#include "tests/opencl/device_run.h"

namespace llmc::test {
namespace {

TEST(OpenClJobs, FailIfTheirCommandsAreRefused) {
  constexpr std::uint32_t kRows = 4, kN = 24;
  LLMC_NEED_OPENCL(opencl, {.copies = true});
  Weights weights;
  weights.add(random_floats(16, 1));
  const std::size_t out = kRows * kN * 4;
  OneStep step(kRows, 2 * out);
  step.op = operation(LLMC_OP_UNARY, kN);
  step.op.function = LLMC_FUNCTION_NEG;
  step.op.out = out;
  step.cross(0, kN * 4, false);
  step.cross(out, kN * 4, true);
  step.cross(out, kN * 4, true);
  const Aligned<unsigned char> bytes = weights.aligned();
  const llmc_device& device = opencl.device();
  ASSERT_EQ(step.prepare(device, bytes), LLMC_OK);
  const auto state_of = [&](std::uint32_t count) {
    const std::uint64_t ticket = step.submit(device, bytes, count);
    EXPECT_NE(ticket, 0u);
    return device.wait(device.user, ticket, LLMC_DEVICE_NO_LIMIT);
  };
  EXPECT_EQ(state_of(1000 * kRows), LLMC_DEVICE_FAILED) << "more rows than the scratch has";
  const std::string reason = device.message(device.user);
  EXPECT_TRUE(reason.starts_with("clEnqueueWriteBuffer fails with OpenCL's code ")) << reason;
  EXPECT_EQ(state_of(kRows), LLMC_DEVICE_FAILED) << "before cancel";
  EXPECT_EQ(device.message(device.user), reason);
  device.cancel(device.user);
  // The last command of a job: the others are enqueued.
  step.copies[2].row_bytes = 1000;
  EXPECT_EQ(state_of(kRows), LLMC_DEVICE_FAILED);
  EXPECT_TRUE(std::string(device.message(device.user)).starts_with("clEnqueueReadBuffer"));
  device.cancel(device.user);
  step.copies[2] = step.copies[1];
  for (int i = 0; i < 40; ++i) ASSERT_EQ(state_of(kRows), LLMC_DEVICE_DONE) << "job " << i;
  device.release(device.user);
}

TEST(OpenClJobs, AreRefusedIfThereAreTooMany) {
  LLMC_NEED_OPENCL(opencl, {.copies = true});
  Weights weights;
  weights.add(random_floats(16, 1));
  OneStep step(1, 4096);
  step.op = operation(LLMC_OP_UNARY, 24);
  step.op.out = 2048;
  const Aligned<unsigned char> bytes = weights.aligned();
  const llmc_device& device = opencl.device();
  ASSERT_EQ(step.prepare(device, bytes), LLMC_OK);
  std::uint64_t last = 0;
  std::uint32_t accepted = 0;
  while (accepted < 1000 && (last = step.submit(device, bytes, 1)) != 0) ++accepted;
  EXPECT_GE(accepted, LLMC_MAX_IN_FLIGHT);
  EXPECT_LT(accepted, 1000u);
  EXPECT_STREQ(device.message(device.user), "too many jobs are in progress");
  device.cancel(device.user);
  last = step.submit(device, bytes, 1);
  ASSERT_NE(last, 0u) << device.message(device.user);
  EXPECT_EQ(device.wait(device.user, last, LLMC_DEVICE_NO_LIMIT), LLMC_DEVICE_DONE);
  device.release(device.user);
}

}  // namespace
}  // namespace llmc::test
