#pragma once

#include <string>
#include <vector>

#include "compiler/emit/loop_nests.h"
#include "compiler/emit/row_widths.h"
#include "compiler/plan/plan.h"

namespace llmc::emit {

/// One function of the emitted model: `forward`, `head`, or the body of a loop.
struct FunctionContext {
  const plan::Plan& plan;
  const plan::LoopStage* loop;  // whose body this is, or nullptr
  LoopNests& nests;             // receives the loop nests that are called
  RowWidths widths{plan.program};
};

/// The kernel call of a stage (or the loop over layers), preceded by a comment with `tag`, shapes
/// and where the model has it; indented by two spaces, ending in a newline.
std::string stage_call(const FunctionContext& context, const plan::Stage& stage,
                       std::string_view tag = {});

/// The number of iterations of a loop over layers: "kLayers" where it takes all of them.
std::string iterations(const plan::Program& program, const plan::LoopStage& loop);

/// `float* x = activation(stage, kX);` for each buffer the stages use, in order of first use.
std::string local_buffers(const FunctionContext& context, const std::vector<plan::Stage>& stages);

}  // namespace llmc::emit
