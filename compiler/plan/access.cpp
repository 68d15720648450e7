#include "compiler/plan/program.h"

/// What each stage reads and writes.
namespace llmc::plan {
namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};

}  // namespace

StageBuffers buffers_of(Stage& stage) {
  return std::visit(
      Overloaded{
          [](EmbeddingStage& s) { return StageBuffers{{}, {&s.out}}; },
          [](LinearStage& s) { return StageBuffers{{&s.source, &s.residual}, {&s.out}}; },
          [](RopeAnglesStage& s) { return StageBuffers{{}, {&s.out}}; },
          [](QkvStage& s) { return StageBuffers{{&s.source, &s.angles.buffer}, {&s.q}}; },
          [](AttentionStage& s) { return StageBuffers{{&s.q}, {&s.out}}; },
          [](NormStage& s) { return StageBuffers{{&s.x, &s.residual}, {&s.out}}; },
          [](RopeStage& s) { return StageBuffers{{&s.x, &s.angles.buffer}, {&s.out}}; },
          [](KvStoreStage& s) { return StageBuffers{{&s.k, &s.v}, {}}; },
          [](GatedStage& s) { return StageBuffers{{&s.gate, &s.up}, {&s.out}}; },
          [](BinaryStage& s) { return StageBuffers{{&s.a, &s.b}, {&s.out}}; },
          [](UnaryStage& s) { return StageBuffers{{&s.x}, {&s.out}}; },
          [](CopyStage& s) { return StageBuffers{{&s.x}, {&s.out}}; },
          [](LoopStage&) { return StageBuffers{}; },
      },
      stage.op);
}

Access access(const Stage& stage) {
  if (std::holds_alternative<LoopStage>(stage.op)) return {};  // its body is large: not copied
  Stage copy = stage;
  const StageBuffers buffers = buffers_of(copy);
  Access result;
  for (const BufferId* id : buffers.reads) result.reads.push_back(*id);
  for (const BufferId* id : buffers.writes) result.writes.push_back(*id);
  return result;
}

}  // namespace llmc::plan
