#pragma once

#include <string>
#include <vector>

namespace llmc::reference::testing {

/// One operator on operands worked out by hand: a graph that returns what it computes and what is
/// expected, in turn.
struct OpCase {
  std::string op;
  std::string text;
};

std::vector<OpCase> data_cases();
std::vector<OpCase> index_cases();
std::vector<OpCase> math_cases();
std::vector<OpCase> wide_cases();
std::vector<OpCase> fused_cases();

}  // namespace llmc::reference::testing
