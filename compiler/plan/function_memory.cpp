#include <algorithm>
#include <tuple>

#include "compiler/plan/function.h"
#include "compiler/support/check.h"

/// Where the buffers of an emitted function lie.
namespace llmc::plan {
namespace {

constexpr std::uint64_t kAlignmentBytes = 64;  // LLMC_ALIGNMENT: a cache line, and any vector

std::uint64_t aligned(std::uint64_t bytes) {
  return (bytes + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes;
}

template <class F>
void for_each_buffer(const FunctionStage& stage, F&& f) {
  if (const auto* map = std::get_if<MapStage>(&stage.work)) {
    f(map->target.buffer);
    for (const Expression* e : nodes_of(map->value))
      if (e->kind == Expression::Kind::kLoad) f(e->view.buffer);
  } else {
    for (const BufferArgument& argument : std::get<KernelStage>(stage.work).buffers)
      f(argument.buffer);
  }
}

}  // namespace

std::uint64_t place_arena(FunctionProgram& program) {
  for (std::uint32_t i = 0; i < program.stages.size(); ++i) {
    for_each_buffer(program.stages[i], [&](std::uint32_t index) {
      FunctionBuffer& buffer = program.buffers[index];
      buffer.first_stage = std::min(buffer.first_stage, i);
      buffer.last_stage = std::max(buffer.last_stage, i);
    });
  }
  std::vector<FunctionBuffer*> largest_first;
  for (FunctionBuffer& buffer : program.buffers)
    if (buffer.place == Place::kArena && buffer.first_stage <= buffer.last_stage)
      largest_first.push_back(&buffer);
  std::ranges::sort(largest_first, [](const FunctionBuffer* a, const FunctionBuffer* b) {
    return std::tuple(b->bytes(), a->first_stage, a) < std::tuple(a->bytes(), b->first_stage, b);
  });

  // Each goes to the lowest gap among those placed already that are alive when it is.
  std::uint64_t total = 0;
  std::vector<const FunctionBuffer*> placed;  // by offset
  for (FunctionBuffer* buffer : largest_first) {
    const std::uint64_t size = aligned(buffer->bytes());
    std::uint64_t at = 0;
    for (const FunctionBuffer* other : placed) {
      if (at + size <= other->offset) break;
      if (other->first_stage > buffer->last_stage || buffer->first_stage > other->last_stage)
        continue;
      at = std::max(at, other->offset + aligned(other->bytes()));
    }
    buffer->offset = at;
    total = std::max(total, at + size);
    placed.insert(std::ranges::upper_bound(placed, at, {}, &FunctionBuffer::offset), buffer);
  }
  return total;
}

std::uint64_t place_weights(FunctionProgram& program) {
  std::uint64_t total = 0;
  for (FunctionBuffer& buffer : program.buffers) {
    if (buffer.place != Place::kWeights) continue;
    buffer.offset = total;
    total += aligned(buffer.bytes());
  }
  return total;
}

}  // namespace llmc::plan
