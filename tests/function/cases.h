#pragma once

#include <span>
#include <string_view>

namespace llmc::function_test {

/// A graph in text form whose native code is compared with the interpreter, on made-up inputs.
struct Case {
  std::string_view name;  // a C identifier
  std::string_view graph;
  bool specials = false;    // zeros, infinities and NaN among the floats
  double tolerance = 1e-5;  // of floats, relative to the largest expected element
};

std::span<const Case> elementwise_cases();
std::span<const Case> data_cases();
std::span<const Case> math_cases();

}  // namespace llmc::function_test
