#include "compiler/plan/memory.h"

#include <algorithm>
#include <map>

#include "compiler/support/checked_math.h"
#include "llmc/sizes.h"

namespace llmc::plan {
namespace {

/// Numbers every stage of the flattened program and records the first and last use of each buffer.
class Liveness {
 public:
  Liveness(const Program& program, std::vector<BufferPlace>& places)
      : places_(places), used_(program.buffers.size(), false) {
    for (const RecurrentState& state : program.states) next_[state.before] = state.next;
    for (const Stage& stage : program.forward) visit(stage);
    // The head may run in any order after the forward pass, so its input is live until the end.
    for (const Stage& stage : program.head) visit(stage);
    touch(program.hidden, step_);
  }
  bool used(std::size_t buffer) const { return used_[buffer]; }

 private:
  void touch(BufferId id, std::uint32_t step) {
    if (!id.exists()) return;
    // The state before a row's token is the state after the token of the previous row.
    if (const auto next = next_.find(id); next != next_.end()) touch(next->second, step);
    BufferPlace& place = places_[id.index];
    if (!used_[id.index]) {
      place.first = place.last = step;
      used_[id.index] = true;
    }
    place.first = std::min(place.first, step);
    place.last = std::max(place.last, step);
  }
  void visit(const Stage& stage) {
    const auto* loop = std::get_if<LoopStage>(&stage.op);
    if (!loop) {
      // The stages of a recurrence alternate row by row, so they count as one step.
      if (stage.recurrence != 0 && stage.recurrence == recurrence_) --step_;
      recurrence_ = stage.recurrence;
      const Access a = access(stage);
      for (const BufferId id : a.reads) touch(id, step_);
      for (const BufferId id : a.writes) touch(id, step_);
      ++step_;
      return;
    }
    // A buffer that exists before the body, or that the body reads before it writes, has the same
    // storage in every iteration. It is live from the first to the last step of the loop.
    const std::uint32_t begin = step_;
    const std::vector<bool> before = used_;
    std::vector<BufferId> spanning;
    std::vector<bool> written(used_.size(), false);
    for (const Stage& inner : loop->body) {
      const Access a = access(inner);
      for (const BufferId id : a.reads) {
        if (id.exists() && (before[id.index] || !written[id.index])) spanning.push_back(id);
      }
      for (const BufferId id : a.writes) {
        if (!id.exists()) continue;
        if (before[id.index]) spanning.push_back(id);
        written[id.index] = true;
      }
      visit(inner);
    }
    for (const BufferId id : spanning) {
      touch(id, begin);
      touch(id, step_ - 1);
    }
  }

