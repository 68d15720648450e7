#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "compiler/ir/constant.h"
#include "compiler/plan/program.h"
#include "compiler/support/result.h"

/// Determines the sizes of a plain graph's open dims for one call.
namespace llmc::exec {

/// Returns the size of each open dim by name, taken from the shapes of `inputs`. There must be one
/// input for each input of the program (LLMC_CHECK). Fails with kBadInput if the type of an input
/// differs from the program's or a size is outside its range. Fails with kUnsupported if an open
/// dim occurs only inside sums or products, so that no input gives its size.
Result<std::map<std::string, std::int64_t>> dim_sizes(const plan::Program& program,
                                                      std::span<const ir::ConstantPtr> inputs);

/// Returns `sizes` in the order of the program's open dims.
std::vector<std::int64_t> sizes_in_order(const plan::Program& program,
                                         const std::map<std::string, std::int64_t>& sizes);

}  // namespace llmc::exec
