#pragma once

#include <vector>

#include "compiler/ir/constant.h"
#include "compiler/plan/plan.h"

namespace llmc::exec {

/// Data for the inputs of a plain graph, the same in every call: floats in (-1, 1), integers and
/// bools 0 and `max_integer` (1, or 0 where 1 is an index outside its tensor).
std::vector<ir::ConstantPtr> made_up(const std::vector<plan::Port>& ports, int max_integer);

}  // namespace llmc::exec
