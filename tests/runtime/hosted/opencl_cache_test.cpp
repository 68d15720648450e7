// The file of compiled OpenCL programs.
#include "runtime/hosted/device/opencl_cache.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/kernels_file.h"

namespace llmc::hosted::opencl {
namespace {

namespace fs = std::filesystem;

using ProgramCacheFile = tests::KernelsFile;

TEST_F(ProgramCacheFile, KeepsProgramsThatAreUsed) {
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

TEST_F(ProgramCacheFile, DamagedOnesAreEmpty) {
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

TEST_F(ProgramCacheFile, ForgetsThoseOfTheFileOnce) {
  {
    ProgramCache cache(file());
    cache.add(1, "program");
    EXPECT_FALSE(cache.forget()) << "it was not in the file";
    cache.add(1, "program");
    cache.save();
  }
  ProgramCache cache(file());
  EXPECT_FALSE(ProgramCache(file()).forget()) << "nothing was used";
  ASSERT_NE(cache.find(1), nullptr);
  EXPECT_TRUE(cache.forget());
  EXPECT_EQ(cache.find(1), nullptr);
  cache.add(1, "another");
  EXPECT_FALSE(cache.forget());
}

TEST_F(ProgramCacheFile, PlacesThatCannotBeWrittenAreIgnored) {
  for (const fs::path& path : {fs::path(), file() / "below", fs::path("/proc/none/kernels")}) {
    ProgramCache cache(path);
    cache.add(1, "program");
    cache.save();
    EXPECT_EQ(ProgramCache(path).find(1), nullptr);
  }
  EXPECT_EQ(entries(), 0u);
}

}  // namespace
}  // namespace llmc::hosted::opencl
