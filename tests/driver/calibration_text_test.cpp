#include "compiler/driver/calibration_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace llmc::driver {
namespace {

using ::testing::ElementsAre;

TEST(CalibrationText, EachWindowBeginsWithOneBeginningToken) {
  EXPECT_THAT(windows_of({7, 1, 2, 3, 4, 7, 5}, 7, 4, 100),
              ElementsAre(ElementsAre(7, 1, 2, 3), ElementsAre(7, 4, 7, 5)));
  EXPECT_THAT(windows_of({1, 2, 3}, -1, 2, 100), ElementsAre(ElementsAre(1, 2), ElementsAre(3)));
  EXPECT_THAT(windows_of({1, 2, 3}, 7, 2, 2), ElementsAre(ElementsAre(7, 1), ElementsAre(7, 2)));
}

TEST(CalibrationText, ItsKeyChangesWithWhatIsRead) {
  CalibrationText text, builtin;
  text.source = "a.txt";
  text.text = "one";
  CalibrationText special = text, other = text;
  special.parse_special = true;
  other.text = "two";
  builtin.source = "builtin";
  builtin.builtin = true;
  EXPECT_NE(text_key(text), text_key(special));
  EXPECT_NE(text_key(text), text_key(other));
  EXPECT_THAT(text_key(builtin), ::testing::MatchesRegex("builtin-[0-9a-f]{16}"));
}

}  // namespace
}  // namespace llmc::driver
