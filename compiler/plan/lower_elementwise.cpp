#include <fmt/format.h>

#include <algorithm>

#include "compiler/ir/op_info.h"
#include "compiler/plan/lower.h"

/// Norms, rotations and elementwise stages that stand alone because no pattern took them in, and
/// what each stage reads and writes.
namespace llmc::plan {
namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};

bool commutes(ir::BinaryKind kind) {
  using enum ir::BinaryKind;
  return kind == kAdd || kind == kMul || kind == kMin || kind == kMax;
}
bool has_kernel(ir::BinaryKind kind) {
  return commutes(kind) || kind == ir::BinaryKind::kSub || kind == ir::BinaryKind::kDiv;
}
bool has_kernel(ir::UnaryKind kind) {
  using enum ir::UnaryKind;
  return kind == kNeg || kind == kAbs || kind == kSqrt || kind == kReciprocal || kind == kExp ||
         kind == kSigmoid || kind == kTanh || kind == kRelu;
}

}  // namespace

void Lowerer::lower_norm(Scope& scope, const ir::Node& node, const ir::RmsNorm& op) {
  const auto x = activation(scope, node, 0);
  const ir::TensorType& type = scope.graph.value(node.inputs[0]).type;
  const auto width = type.dims.empty() ? std::nullopt : type.dims.back().constant();
  if (!x || !width) return unsupported(node, "its input is not an activation");
  // A norm over each head's dims sees every head as a row of its own; kernels know tokens only.
  if (static_cast<std::uint64_t>(*width) != program_.buffers[x->index].width) {
    return unsupported(node, fmt::format("a norm over {} of a row's {} elements", *width,
                                         program_.buffers[x->index].width));
  }
  RmsNormStage stage;
  stage.x = *x;
  stage.width = static_cast<std::uint64_t>(*width);
  stage.norm = norm_input(scope, node, 1, op.epsilon, "norm", stage.width);
  if (dies_here(scope, node.inputs[0])) {
    stage.out = *x;
  } else if (const auto out = output_buffer(scope, node, "normed")) {
    stage.out = *out;
  } else {
    return;
  }
  const bool head = in_head(*x);
  bind(scope, node.outputs[0], stage.out);
  emit(scope, node, stage, fmt::format("[{}, {}]", head ? "1" : "tokens", *width), head);
}

void Lowerer::lower_rope(Scope& scope, const ir::Node& node, const ir::Rope& op) {
  const auto x = activation(scope, node, 0);
  const ir::TensorType& type = scope.graph.value(node.inputs[0]).type;
  const auto heads = type.rank() == 4 ? type.dims[2].constant() : std::nullopt;
  const auto dim = type.rank() == 4 ? type.dims[3].constant() : std::nullopt;
  if (!x || !heads || !dim || op.heads_first || in_head(*x)) {
    return unsupported(
        node, fmt::format("a rotation of {} is not [1, tokens, heads, dim]", ir::to_string(type)));
  }
  const auto found = angles(scope, node, 1, 2, op, static_cast<std::uint64_t>(*dim));
  if (!found) return;
  RopeStage stage;
  stage.x = *x;
  stage.angles = *found;
  stage.heads = static_cast<std::uint64_t>(*heads);
  stage.head_dim = static_cast<std::uint64_t>(*dim);
  if (dies_here(scope, node.inputs[0])) {
    stage.out = *x;
  } else if (const auto out = output_buffer(scope, node, "rotated")) {
    stage.out = *out;
  } else {
    return;
  }
  bind(scope, node.outputs[0], stage.out);
  emit(scope, node, stage, fmt::format("[tokens, {}, {}]", *heads, *dim), false);
}

void Lowerer::lower_gated(Scope& scope, const ir::Node& node, const ir::GatedActivation& op) {
  if (op.function != ir::ActivationFn::kSilu)
    return unsupported(node, "its function has no kernel");
  const auto gate = activation(scope, node, 0);
  const auto up = activation(scope, node, 1);
  if (!gate || !up) return unsupported(node, "its inputs are not activations");
  const auto out = output_buffer(scope, node, "gated");
  if (!out) return;
  const std::uint64_t width = program_.buffers[out->index].width;
  const bool head = in_head(*out);
  bind(scope, node.outputs[0], *out);
  emit(scope, node, SwiGluStage{*gate, *up, *out, width}, fmt::format("[tokens, {}]", width), head);
}

