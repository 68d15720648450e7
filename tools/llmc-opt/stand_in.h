#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/constant.h"

namespace llmc::opt {

/// Returns a constant of zeros that is printed as `mapped "name"`; nullptr if it is too large. It
/// allocates address space but no memory. With it, the dumped graph of a model can be processed
/// without the model's weights.
ir::ConstantPtr zeros_for_mapped(ir::ElementType element, const std::vector<std::int64_t>& dims,
                                 const std::string& name);

}  // namespace llmc::opt
