#include "compiler/emit/operands.h"

#include <fmt/format.h>

#include "compiler/emit/names.h"
#include "compiler/support/check.h"

namespace llmc::emit {

std::string Operands::row_count(const plan::Size& rows) const {
  return rows.is_constant() ? dims().text(rows)
                            : fmt::format("static_cast<uint32_t>({})", dims().text(rows));
}

std::string Operands::buffer(BufferId id) const {
  LLMC_CHECK(id.exists());
  return plain_ ? pointer({.buffer = id.index}) : program_.buffers[id.index].name;
}

std::string Operands::pointer(const plan::BufferArgument& argument) const {
  const plan::Buffer& b = program_.buffers[argument.buffer];
  const std::string_view type = stored_type(b.element);
  std::string text;
  switch (b.place) {
    case plan::Place::kInput:
      text = fmt::format("m.input<{}>({})", type, b.slot);
      break;
    case plan::Place::kOutput:
      text = fmt::format("m.output<{}>({})", type, b.slot);
      break;
    case plan::Place::kWeight:
      text = fmt::format("m.weight<{}>({})", type, offset(b.weight));
      break;
    case plan::Place::kArena:
      text = fmt::format("m.at<{}>({})", type, constant_name(b.name));
      break;
    case plan::Place::kTokens:
    case plan::Place::kPositions:
    case plan::Place::kLastPositions:
    case plan::Place::kState:
      LLMC_CHECK(false);  // in decoders only
  }
  return argument.offset == 0 ? text : fmt::format("{} + {}", text, dims().text(argument.offset));
}

const plan::PackedWeight& Operands::weight(WeightRef ref) const {
  return plan::weight_of(program_, ref, context_.loop);
}

std::string Operands::offset(WeightRef ref) const {
  if (ref.per_layer) return "w." + context_.loop->fields[ref.index].name;
  return constant_name(program_.weights[ref.index].label);
}

std::string Operands::packed(WeightRef ref) const {
  return (plain_ ? "m.weight<uint8_t>(" : "packed(context, ") + offset(ref) + ")";
}

std::string Operands::vector(WeightRef ref) const {
  if (!ref.exists()) return "nullptr";
  return (plain_ ? "m.weight<float>(" : "values(context, ") + offset(ref) + ")";
}

std::string Operands::layer(std::uint32_t number) const {
  if (!context_.loop) return fmt::format("{}", number);
  return number == 0 ? "layer_index" : fmt::format("layer_index + {}", number);
}

std::string Operands::angles(const plan::Angles& a) const {
  return a.buffer.exists() ? buffer(a.buffer) : vector(a.table);
}

std::string Operands::rotary_dim(std::uint64_t dim) const {
  return dim == program_.attention.head_dim ? "kHeadDim" : std::to_string(dim);
}

std::string Operands::rotation(const plan::Angles& a) const {
  // Rows of a table of the model are looked up by token position.
  const bool by_position = a.table.exists() && !a.buffer.exists();
  return fmt::format("Rotation{{.dims = {}{}{}}}", rotary_dim(a.rotary_dim),
                     a.interleaved ? ", .interleaved = true" : "",
                     by_position ? ", .by_position = true" : "");
}

std::string Operands::width(BufferId id, std::uint64_t elements) const {
  return context_.widths(id, elements);
}

}  // namespace llmc::emit
