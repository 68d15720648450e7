#pragma once

#include <string>
#include <vector>

#include "compiler/reference/interpreter.h"

namespace llmc::reference::testing {

/// Parses and verifies a graph; fails the test otherwise.
ir::Graph graph_of(const std::string& text);

/// Outputs of a graph on inputs; fails the test on errors.
std::vector<Tensor> outputs_of(const std::string& text, const std::vector<Tensor>& inputs = {});

/// The formatted error of a graph that must not evaluate.
std::string error_of(const std::string& text, const std::vector<Tensor>& inputs = {},
                     const InterpreterOptions& options = {});

/// Type equal, integers equal, floats within `tolerance` times the larger of 1 and the expected
/// magnitude; NaN equals NaN.
void expect_near(const Tensor& actual, const Tensor& expected, float tolerance,
                 const std::string& what);

}  // namespace llmc::reference::testing
