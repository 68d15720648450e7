#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "runtime/hosted/device/opencl_device.h"
#include "tests/kernels/linear.h"
#include "tests/support/opencl.h"

/// Single operations on an OpenCL device.
namespace llmc::test {

/// Declares a device that shares the CPU's memory if it can, or copies; skips the test without one.
#define LLMC_NEED_OPENCL(variable, ...)                                      \
  if (const std::string missing = tests::missing_opencl(); !missing.empty()) \
    GTEST_SKIP() << missing;                                                 \
  auto variable##_made = hosted::OpenClDevice::create(__VA_ARGS__);          \
  ASSERT_TRUE(variable##_made.ok()) << variable##_made.failure().message;    \
  hosted::OpenClDevice& variable = **variable##_made

/// Tests with the parameter `copies`.
class OpenClTest : public testing::TestWithParam<bool> {};

inline constexpr std::uint64_t kAbsent = LLMC_DEVICE_NONE;

/// Weights of a model, each at a multiple of 64 bytes.
class Weights {
 public:
  std::uint64_t add(const void* data, std::size_t bytes) {
    const std::uint64_t offset = bytes_.size();
    bytes_.resize(offset + round_up(bytes, 64));
    std::memcpy(bytes_.data() + offset, data, bytes);
    return offset;
  }
  std::uint64_t add(const Aligned<float>& row) { return add(row.data(), row.size() * 4); }
  Aligned<unsigned char> aligned() const {
    Aligned<unsigned char> copy(bytes_.size());
    std::memcpy(copy.data(), bytes_.data(), bytes_.size());
    return copy;
  }

 private:
  std::vector<unsigned char> bytes_;
};

inline llmc_device_op operation(int kind, std::size_t n, std::size_t k = 0) {
  llmc_device_op op{};
  op.kind = static_cast<std::uint16_t>(kind);
  op.n = static_cast<std::uint32_t>(n);
  op.k = static_cast<std::uint32_t>(k);
  op.parts = 1;
  op.y = op.bias = op.norm_weight = op.norm_bias = op.row = op.number = kAbsent;
  op.matrix.offset = op.matrix_2.offset = kAbsent;
  return op;
}

/// A model whose only step is one operation. The tests place its rows in `scratch`.
struct OneStep {
  explicit OneStep(std::uint32_t chunk, std::size_t scratch_bytes) : scratch(scratch_bytes, 0xff) {
    model.abi = LLMC_MODEL_ABI;
    model.size = sizeof model;
    model.chunk = chunk;
    model.steps = model.in_flight = 1;
    model.scratch_bytes = scratch_bytes;
    model.device_program = &program;
  }
  llmc_status prepare(const llmc_device& device, const Aligned<unsigned char>& weights) {
    return device.prepare(device.user, &model, weights.data(), scratch.data(), scratch.size());
  }
  /// Submits a job of `count` rows. Returns its ticket.
  std::uint64_t submit(const llmc_device& device, const Aligned<unsigned char>& weights,
                       std::uint32_t count) {
    call.count = count;
    call.scratch = scratch.data();
    call.weights = weights.data();
    const llmc_device_job job{&model, &call, 0, 1};
    return device.submit(device.user, &job);
  }
  /// Runs the operation on `count` rows. Returns the state of its job.
  int run(hosted::OpenClDevice& opencl, const Weights& data, std::uint32_t count) {
    const Aligned<unsigned char> weights = data.aligned();
    const llmc_device& device = opencl.device();
    const llmc_status prepared = prepare(device, weights);
    EXPECT_EQ(prepared, LLMC_OK) << device.message(device.user);
    if (prepared != LLMC_OK) return LLMC_DEVICE_FAILED;
    const std::uint64_t ticket = submit(device, weights, count);
    EXPECT_NE(ticket, 0u) << device.message(device.user);
    const int state = device.wait(device.user, ticket, LLMC_DEVICE_NO_LIMIT);
    EXPECT_EQ(state, LLMC_DEVICE_DONE) << device.message(device.user);
    device.release(device.user);
    EXPECT_EQ(submit(device, weights, count), 0u) << "without memory";
    return state;
  }
  float* rows(std::uint64_t offset) { return reinterpret_cast<float*>(scratch.data() + offset); }

  /// Declares rows that cross the border before the operation, or after it.
  void cross(std::uint64_t offset, std::size_t row_bytes, bool from_device) {
    copies[step_copies[1]++] = {offset, static_cast<std::uint32_t>(row_bytes),
                                from_device ? 1u : 0u};
  }

  llmc_device_op op{};
  llmc_device_copy copies[4] = {};
  std::uint32_t step_ops[2] = {0, 1}, step_copies[2] = {0, 0};
  llmc_device_program program{&op, copies, step_ops, step_copies};
  llmc_model model{};
  llmc_run call{};  // of the job that was submitted last
  Aligned<unsigned char> scratch;
};

}  // namespace llmc::test
