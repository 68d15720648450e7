#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/constant.h"

namespace llmc::opt {

/// A constant that prints as `mapped "name"` and reads as zeros, without taking memory until it is
/// read: the graph of a dumped model can be worked on without its weights.
ir::ConstantPtr zeros_for_mapped(ir::ElementType element, const std::vector<std::int64_t>& dims,
                                 const std::string& name);

}  // namespace llmc::opt
