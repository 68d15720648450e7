#pragma once

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/end_to_end/program.h"

#ifdef LLMC_PROGRAM
namespace llmc::tests {

/// Exit code 2 and both texts on stderr.
inline void expect_mistake(const std::vector<std::string>& arguments, const std::string& message,
                           const std::string& hint) {
  const ProgramRun ran = llmc(arguments);
  EXPECT_EQ(ran.code, 2) << ran.err;
  EXPECT_THAT(ran.err, ::testing::AllOf(::testing::HasSubstr(message), ::testing::HasSubstr(hint)));
  EXPECT_EQ(ran.out, "");
}

}  // namespace llmc::tests
#endif
