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
  ASSERT_EQ(device.prepare(device.user, &step.model, bytes.data(), step.scratch.data(),
                           step.scratch.size()),
            LLMC_OK);
  llmc_run call{};
  call.scratch = step.scratch.data();
  call.weights = bytes.data();
  const llmc_device_job job{&step.model, &call, 0, 1};
  const auto state_of = [&](std::uint32_t count) {
    call.count = count;
    const std::uint64_t ticket = device.submit(device.user, &job);
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
  ASSERT_EQ(device.prepare(device.user, &step.model, bytes.data(), step.scratch.data(),
                           step.scratch.size()),
            LLMC_OK);
  llmc_run call{};
  call.count = 1;
  call.scratch = step.scratch.data();
  call.weights = bytes.data();
  const llmc_device_job job{&step.model, &call, 0, 1};
  std::uint64_t last = 0;
  std::uint32_t accepted = 0;
  while (accepted < 1000 && (last = device.submit(device.user, &job)) != 0) ++accepted;
  EXPECT_GE(accepted, LLMC_MAX_IN_FLIGHT);
  EXPECT_LT(accepted, 1000u);
  EXPECT_STREQ(device.message(device.user), "too many jobs are in progress");
  device.cancel(device.user);
  last = device.submit(device.user, &job);
  ASSERT_NE(last, 0u) << device.message(device.user);
  EXPECT_EQ(device.wait(device.user, last, LLMC_DEVICE_NO_LIMIT), LLMC_DEVICE_DONE);
  device.release(device.user);
}

}  // namespace
}  // namespace llmc::test
