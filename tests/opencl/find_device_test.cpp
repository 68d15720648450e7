#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/hosted/device/opencl_find.h"
#include "tests/support/opencl.h"

namespace llmc::hosted::opencl {
namespace {

TEST(FindDevice, TakesAPartOfTheNameInAnyCase) {
  if (const std::string missing = tests::missing_opencl(); !missing.empty())
    GTEST_SKIP() << missing;
  const auto api = load_api();
  ASSERT_TRUE(api.ok());
  const auto any = find_device(**api, "");
  ASSERT_TRUE(any.ok());
  std::string name = (*any).name;
  std::ranges::transform(name, name.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
  });
  const auto found = find_device(**api, name);
  ASSERT_TRUE(found.ok()) << name;
  EXPECT_EQ((*found).name, (*any).name);
  const auto none = find_device(**api, "no such device");
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.failure().message, ::testing::HasSubstr((*any).name));
  EXPECT_THAT(none.failure().hint, ::testing::HasSubstr("a part of one of these names"));
}

}  // namespace
}  // namespace llmc::hosted::opencl
