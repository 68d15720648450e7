#include <fmt/format.h>

#include <algorithm>

#include "compiler/emit/names.h"
#include "compiler/emit/stage_calls.h"

namespace llmc::emit {

std::string iterations(const plan::Program& program, const plan::LoopStage& loop) {
  if (std::uint64_t{loop.count} * loop.layers_per_pass != program.layers)
    return fmt::format("{}", loop.count);
  return loop.layers_per_pass == 1 ? "kLayers" : fmt::format("kLayers / {}", loop.layers_per_pass);
}

std::string local_buffers(const FunctionContext& context, const std::vector<plan::Stage>& stages) {
  const plan::Program& program = context.plan.program;
  std::vector<plan::BufferId> seen;
  std::string text;
  const auto use = [&](plan::BufferId id) {
    if (!id.exists() || std::ranges::count(seen, id) != 0) return;
    if (program.buffers[id.index].place != plan::Place::kArena) return;
    seen.push_back(id);
    const std::string& name = program.buffers[id.index].name;
    if (id == program.logits || id == program.row) return;  // provided by the caller of the head
    const ir::ElementType element = program.buffers[id.index].element;
    if (element == ir::ElementType::kF32) {
      text += fmt::format("  float* {} = activation(context, {});\n", name, constant_name(name));
    } else {
      const std::string type = std::string(stored_type(element));
      text += fmt::format("  {0}* {1} = scratch<{0}>(context, {2});\n", type, name,
                          constant_name(name));
    }
  };
  for (const plan::Stage& stage : stages) {
    const plan::Access access = plan::access(stage);
    std::ranges::for_each(access.reads, use);
    std::ranges::for_each(access.writes, use);
    for (const plan::BufferId id : access.reads)
      if (id.exists() && program.buffers[id.index].place == plan::Place::kState)
        use(program.states[program.buffers[id.index].slot].next);
  }
  return text;
}

std::string layer_index(const plan::LoopStage& loop) {
  const std::string index =
      loop.layers_per_pass == 1 ? "i" : fmt::format("{} * i", loop.layers_per_pass);
  return loop.first_layer == 0 ? index : fmt::format("{} + {}", loop.first_layer, index);
}

}  // namespace llmc::emit
