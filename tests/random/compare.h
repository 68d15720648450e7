#pragma once

#include <string>
#include <vector>

#include "compiler/reference/tensor.h"

namespace llmc::testing {

/// Where two lists of tensors differ first: other dims or types, integers that are not equal,
/// floats further apart than 1e-4 (f64: 1e-9) times the larger of 1 and the expected tensor's
/// largest number. Empty when nowhere.
std::string difference(const std::vector<reference::Tensor>& expected,
                       const std::vector<reference::Tensor>& computed);

}  // namespace llmc::testing
