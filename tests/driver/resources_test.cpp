#include "compiler/driver/resources.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "compiler/support/file.h"

namespace llmc::driver {
namespace {

TEST(Resources, AreTheFilesOfTheRepository) {
  ASSERT_FALSE(resources().empty());
  for (const Resource& resource : resources()) {
    const auto text = read_file(std::filesystem::path(LLMC_SOURCE_DIR) / resource.path);
    ASSERT_TRUE(text.ok()) << resource.path;
    EXPECT_EQ(*text, resource.content) << resource.path;
  }
}

TEST(Resources, ABundleGetsTheClosureOfItsIncludes) {
  std::set<std::string> paths;
  for (const Resource& resource : resources_for("#include \"llmc/kernels.h\"\n")) {
    paths.insert(bundle_path(resource.path));
  }
  for (const char* needed :
       {"src/llmc/kernels.h", "src/llmc/simd/avx2.h", "src/llmc/simd/generic.h", "src/llmc/model.h",
        "llmc/beams.h", "llmc/embeddings.h", "llmc/llmc.h", "llmc/shards.h", "llmc/speculation.h",
        "src/core/session.cpp"}) {
    EXPECT_TRUE(paths.contains(needed)) << needed;
  }
  EXPECT_FALSE(paths.contains("src/llmc/hosted.h")) << "nothing of an operating system";
}

TEST(Resources, NoTwoShareAPlaceInTheBundle) {
  std::set<std::string> paths;
  for (const Resource& resource : resources()) {
    EXPECT_TRUE(paths.insert(bundle_path(resource.path)).second) << resource.path;
  }
}

}  // namespace
}  // namespace llmc::driver
