// The file in which an OpenCL device keeps its compiled kernels.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "runtime/hosted/device/opencl_cache.h"
#include "tests/opencl/device_run.h"

namespace llmc::test {
namespace {

namespace fs = std::filesystem;
using hosted::opencl::ProgramCache;

class KernelsFile : public testing::Test {
 protected:
  void SetUp() override { fs::create_directory(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path file() const { return folder_ / "model.opencl.bin"; }
  std::string content() const {
    std::ifstream in(file(), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const std::string& text) const {
    std::ofstream(file(), std::ios::binary | std::ios::trunc) << text;
  }
  std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), {}));
  }

 private:
  const fs::path folder_ =
      fs::path(testing::TempDir()) / ("llmc-kernels-" + std::to_string(::getpid()));
};

TEST_F(KernelsFile, KeepsProgramsThatAreUsed) {
  ProgramCache first(file());
  EXPECT_EQ(first.find(1), nullptr);
  first.save();
  EXPECT_FALSE(fs::exists(file())) << "nothing to keep";
  first.add(1, std::string("one\0two", 7));
  first.add(2, "");
  first.save();
  ProgramCache second(file());
  ASSERT_NE(second.find(1), nullptr);
  EXPECT_EQ(*second.find(1), std::string("one\0two", 7));
  second.add(3, "three");
  second.save();
  ProgramCache third(file());
  EXPECT_NE(third.find(1), nullptr);
  EXPECT_NE(third.find(3), nullptr);
  EXPECT_EQ(third.find(2), nullptr) << "not used the second time";
  EXPECT_EQ(entries(), 1u);
}

TEST_F(KernelsFile, DamagedOnesAreEmpty) {
  {
    ProgramCache cache(file());
    cache.add(1, "program");
    cache.save();
  }
  const std::string whole = content();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    write(whole.substr(0, length));
    EXPECT_EQ(ProgramCache(file()).find(1), nullptr) << length;
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    write(damaged);
    EXPECT_EQ(ProgramCache(file()).find(1), nullptr) << at;
  }
  write(whole);
  EXPECT_NE(ProgramCache(file()).find(1), nullptr);
}

TEST_F(KernelsFile, PlacesThatCannotBeWrittenAreIgnored) {
  for (const fs::path& path : {fs::path(), file() / "below", fs::path("/proc/none/kernels")}) {
    ProgramCache cache(path);
    cache.add(1, "program");
    cache.save();
    EXPECT_EQ(ProgramCache(path).find(1), nullptr);
  }
  EXPECT_EQ(entries(), 0u);
}

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

}  // namespace
}  // namespace llmc::test
