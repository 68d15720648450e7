#include <algorithm>
#include <map>
#include <set>

#include "compiler/plan/lower.h"

/// Splits the program into the forward pass of a chunk and the head, which runs on selected rows.
namespace llmc::plan {

/// Lowers x[…, -1, …] on the token dim. The result is the row with which the head begins.
bool Lowerer::lower_row_selection(Scope& scope, const ir::Node& node) {
  const ir::TensorType& type = scope.graph.value(node.inputs[0]).type;
  const auto constant = [&](std::size_t i) -> std::optional<std::int64_t> {
    const auto* place = std::get_if<ConstantBinding>(&input(scope, node, i));
    if (!place || place->data->element_count() != 1) return std::nullopt;
    const auto values = ir::to_integers(*place->data);
    return values.ok() ? std::optional(values->front()) : std::nullopt;
  };
  std::optional<std::int64_t> axis, index;
  if (const auto* gather = ir::op_as<ir::Gather>(&node)) {
    axis = gather->axis;
    index = constant(1);
  } else if (const auto end = constant(2), step = constant(4);
             end && *end > INT32_MAX && (!present(node, 4) || step == 1)) {
    axis = constant(3);
    index = constant(1);
  }
  if (axis && *axis < 0) *axis += static_cast<std::int64_t>(type.rank());
  const bool last = index == -1 && axis && *axis >= 0 &&
                    *axis < static_cast<std::int64_t>(type.rank()) &&
                    type.dims[static_cast<std::size_t>(*axis)] == ir::Dim::symbol("seq");
  const auto rows = rows_of(scope.graph.value(node.outputs[0]).type);
  if (scope.loop || !last || !rows || !rows->one_row) return false;
  const auto x = activation(scope, node, 0);
  if (!x) return false;
  if (program_.hidden.exists() && program_.hidden != *x) {
    unsupported(node, "the last row of two different values is picked");
    return true;
  }
  if (!program_.hidden.exists()) {
    program_.hidden = *x;
    program_.row = new_buffer("row", *rows);
  }
  bind(scope, node.outputs[0], program_.row, true);
  return true;
}

namespace {

/// Returns whether the result for a token depends only on the rows of that token.
bool works_row_by_row(const Stage& stage) {
  return std::holds_alternative<LinearStage>(stage.op) ||
         std::holds_alternative<NormStage>(stage.op) ||
         std::holds_alternative<GatedStage>(stage.op) ||
         std::holds_alternative<BinaryStage>(stage.op) ||
         std::holds_alternative<UnaryStage>(stage.op) ||
         std::holds_alternative<CopyStage>(stage.op) ||
         std::holds_alternative<MapStage>(stage.op) || std::holds_alternative<CallStage>(stage.op);
}

/// Returns the buffers that the stages from `begin` on read before they write them.
std::set<BufferId> live_in(const Program& program, const std::vector<Stage>& stages,
                           std::size_t begin) {
  std::set<BufferId> read, written;
  for (std::size_t i = begin; i < stages.size(); ++i) {
    const Access a = access(stages[i]);
    for (const BufferId id : a.reads)
      if (id.exists() && !written.contains(id) && program.buffers[id.index].place != Place::kWeight)
        read.insert(id);
    written.insert(a.writes.begin(), a.writes.end());
  }
  return read;
}

}  // namespace

bool Lowerer::split_head(BufferId logits) {
  // Without a selected row, every token has logits. The head then consists of the stages from the
  // norm before the last matrix to the logits.
  auto& forward = program_.forward;
  std::size_t begin = forward.size();
  while (begin > 0 && works_row_by_row(forward[begin - 1])) {
    --begin;
    if (std::holds_alternative<LinearStage>(forward[begin].op)) break;
  }
  const auto* linear =
      begin < forward.size() ? std::get_if<LinearStage>(&forward[begin].op) : nullptr;
  if (!linear || linear->residual.exists()) return false;
  if (begin > 0) {
    const auto* norm = std::get_if<NormStage>(&forward[begin - 1].op);
    if (norm && norm->out == linear->source && !norm->residual.exists()) --begin;
  }
  const std::set<BufferId> sources = live_in(program_, forward, begin);
  if (sources.size() != 1 || !sources.begin()->exists()) return false;
  program_.hidden = *sources.begin();
  program_.row = new_buffer("row", {program_.buffers[program_.hidden.index].width, true});

  std::set<BufferId> of_all_tokens;
  for (std::size_t i = 0; i < begin; ++i) {
    const Access a = access(forward[i]);
    of_all_tokens.insert(a.reads.begin(), a.reads.end());
    of_all_tokens.insert(a.writes.begin(), a.writes.end());
    const auto* loop = std::get_if<LoopStage>(&forward[i].op);
    for (std::size_t s = 0; loop && s < loop->body.size(); ++s) {
      const Access inner = access(loop->body[s]);
      of_all_tokens.insert(inner.reads.begin(), inner.reads.end());
      of_all_tokens.insert(inner.writes.begin(), inner.writes.end());
    }
  }
  // The head may run for any row in any order, so it must not modify the hidden rows or any other
  // buffer of the forward pass.
  std::map<BufferId, BufferId> renamed{{program_.hidden, program_.row}};
  for (std::size_t i = begin; i < forward.size(); ++i) {
    const auto follow = [&](BufferId id) {
      const auto it = renamed.find(id);
      return it == renamed.end() ? id : it->second;
    };
    replace_buffers(forward[i], follow, [&](BufferId id) {
      if (id.exists() && (of_all_tokens.contains(id) || id == program_.hidden)) {
        const Buffer from = program_.buffers[id.index];
        const BufferId own = new_buffer(from.name, {from.width, true});
        program_.buffers[own.index].element = from.element;
        if (id == logits) program_.logits = own;
        renamed[id] = own;
      }
      id = follow(id);
      if (id.exists()) program_.buffers[id.index].one_row = true;
      return id;
    });
    if (auto* s = std::get_if<LinearStage>(&forward[i].op);
        s && s->epilogue == LinearStage::Epilogue::kAddTo && s->out != s->residual) {
      s->epilogue = LinearStage::Epilogue::kAddStore;
    }
  }
  const auto first = forward.begin() + static_cast<std::ptrdiff_t>(begin);
  program_.head.assign(std::make_move_iterator(first), std::make_move_iterator(forward.end()));
  forward.resize(begin);
  return true;
}

namespace {

/// Returns the last product of the head if its results are the logits; nullptr if other operations
/// follow or are fused with it.
const LinearStage* logits_product(const Program& program) {
  // Other stages may be loop nests, which only one function of the emitted source has.
  const auto is_simple = [](const Stage& stage) {
    return std::holds_alternative<LinearStage>(stage.op) ||
           std::holds_alternative<NormStage>(stage.op);
  };
  if (program.head.empty() || !std::ranges::all_of(program.head, is_simple)) return nullptr;
  const auto* s = std::get_if<LinearStage>(&program.head.back().op);
  const bool plain = s && s->epilogue == LinearStage::Epilogue::kStore && !s->bias.exists() &&
                     s->function == ir::ActivationFn::kNone && !s->more_rows.exists() &&
                     !s->quantized && s->experts == 0 && !s->windows && s->out == program.logits &&
                     !s->weight.per_layer;
  return plain ? s : nullptr;
}

/// Returns whether a linear stage other than `head`, or a loop, has the matrix of `head`.
bool is_shared(const std::vector<Stage>& stages, const LinearStage& head) {
  return std::ranges::any_of(stages, [&](const Stage& stage) {
    const std::uint32_t index = head.weight.index;
    if (const auto* loop = std::get_if<LoopStage>(&stage.op)) {
      const auto has = [&](const auto& field) { return std::ranges::count(field.weights, index); };
      return std::ranges::any_of(loop->fields, has) || is_shared(loop->body, head);
    }
    const auto* s = std::get_if<LinearStage>(&stage.op);
    return s != nullptr && s != &head && !s->weight.per_layer && s->weight.index == index;
  });
}

}  // namespace

void split_codes_of_head(Program& program) {
  const LinearStage* const head = logits_product(program);
  if (head == nullptr) return;
  PackedWeight& weight = program.weights[head->weight.index];
  // For smaller heads, the time saved does not justify the additional code.
  constexpr std::uint64_t kMinWeights = std::uint64_t{1} << 20;
  const bool six = weight.matrix == coded_weight(kSixBits) &&
                   weight.conversion != WeightConversion::kPreserved &&
                   weight.rows * weight.columns >= kMinWeights;
  if (!six || is_shared(program.forward, *head) || is_shared(program.head, *head)) return;
  weight.matrix = coded_weight(kSplitSixBits);
}

const LinearStage* greedy_choice_product(const Program& program) {
  const LinearStage* const head = logits_product(program);
  const WeightKind split = coded_weight(kSplitSixBits);
  return head && program.weights[head->weight.index].matrix == split ? head : nullptr;
}

}  // namespace llmc::plan
