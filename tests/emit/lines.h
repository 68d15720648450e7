#pragma once

#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "compiler/emit/wrap.h"

namespace llmc::tests {

/// Expects that lines are not too long, except those with a single string literal, and that none
/// ends in a space.
inline void expect_lines_fit(const std::string& source) {
  std::istringstream lines(source);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_FALSE(line.ends_with(' ')) << line;
    if (line.find('"') == line.npos) EXPECT_LE(line.size(), emit::kMaxColumns) << line;
  }
}

}  // namespace llmc::tests
