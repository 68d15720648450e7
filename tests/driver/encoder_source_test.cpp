#include "compiler/driver/encoder_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "compiler/ir/text.h"

namespace llmc::driver {
namespace {

using ::testing::HasSubstr;

/// Returns source_range() of an encoder with keys [batch, heads, rows, width], where `rows` is an
/// expression of the dim `source` of its input.
Result<plan::DimRange> range_for(const std::string& rows, std::uint32_t source_max) {
  const auto graph = ir::parse("graph @encoder(%ids: i64[1, source], %keys: f32[1, 2, " + rows +
                               ", 4]) {\n  return %keys\n}\n");
  if (!graph.ok()) return graph.error();
  CompileOptions options;
  options.model = "model";
  options.source_max = source_max;
  return source_range(*graph, options);
}

TEST(SourceRange, HasARowAtLeast) {
  const auto range = range_for("source - 3", 20);
  ASSERT_TRUE(range.ok()) << format(range.error().first());
  EXPECT_EQ(range->min, 4);
  EXPECT_EQ(range->max, 20);
  const auto none = range_for("source - 3", 3);
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(format(none.error().first()), HasSubstr("use --source-ctx 4 or more"));
}

TEST(SourceRange, RefusesRowsThatDependOnMore) {
  const auto range = range_for("found", 20);
  ASSERT_FALSE(range.ok());
  EXPECT_EQ(range.error().first().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(format(range.error().first()),
              HasSubstr("model: the encoder's number of rows, found, depends on more than"));
}

}  // namespace
}  // namespace llmc::driver
