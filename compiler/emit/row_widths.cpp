#include "compiler/emit/row_widths.h"

#include <set>
#include <variant>
#include <vector>

namespace llmc::emit {
namespace {

/// Returns whether all rows that the stage reads and writes have the same width.
bool is_elementwise(const plan::Stage& stage) {
  const auto* norm = std::get_if<plan::NormStage>(&stage.op);
  return (norm != nullptr && norm->parts == 1) ||
         std::holds_alternative<plan::BinaryStage>(stage.op) ||
         std::holds_alternative<plan::UnaryStage>(stage.op) ||
         std::holds_alternative<plan::CopyStage>(stage.op);
}

/// Returns the width of the activation of a feed-forward block that the stage computes; 0: none.
std::uint64_t ffn_width(const plan::Stage& stage) {
  using Epilogue = plan::LinearStage::Epilogue;
  const auto is_gate = [](ir::ActivationFn fn) { return fn == ir::ActivationFn::kSigmoid; };
  if (const auto* s = std::get_if<plan::GatedStage>(&stage.op))
    return is_gate(s->function) ? 0 : s->width;
  const auto* s = std::get_if<plan::LinearStage>(&stage.op);
  if (s == nullptr || s->experts != 0) return 0;
  if (s->epilogue == Epilogue::kGated) return s->n / 2;
  const bool activated = s->function != ir::ActivationFn::kNone && !is_gate(s->function);
  return activated && s->epilogue == Epilogue::kStore ? s->n : 0;
}

void add_ffn_widths(const std::vector<plan::Stage>& stages, std::set<std::uint64_t>& widths) {
  for (const plan::Stage& stage : stages) {
    if (const auto* loop = std::get_if<plan::LoopStage>(&stage.op))
      add_ffn_widths(loop->body, widths);
    if (const std::uint64_t width = ffn_width(stage); width != 0) widths.insert(width);
  }
}

}  // namespace

RowWidths::RowWidths(const plan::Program& program) {
  if (program.is_plain()) return;
  hidden_ = {"kHidden", program.hidden_width};
  heads_ = {"kHeads * kHeadDim", program.attention.heads * program.attention.head_dim};
  names_ = {{program.hidden, hidden_},
            {program.row, hidden_},
            {program.logits, Name{"kVocab", program.vocabulary}}};
  std::set<std::uint64_t> ffn_widths;
  add_ffn_widths(program.forward, ffn_widths);
  if (ffn_widths.size() == 1) ffn_ = {"kFfn", *ffn_widths.begin()};
  for (std::size_t known = 0; known != names_.size();) {
    known = names_.size();
    add(program.forward);
    add(program.head);
  }
}

void RowWidths::add(const std::vector<plan::Stage>& stages) {
  for (const plan::Stage& stage : stages) {
    if (const auto* loop = std::get_if<plan::LoopStage>(&stage.op)) add(loop->body);
    if (const auto* s = std::get_if<plan::QkvStage>(&stage.op)) names_.emplace(s->q, heads_);
    if (const auto* s = std::get_if<plan::QkvFinishStage>(&stage.op))
      names_.emplace(s->projection.q, heads_);
    if (const auto* s = std::get_if<plan::AttentionStage>(&stage.op))
      names_.emplace(s->out, heads_);
    if (ffn_.width != 0 && ffn_width(stage) == ffn_.width) {
      if (const auto* s = std::get_if<plan::LinearStage>(&stage.op)) names_.emplace(s->out, ffn_);
      if (const auto* s = std::get_if<plan::GatedStage>(&stage.op))
        for (const plan::BufferId id : {s->gate, s->up, s->out}) names_.emplace(id, ffn_);
    }
    if (const auto* s = std::get_if<plan::QuantizeStage>(&stage.op))
      if (const auto found = names_.find(s->x); found != names_.end())
        names_.emplace(s->out, found->second);
    if (!is_elementwise(stage)) continue;
    const plan::Access access = plan::access(stage);
    std::vector<plan::BufferId> buffers = access.reads;
    buffers.insert(buffers.end(), access.writes.begin(), access.writes.end());
    for (const plan::BufferId named : buffers) {
      const auto found = names_.find(named);
      if (found == names_.end()) continue;
      for (const plan::BufferId buffer : buffers) names_.emplace(buffer, found->second);
      break;
    }
  }
}

std::string RowWidths::operator()(plan::BufferId buffer, std::uint64_t width) const {
  const auto found = names_.find(buffer);
  const bool named = found != names_.end() && found->second.width == width;
  return named ? found->second.text : std::to_string(width);
}

}  // namespace llmc::emit