void Lowerer::lower_binary(Scope& scope, const ir::Node& node, const ir::Binary& op) {
  if (!has_kernel(op.kind)) return unsupported(node, "no kernel does this to activations");
  std::size_t first = 0, second = 1;
  if (!activation(scope, node, 0) && commutes(op.kind)) std::swap(first, second);
  const auto a = activation(scope, node, first);
  const auto b = activation(scope, node, second);
  const auto rows = rows_of(scope.graph.value(node.outputs[0]).type);
  if (!a || !rows || program_.buffers[a->index].width != rows->width) {
    return unsupported(node, "its operands are not rows of one width");
  }
  BinaryStage stage;
  stage.kind = op.kind;
  stage.a = *a;
  stage.width = rows->width;
  if (b) {
    if (program_.buffers[b->index].width != rows->width || in_head(*a) != in_head(*b)) {
      return unsupported(node, "its operands are not rows of one width");
    }
    stage.b = *b;
  } else {
    const ir::TensorType& type = scope.graph.value(node.inputs[second]).type;
    const auto count = ir::element_count(type);
    const auto* constant = std::get_if<ConstantPlace>(&input(scope, node, second));
    if (count == 1 && constant) {
      stage.value = static_cast<float>(ir::to_doubles(*constant->data).front());
    } else if (count && static_cast<std::uint64_t>(*count) == rows->width) {
      stage.row = weight(scope, node, second,
                         {.use = WeightUse::kVector,
                          .shape = {},
                          .label = op.kind == ir::BinaryKind::kAdd ? "bias" : "row"});
    } else {
      return unsupported(node, "its second operand is neither a row nor a number");
    }
  }
  if (dies_here(scope, node.inputs[first]) && rows->one_row == in_head(*a)) {
    stage.out = *a;
  } else if (const auto out = output_buffer(scope, node, "y")) {
    stage.out = *out;
  } else {
    return;
  }
  bind(scope, node.outputs[0], stage.out);
  emit(scope, node, stage, fmt::format("[{}, {}]", rows->one_row ? "1" : "tokens", rows->width),
       rows->one_row);
}

void Lowerer::lower_unary(Scope& scope, const ir::Node& node, const ir::Unary& op) {
  if (op.kind == ir::UnaryKind::kIdentity) {
    place(scope, node.outputs[0]) = Place(input(scope, node, 0));
    return;
  }
  const auto x = activation(scope, node, 0);
  if (!x || !has_kernel(op.kind)) return unsupported(node, "no kernel does this to activations");
  const std::uint64_t width = program_.buffers[x->index].width;
  UnaryStage stage{op.kind, *x, {}, width};
  if (dies_here(scope, node.inputs[0])) {
    stage.out = *x;
  } else if (const auto out = output_buffer(scope, node, "y")) {
    stage.out = *out;
  } else {
    return;
  }
  const bool head = in_head(stage.out);
  bind(scope, node.outputs[0], stage.out);
  emit(scope, node, stage, fmt::format("[{}, {}]", head ? "1" : "tokens", width), head);
}

Access access(const Stage& stage) {
  return std::visit(
      Overloaded{
          [](const EmbeddingStage& s) { return Access{{}, {s.out}}; },
          [](const LinearStage& s) { return Access{{s.source, s.residual}, {s.out}}; },
          [](const RopeAnglesStage& s) { return Access{{}, {s.out}}; },
          [](const QkvStage& s) { return Access{{s.source, s.angles.buffer}, {s.q}}; },
          [](const AttentionStage& s) { return Access{{s.q}, {s.out}}; },
          [](const RmsNormStage& s) { return Access{{s.x}, {s.out}}; },
          [](const RopeStage& s) { return Access{{s.x, s.angles.buffer}, {s.out}}; },
          [](const KvStoreStage& s) { return Access{{s.k, s.v}, {}}; },
          [](const SwiGluStage& s) { return Access{{s.gate, s.up}, {s.out}}; },
          [](const BinaryStage& s) { return Access{{s.a, s.b}, {s.out}}; },
          [](const UnaryStage& s) { return Access{{s.x}, {s.out}}; },
          [](const CopyStage& s) { return Access{{s.x}, {s.out}}; },
          [](const LoopStage&) { return Access{}; },
      },
      stage.op);
}

}  // namespace llmc::plan
