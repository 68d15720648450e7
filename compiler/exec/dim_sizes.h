#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "compiler/ir/constant.h"
#include "compiler/plan/program.h"
#include "compiler/support/result.h"

/// Sizes of a plain graph's open dims for one call.
namespace llmc::exec {

/// The sizes that `inputs` give the open dims, by name. kBadInput if the inputs have other types
/// than the program's, or a size is out of its range; kUnsupported if an open dim is nowhere a dim
/// of its own.
Result<std::map<std::string, std::int64_t>> dim_sizes(const plan::Program& program,
                                                      std::span<const ir::ConstantPtr> inputs);

/// The same in the order of the program's open dims.
std::vector<std::int64_t> sizes_in_order(const plan::Program& program,
                                         const std::map<std::string, std::int64_t>& sizes);

}  // namespace llmc::exec
