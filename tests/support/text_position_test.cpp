#include "compiler/support/text_position.h"

#include <gtest/gtest.h>

namespace llmc {
namespace {

TEST(LineAndColumn, CountFromOne) {
  EXPECT_EQ(line_and_column("ab\ncd", 1), "line 1, column 1");
  EXPECT_EQ(line_and_column("ab\ncd", 3), "line 1, column 3");
  EXPECT_EQ(line_and_column("ab\ncd", 4), "line 2, column 1");
  EXPECT_EQ(line_and_column("ab\ncd", 0), "line 1, column 1");
  EXPECT_EQ(line_and_column("", 1), "line 1, column 1");
  EXPECT_EQ(line_and_column("a", 1000), "line 1, column 2");
}

}  // namespace
}  // namespace llmc
