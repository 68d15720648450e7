#include <fmt/format.h>

#include "compiler/plan/lower.h"
#include "llmc/sizes.h"

/// Lowers layers whose weight depends on the expert of each row.
namespace llmc::plan {

void Lowerer::lower_experts(Scope& scope, const ir::Node& node, const ir::ExpertLinear& op) {
  const auto source = activation(scope, node, 0);
  const bool chosen = present(node, 2);
  const auto ids = chosen ? stored(scope, node.inputs[2]) : std::optional(BufferId{});
  if (!source || !ids) return input_is_no_activation(scope, node);
  const ir::TensorType* type = weight_type(scope, node, 1);
  const std::uint64_t rows = unsigned_of(type ? type->dims[0].constant().value_or(0) : 0);
  LinearStage stage;
  stage.source = *source;
  stage.ids = *ids;
  stage.experts = unsigned_of(op.experts);
  stage.k = unsigned_of(type ? type->dims[1].constant().value_or(0) : 0);
  stage.n = stage.experts == 0 ? 0 : rows / stage.experts;
  const std::uint64_t width = program_.buffers[source->index].width;
  stage.slots = stage.k == 0 ? 0 : width / stage.k;
  const bool ids_fit = chosen ? program_.buffers[ids->index].width == stage.slots &&
                                    program_.buffers[ids->index].element == ir::ElementType::kI64
                              : stage.slots == stage.experts;
  if (stage.n == 0 || stage.n % kPanelRows != 0 || stage.slots == 0 ||
      stage.slots * stage.k != width || !ids_fit || in_head(*source))
    return unsupported(node, fmt::format("{} experts of [{}, {}] do not fit rows of {}",
                                         stage.experts, stage.n, stage.k, width));
  const std::string label(ir::to_string(op.role));
  stage.weight = weight(scope, node, 1,
                        {.use = WeightUse::kMatrix,
                         .format = op.format,
                         .hadamard = op.hadamard,
                         .label = label,
                         .active_rows = stage.slots * stage.n});
  if (present(node, 3))
    stage.bias = weight(scope, node, 3,
                        {.use = WeightUse::kVector,
                         .pad_rows = true,
                         .label = label + "_bias",
                         .active_rows = stage.slots * stage.n});
  const auto out = output_buffer(scope, node, "y");
  if (!out) return;
  stage.out = *out;
  bind(scope, node.outputs[0], stage.out);
  emit(scope, node, stage,
       fmt::format("[tokens * {}, {}] x {} of {} experts [{}, {}]^T", stage.slots, stage.k,
                   stage.slots, stage.experts, stage.n, stage.k),
       false);
}

}  // namespace llmc::plan