  std::vector<BufferPlace>& places_;
  std::vector<bool> used_;
  std::map<BufferId, BufferId> next_;  // RecurrentState::next by RecurrentState::before
  std::uint32_t step_ = 0, recurrence_ = 0;
};

std::uint64_t stage_work(const Program& program, const Stage& stage, const MemoryOptions& o,
                         bool head, const LoopStage* of_loop) {
  const std::size_t tokens = head ? o.batch : o.chunk;
  if (const auto* loop = std::get_if<LoopStage>(&stage.op)) {
    std::uint64_t work = 0;
    for (const Stage& inner : loop->body) {
      work = std::max(work, stage_work(program, inner, o, head, loop));
    }
    return work;
  }
  if (const auto* s = std::get_if<LinearStage>(&stage.op)) {
    if (s->experts != 0)
      return expert_work_bytes(weight_of(program, s->weight, of_loop).matrix, s->k, s->slots,
                               s->experts, tokens, o.threads_max);
    const WeightKind kind = weight_of(program, s->weight, of_loop).matrix;
    const std::size_t unit = s->epilogue == LinearStage::Epilogue::kGated ? gated_unit_panels() : 1;
    if (!program.is_plain()) return linear_work_bytes(kind, s->k, unit, tokens, o.threads_max);
    const bool prepared = is_quantized(kind) || s->norm.exists() || s->windows;
    return linear_rows_work_bytes(kind, s->k, unit,
                                  static_cast<std::size_t>(rows_of(program, *s).bound()),
                                  o.threads_max, prepared, s->windows.has_value());
  }
  if (const auto* s = std::get_if<QkvStage>(&stage.op)) {
    return linear_work_bytes(weight_of(program, s->weight, of_loop).matrix, s->k,
                             qkv_unit_panels(s->shape.head_dim), tokens, o.threads_max);
  }
  if (const auto* s = std::get_if<AttentionStage>(&stage.op)) {
    return attention_work_bytes(s->shape.heads, s->shape.kv_heads, s->shape.head_dim, o.ctx, tokens,
                                o.threads_max, o.kv);
  }
  if (const auto* s = std::get_if<CrossAttentionStage>(&stage.op)) {
    return attention_work_bytes(s->shape.heads, s->shape.kv_heads, s->shape.head_dim, o.source_rows,
                                tokens, o.threads_max, o.kv);
  }
  return 0;
}

Diagnostic too_large(const Program& program) {
  return Diagnostic{
      .kind = ErrorKind::kBadInput,
      .message = "the activations do not fit an address space",
      .hint = program.is_plain() ? "give smaller sizes with --dim" : "use a smaller --chunk"};
}

}  // namespace

Result<MemoryPlan> plan_memory(const Program& program, const MemoryOptions& options) {
  MemoryPlan plan;
  plan.buffers.resize(program.buffers.size());
  const Liveness liveness(program, plan.buffers);

  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < program.buffers.size(); ++i) {
    const BufferId id{i};
    if (!liveness.used(i) || id == program.logits || id == program.row) continue;
    const Buffer& buffer = program.buffers[i];
    if (buffer.place != Place::kArena) continue;
    const std::uint64_t rows = buffer.one_row ? options.batch : options.chunk;
    const auto count = checked_mul(rows, buffer.width);
    const auto bytes = count ? checked_mul<std::uint64_t>(*count, ir::element_bytes(buffer.element))
                             : std::nullopt;
    const auto rounded = bytes ? checked_round_up<std::uint64_t>(*bytes, kAlignment) : std::nullopt;
    if (!rounded || *rounded > (std::uint64_t{1} << 48)) return too_large(program);
    plan.buffers[i].bytes = *rounded;
    order.push_back(i);
  }

  // Greedy by size, each buffer at the lowest offset that is free during its live range: large
  // buffers determine the layout, small ones fill the gaps (Pisarchyk and Lee 2020, "greedy by
  // size").
  std::ranges::sort(order, [&](std::uint32_t a, std::uint32_t b) {
    if (plan.buffers[a].bytes != plan.buffers[b].bytes) {
      return plan.buffers[a].bytes > plan.buffers[b].bytes;
    }
    return a < b;
  });
  std::vector<const BufferPlace*> placed;  // by offset
  for (const std::uint32_t i : order) {
    BufferPlace& mine = plan.buffers[i];
    std::uint64_t offset = 0;
    for (const BufferPlace* other : placed) {
      if (offset + mine.bytes <= other->offset) break;
      if (other->first > mine.last || mine.first > other->last) continue;
      offset = std::max(offset, other->offset + other->bytes);
    }
    mine.offset = offset;
    plan.work_offset = std::max(plan.work_offset, offset + mine.bytes);
    placed.insert(std::ranges::upper_bound(placed, offset, {}, &BufferPlace::offset), &mine);
  }

  for (const Stage& stage : program.forward) {
    plan.work_bytes =
        std::max(plan.work_bytes, stage_work(program, stage, options, false, nullptr));
  }
  for (const Stage& stage : program.head) {
    plan.work_bytes = std::max(plan.work_bytes, stage_work(program, stage, options, true, nullptr));
  }
  const auto total = checked_add(plan.work_offset, plan.work_bytes);
  const auto rounded = total ? checked_round_up<std::uint64_t>(*total, kAlignment) : std::nullopt;
  if (!rounded) return too_large(program);
  plan.scratch_bytes = *rounded;
  return plan;
}

}  // namespace llmc::plan
