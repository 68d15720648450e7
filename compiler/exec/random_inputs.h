#pragma once

#include <vector>

#include "compiler/exec/function_library.h"
#include "compiler/ir/constant.h"
#include "compiler/support/result.h"

namespace llmc::exec {

/// Returns a tensor of pseudorandom elements, the same in every call. Floats are in [-1, 1);
/// integers and bools are 0 or `max_integer`.
ir::ConstantPtr random_tensor(ir::ElementType element, std::vector<std::int64_t> dims,
                              int max_integer);

/// The inputs and outputs of one run with pseudorandom inputs (random_tensor) on one thread. Open
/// dims have their maximum sizes.
struct RandomRun {
  int max_integer = 1;  // 1, or 0 if 1 is an index out of range
  std::vector<ir::ConstantPtr> inputs, outputs;
};
/// Runs job `index` of the library on pseudorandom inputs. Fails like FunctionLibrary::run().
Result<RandomRun> run_with_random_inputs(const FunctionLibrary& library, std::size_t index);

}  // namespace llmc::exec
