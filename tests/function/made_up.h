#pragma once

#include <cstdint>
#include <string>

#include "compiler/ir/constant.h"
#include "compiler/ir/type.h"
#include "compiler/reference/tensor.h"

namespace llmc::function_test {

/// Floats in [-3, 3), the first ones special where the case wants that; integers of all sizes.
ir::ConstantPtr made_up(const ir::TensorType& type, bool specials, std::uint64_t& state);

/// Floats within `tolerance` of the largest expected one, NaN and infinities in the same places.
void expect_close(const reference::Tensor& want, const ir::Constant& got, double tolerance,
                  const std::string& what);

}  // namespace llmc::function_test
