#pragma once

#include "compiler/emit/weights.h"
#include "compiler/plan/function.h"

namespace llmc::emit {

/// Writes the constants of a function in the order of the plan, exactly plan.weights_bytes bytes.
/// One constant is in memory at a time, of matrices a few columns.
Status write_function_weights(const plan::FunctionPlan& plan, const WeightSink& sink,
                              const WeightProgress& progress = {});

}  // namespace llmc::emit
