#pragma once

#include <gtest/gtest.h>

#include <regex>
#include <sstream>
#include <string>

#include "compiler/emit/wrap.h"

namespace llmc::tests {

/// Expects that lines without their string literals are not too long, and that none ends in a
/// space.
inline void expect_lines_fit(const std::string& source) {
  std::istringstream lines(source);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_FALSE(line.ends_with(' ')) << line;
    const std::string code = std::regex_replace(line, std::regex(R"("([^"\\]|\\.)*")"), "");
    EXPECT_LE(code.size(), emit::kMaxColumns) << line;
  }
}

}  // namespace llmc::tests
