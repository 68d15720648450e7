#include <algorithm>

#include "compiler/plan/program.h"
#include "compiler/plan/shard.h"
#include "compiler/support/check.h"
#include "llmc/sizes.h"

/// Determines the buffers that each stage reads and writes.
namespace llmc::plan {
namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};

/// Buffers of a stage with a fixed number of operands; entries may be absent.
struct StageBuffers {
  std::vector<BufferId*> reads, writes;
};

StageBuffers operands(Stage& stage) {
  return std::visit(
      Overloaded{
          [](EmbeddingStage& s) { return StageBuffers{{&s.ids}, {&s.out}}; },
          [](LinearStage& s) { return StageBuffers{{&s.source, &s.ids, &s.residual}, {&s.out}}; },
          [](InputRowsStage& s) { return StageBuffers{{}, {&s.out}}; },
          [](QuantizeStage& s) { return StageBuffers{{&s.x}, {&s.out}}; },
          [](RopeAnglesStage& s) { return StageBuffers{{}, {&s.out}}; },
          [](QkvStage& s) { return StageBuffers{{&s.source, &s.angles.buffer}, {&s.q}}; },
          [](QkvFinishStage& s) {
            return StageBuffers{{&s.product, &s.projection.angles.buffer}, {&s.projection.q}};
          },
          [](AttentionStage& s) { return StageBuffers{{&s.q}, {&s.out}}; },
          [](CrossAttentionStage& s) { return StageBuffers{{&s.q}, {&s.out}}; },
          [](SourceStoreStage& s) { return StageBuffers{{&s.x}, {&s.out}}; },
          [](NormStage& s) { return StageBuffers{{&s.x, &s.residual}, {&s.out}}; },
          [](RopeStage& s) { return StageBuffers{{&s.x, &s.angles.buffer}, {&s.out}}; },
          [](KvStoreStage& s) { return StageBuffers{{&s.k, &s.v}, {}}; },
          [](GatedStage& s) { return StageBuffers{{&s.gate, &s.up}, {&s.out}}; },
          [](BinaryStage& s) { return StageBuffers{{&s.a, &s.b}, {&s.out}}; },
          [](UnaryStage& s) { return StageBuffers{{&s.x}, {&s.out}}; },
          [](CopyStage& s) { return StageBuffers{{&s.x}, {&s.out}}; },
          [](StateStoreStage& s) { return StageBuffers{{&s.next}, {&s.state}}; },
          [](MapStage&) { return StageBuffers{}; },
          [](CallStage&) { return StageBuffers{}; },
          [](LoopStage&) { return StageBuffers{}; },
      },
      stage.op);
}

}  // namespace

const PackedWeight& weight_of(const Program& program, WeightRef ref, const LoopStage* loop,
                              std::uint32_t iteration) {
  LLMC_CHECK(ref.exists() && (!ref.per_layer || loop != nullptr));
  return program.weights[ref.per_layer ? loop->fields[ref.index].weights[iteration] : ref.index];
}

void for_each_weight(Stage& stage, const std::function<void(WeightRef&)>& f) {
  const auto norm = [&](NormInput& input) {
    f(input.weight);
    f(input.bias);
  };
  const auto qkv = [&](QkvStage& s) {
    norm(s.norm);
    for (WeightRef* ref :
         {&s.weight, &s.bias, &s.value_weight, &s.q_norm, &s.k_norm, &s.angles.table})
      f(*ref);
  };
  std::visit(
      Overloaded{
          [&](EmbeddingStage& s) { f(s.table); },
          [&](LinearStage& s) {
            norm(s.norm);
            for (WeightRef* ref : {&s.weight, &s.bias, &s.more_rows}) f(*ref);
          },
          [&](QuantizeStage& s) { f(s.weight); }, [&](RopeAnglesStage& s) { f(s.frequencies); },
          [&](QkvStage& s) { qkv(s); }, [&](QkvFinishStage& s) { qkv(s.projection); },
          [&](AttentionStage& s) {
            f(s.bias);
            f(s.sinks);
          },
          [&](NormStage& s) { norm(s.norm); }, [&](RopeStage& s) { f(s.angles.table); },
          [&](BinaryStage& s) {
            f(s.row);
            f(s.number);
          },
          [](auto&) {},  // reads weights through buffers, or has none
      },
      stage.op);
}

