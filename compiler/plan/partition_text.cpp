#include <fmt/format.h>
#include <fmt/ranges.h>

#include "compiler/ir/quote.h"
#include "compiler/plan/partition.h"
#include "compiler/target/device.h"

namespace llmc::plan {
namespace {

/// Returns the name of a stage's operation.
struct StageName {
  const char* operator()(const EmbeddingStage&) const { return "embedding"; }
  const char* operator()(const InputRowsStage&) const { return "input rows"; }
  const char* operator()(const QuantizeStage&) const { return "quantize"; }
  const char* operator()(const LinearStage&) const { return "linear"; }
  const char* operator()(const RopeAnglesStage&) const { return "angles of the rotation"; }
  const char* operator()(const QkvStage&) const { return "q, k and v"; }
  const char* operator()(const QkvFinishStage&) const { return "q, k and v of a product"; }
  const char* operator()(const AttentionStage&) const { return "attention"; }
  const char* operator()(const CrossAttentionStage&) const { return "cross-attention"; }
  const char* operator()(const SourceStoreStage&) const { return "store a source"; }
  const char* operator()(const NormStage&) const { return "norm"; }
  const char* operator()(const RopeStage&) const { return "rotation"; }
  const char* operator()(const KvStoreStage&) const { return "store keys and values"; }
  const char* operator()(const GatedStage&) const { return "gated activation"; }
  const char* operator()(const BinaryStage&) const { return "function of two operands"; }
  const char* operator()(const UnaryStage&) const { return "function"; }
  const char* operator()(const CopyStage&) const { return "copy"; }
  const char* operator()(const MapStage&) const { return "loop nest"; }
  const char* operator()(const CallStage& s) const { return s.kernel.data(); }
  const char* operator()(const StateStoreStage&) const { return "store a state"; }
  const char* operator()(const LoopStage&) const { return "loop"; }
};

class Text {
 public:
  Text(const Program& program, const Partition& partition, std::uint32_t chunk)
      : program_(program), partition_(partition), chunk_(chunk) {}

  std::string list(const std::vector<Stage>& stages, const std::string& indent) {
    std::string text;
    for (const Segment& segment : segments_of(stages)) {
      if (const auto* loop = std::get_if<LoopStage>(&stages[segment.begin].op)) {
        text += fmt::format("{}{}, {} times {{\n", indent, loop->function, loop->count);
        text += list(loop->body, indent + "  ") + indent + "}\n";
        continue;
      }
      text += indent + head(segment.region) + "\n";
      for (std::size_t i = segment.begin; i < segment.end; ++i) text += line(stages[i], indent);
    }
    return text;
  }

 private:
  std::string head(std::uint32_t region) const {
    if (region == 0) return "cpu:";
    const Region& r = partition_.regions[region - 1];
    return fmt::format("region {} of {}: ({}) -> ({})", region, partition_.device->name,
                       shapes(r.inputs), shapes(r.outputs));
  }
  std::string shapes(const std::vector<BufferId>& ids) const {
    std::string text;
    for (const BufferId id : ids)
      text +=
          fmt::format("{}{} {}[{}, {}]", text.empty() ? "" : ", ", program_.buffers[id.index].name,
                      ir::to_string(program_.buffers[id.index].element), chunk_,
                      program_.buffers[id.index].width);
    return text;
  }
  static std::string line(const Stage& stage, const std::string& indent) {
    std::string text = fmt::format("{}  {}", indent, std::visit(StageName{}, stage.op));
    if (!stage.comment.empty()) text += ": " + stage.comment;
    for (const std::string& name : {stage.origin.file, stage.origin.node})
      if (!name.empty()) text += " @" + ir::quoted(name);
    return text + "\n";
  }

  const Program& program_;
  const Partition& partition_;
  const std::uint32_t chunk_;
};

}  // namespace

std::string to_text(const Program& program, const Partition& partition, std::uint32_t chunk) {
  return Text(program, partition, chunk).list(program.forward, "");
}

}  // namespace llmc::plan
