// The file in which an OpenCL device keeps its compiled kernels.
#include "tests/support/kernels_file.h"

#include <filesystem>
#include <fstream>

#include "runtime/hosted/device/opencl_cache.h"
#include "tests/opencl/device_run.h"

namespace llmc::test {
namespace {

namespace fs = std::filesystem;

using KernelsFile = tests::KernelsFile;

/// A product, and the programs that it needs.
void multiply(const fs::path& kernels) {
  constexpr std::size_t kN = 8, kK = 32;
  LLMC_NEED_OPENCL(device, {.device = {}, .copies = false, .kernels = kernels});
  using C = Case<WeightKind::kF32, kN, kK>;
  const auto data = make_weight<C::W>(kN, 1);
  const auto x = random_floats(kK, 2);
  Weights weights;
  OneStep step(1, 256);
  std::memcpy(step.scratch.data(), x.data(), kK * 4);
  step.op = operation(LLMC_OP_LINEAR, kN, kK);
  step.op.out = kK * 4;
  step.op.matrix.offset = weights.add(data.data(), data.size());
  step.op.matrix.bytes = data.size();
  step.op.matrix.rows = kN;
  step.cross(0, kK * 4, false);
  step.cross(step.op.out, kN * 4, true);
  ASSERT_EQ(step.run(device, weights, 1), LLMC_DEVICE_DONE);
  for (std::size_t i = 0; i < kN; ++i) {
    float want = 0;
    for (std::size_t k = 0; k < kK; ++k) want = std::fma(x[k], f32_decode(data.data(), i, k), want);
    EXPECT_EQ(step.rows(step.op.out)[i], want);
  }
}

TEST_F(KernelsFile, OfADeviceIsReadAndReplaced) {
  if (const std::string missing = tests::missing_opencl(); !missing.empty())
    GTEST_SKIP() << missing;
  multiply(file());
  const std::string first = content();
  ASSERT_GT(first.size(), 1000u);
  const fs::file_time_type written = fs::last_write_time(file());
  multiply(file());
  EXPECT_EQ(fs::last_write_time(file()), written) << "it was not read";
  write("not kernels");
  multiply(file());
  EXPECT_GT(content().size(), 1000u);
  EXPECT_EQ(entries(), 1u);
}

/// A file of programs that the driver does not take.
TEST_F(KernelsFile, OfAnotherCompilerIsReplaced) {
  if (const std::string missing = tests::missing_opencl(); !missing.empty())
    GTEST_SKIP() << missing;
  multiply(file());
  std::string other = content();
  constexpr std::size_t kSum = 15, kFirst = kSum + 8;
  for (std::size_t at = kFirst; at < other.size();) {
    std::uint64_t size = 0;
    std::memcpy(&size, &other[at + 8], sizeof size);
    std::fill_n(other.begin() + static_cast<std::ptrdiff_t>(at + 16), size, 'x');
    at += 16 + size;
  }
  const std::uint64_t sum = hosted::opencl::hash_of(std::string_view(other).substr(kFirst));
  std::memcpy(&other[kSum], &sum, sizeof sum);
  write(other);
  multiply(file());
  EXPECT_NE(content(), other);
}

}  // namespace
}  // namespace llmc::test
