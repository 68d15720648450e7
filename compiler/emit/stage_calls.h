#pragma once

#include <span>
#include <string>
#include <vector>

#include "compiler/emit/loop_nests.h"
#include "compiler/emit/row_widths.h"
#include "compiler/plan/plan.h"

namespace llmc::emit {

/// The emitted function that contains a stage: `forward`, `head` or the body of a loop.
struct FunctionContext {
  const plan::Plan& plan;
  const plan::LoopStage* loop;  // the loop whose body this is, or nullptr
  LoopNests& nests;             // receives the loop nests of the stages
  RowWidths widths{plan.program};
};

/// Returns the kernel call of a stage, or the loop over layers. A comment with `tag`, the shapes
/// and the stage's origin in the model precedes the call. The text is indented by two spaces and
/// ends in a newline.
std::string stage_call(const FunctionContext& context, const plan::Stage& stage,
                       std::string_view tag = {});

/// Returns the number of iterations of a loop over layers as an expression: "kLayers" or
/// "kLayers / 2" if the loop includes all layers, otherwise a number.
std::string iterations(const plan::Program& program, const plan::LoopStage& loop);

/// Returns the cache layer of iteration `i` of such a loop as an expression: "i", "4 + 2 * i".
std::string layer_index(const plan::LoopStage& loop);

/// Returns a loop over the rows of each segment, in order, that runs all stages of a recurrence for
/// a row before the next row.
std::string recurrence_call(const FunctionContext& context, std::span<const plan::Stage> stages,
                            std::string_view tag);

/// Returns a declaration such as `float* x = activation(context, kX);` for each buffer in scratch
/// memory that the stages use, in order of first use. Excludes the rows and the logits that the
/// caller of `head` passes.
std::string local_buffers(const FunctionContext& context, const std::vector<plan::Stage>& stages);

}  // namespace llmc::emit
