#include "compiler/emit/offsets.h"

#include <fmt/format.h>

#include <set>

#include "compiler/emit/commented_lines.h"
#include "compiler/emit/names.h"
#include "compiler/emit/stage_calls.h"

namespace llmc::emit {
namespace {

/// Returns the comment of a weight: its format and shape, and its name in the model.
std::string weight_comment(const plan::PackedWeight& weight) {
  const bool packed =
      weight.use == plan::WeightUse::kMatrix || weight.use == plan::WeightUse::kTable;
  if (!packed && !weight.comment.empty()) return comment_text(weight.comment);
  return fmt::format("{}[{}{}]  {}", weight.format_name(), weight.rows,
                     weight.columns == 1 && !packed ? "" : fmt::format(", {}", weight.columns),
                     comment_text(weight.name, 80));
}

std::string buffer_comment(const plan::Program& program, const plan::Buffer& buffer) {
  if (program.is_plain()) return comment_text(buffer.comment);
  return fmt::format("{}[{}, {}]", ir::to_string(buffer.element),
                     buffer.one_row ? "kBatch" : "kChunk", buffer.width);
}

}  // namespace

std::string weight_offsets(const plan::Program& program) {
  std::set<std::uint32_t> in_loops;
  for (const plan::Stage& stage : program.forward) {
    if (const auto* loop = std::get_if<plan::LoopStage>(&stage.op)) {
      for (const auto& field : loop->fields)
        in_loops.insert(field.weights.begin(), field.weights.end());
    }
  }
  CommentedLines lines;
  for (std::uint32_t i = 0; i < program.weights.size(); ++i) {
    const plan::PackedWeight& weight = program.weights[i];
    if (!in_loops.contains(i))
      lines.add_offset(weight.label, weight.offset, weight_comment(weight));
  }
  if (program.weights.empty()) return {};
  return "\n// Where each weight starts, in bytes: format[rows, columns]  name in the model.\n" +
         lines.text();
}

std::string loop_weights(const plan::Program& program, const plan::LoopStage& loop) {
  const std::string type = type_name(loop.function + "_weights");
  std::string text = fmt::format("\nstruct {} {{\n", type);
  CommentedLines lines;
  for (const auto& field : loop.fields) {
    const plan::PackedWeight& first = program.weights[field.weights.front()];
    lines.add(fmt::format("  uint64_t {};", field.name), weight_comment(first));
  }
  text += lines.text();
  text += fmt::format("}};\nconstexpr {} k{}[{}] = {{\n", type, type, iterations(program, loop));
  for (std::uint32_t i = 0; i < loop.count; ++i) {
    std::string row;
    for (const auto& field : loop.fields) {
      row += fmt::format("{}{}", row.empty() ? "" : ", ", program.weights[field.weights[i]].offset);
    }
    text += fmt::format("    {{{}}},\n", row);
  }
  return text + "};\n";
}

std::string buffer_offsets(const plan::Plan& plan) {
  const plan::Program& program = plan.program;
  CommentedLines lines;
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    const plan::Buffer& buffer = program.buffers[i];
    const plan::BufferPlace& place = plan.memory.buffers[i];
    const bool empty = buffer.place == plan::Place::kArena && buffer.width == 0;
    if (place.bytes != 0 || empty)
      lines.add_offset(buffer.name, place.offset, buffer_comment(program, buffer));
  }
  lines.add_offset("work", plan.memory.work_offset,
                   fmt::format("{} bytes that all kernels share", plan.memory.work_bytes));
  return "\n// Where each activation lies, in bytes. Those with disjoint lifetimes share "
         "memory.\n" +
         lines.text();
}

}  // namespace llmc::emit