void replace_buffers(Stage& stage, const BufferMap& read, const BufferMap& written) {
  if (auto* map = std::get_if<MapStage>(&stage.op)) {
    map->value = *map_views(map->value, [&](const View& view) {
      View moved = view;
      if (view.buffer != View::kNoBuffer) moved.buffer = read(BufferId{view.buffer}).index;
      return std::optional(moved);
    });
    map->target.buffer = written(BufferId{map->target.buffer}).index;
    return;
  }
  if (auto* call = std::get_if<CallStage>(&stage.op)) {
    for (const bool writes : {false, true})
      for (BufferArgument& argument : call->buffers)
        if (argument.written == writes)
          argument.buffer = (writes ? written : read)(BufferId{argument.buffer}).index;
    return;
  }
  const StageBuffers used = operands(stage);
  for (BufferId* id : used.reads) *id = read(*id);
  for (BufferId* id : used.writes) *id = written(*id);
}

Access access(const Stage& stage) {
  Access result;
  if (std::holds_alternative<LoopStage>(stage.op)) return result;  // does not descend into the body
  if (const auto* map = std::get_if<MapStage>(&stage.op)) {
    for (const Expression* e : nodes_of(map->value))
      if (e->kind == Expression::Kind::kLoad) result.reads.push_back({e->view.buffer});
    result.writes.push_back({map->target.buffer});
    return result;
  }
  if (const auto* call = std::get_if<CallStage>(&stage.op)) {
    for (const BufferArgument& argument : call->buffers)
      (argument.written ? result.writes : result.reads).push_back({argument.buffer});
    return result;
  }
  Stage copy = stage;
  const StageBuffers used = operands(copy);
  for (const BufferId* id : used.reads) result.reads.push_back(*id);
  for (const BufferId* id : used.writes) result.writes.push_back(*id);
  // kAddTo also reads `out`. operands() lists it only as a written buffer, so that
  // replace_buffers() replaces it once.
  if (const auto* linear = std::get_if<LinearStage>(&stage.op);
      linear != nullptr && linear->epilogue == LinearStage::Epilogue::kAddTo)
    result.reads.push_back(linear->out);
  return result;
}

Size rows_of(const Program& program, const LinearStage& stage) {
  if (stage.windows) return product(stage.windows->first.dims);
  const auto rows =
      quotient(program.buffers[stage.source.index].size, static_cast<std::int64_t>(stage.k));
  LLMC_CHECK(rows.has_value());
  return *rows;
}

bool has_nests(const std::vector<Stage>& stages) {
  return std::ranges::any_of(stages, [](const Stage& stage) {
    const auto* loop = std::get_if<LoopStage>(&stage.op);
    return loop ? has_nests(loop->body)
                : std::holds_alternative<MapStage>(stage.op) ||
                      std::holds_alternative<CallStage>(stage.op);
  });
}

std::vector<std::int64_t> Port::dims_at(const std::map<std::string, std::int64_t>& sizes) const {
  std::vector<std::int64_t> result;
  for (const Size& size : dims) result.push_back(size.at(sizes));
  return result;
}

std::uint64_t Port::bytes(const std::map<std::string, std::int64_t>& sizes) const {
  return static_cast<std::uint64_t>(product(dims).at(sizes)) * ir::element_bytes(element);
}

std::uint64_t Program::state_bytes() const {
  std::uint64_t bytes = 0;
  for (const RecurrentState& state : states)
    bytes = round_up(state.offset + state.width * sizeof(float), kAlignment);
  return bytes;
}

std::uint64_t Port::bytes() const {
  return static_cast<std::uint64_t>(product(dims).bound()) * ir::element_bytes(element);
}

}  // namespace llmc::plan
