#include <fmt/format.h>

#include "compiler/ir/op_info.h"
#include "compiler/plan/lower.h"

/// Lowers norms, rotations and elementwise operators that no pattern has fused.
namespace llmc::plan {
namespace {

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
         kind == kSigmoid || kind == kTanh || kind == kRelu || kind == kErf ||
         ir::activation_fn(kind).has_value();
}

/// Returns the label of a number that differs between layers.
const char* number_label(ir::BinaryKind kind) {
  return kind == ir::BinaryKind::kMul || kind == ir::BinaryKind::kDiv ? "scale" : "number";
}

}  // namespace

bool Lowerer::lower_norm(Scope& scope, const ir::Node& node, ir::NormKind kind, float epsilon) {
  const auto x = activation(scope, node, 0);
  const ir::TensorType& type = scope.graph.value(node.inputs[0]).type;
  const auto width = type.dims.empty() ? std::nullopt : type.dims.back().constant();
  if (!x || !width || *width <= 0) return false;
  NormStage stage;
  stage.x = *x;
  stage.width = static_cast<std::uint64_t>(*width);
  const std::uint64_t row = program_.buffers[x->index].width;
  if (row % stage.width != 0) return false;
  stage.parts = row / stage.width;  // heads, each normalized separately
  stage.norm = norm_input(scope, node, {.weight = 1, .bias = 2, .epsilon = epsilon, .kind = kind},
                          "norm", stage.width);
  const auto out = in_place_or_new(scope, node, 0, *x, "normed");
  if (!out) return true;
  stage.out = *out;
  const bool head = in_head(*x);
  bind(scope, node.outputs[0], stage.out);
  emit(scope, node, stage, fmt::format("[{}, {}]", head ? "1" : "tokens", row), head);
  return true;
}

void Lowerer::lower_rope(Scope& scope, const ir::Node& node, const ir::Rope& op) {
  const auto x = activation(scope, node, 0);
  const ir::TensorType& type = scope.graph.value(node.inputs[0]).type;
  const auto heads = type.rank() == 4 ? type.dims[op.heads_first ? 1 : 2].constant() : std::nullopt;
  const auto dim = type.rank() == 4 ? type.dims[3].constant() : std::nullopt;
  if (!x || !heads || !dim || in_head(*x)) {
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
  const auto out = in_place_or_new(scope, node, 0, *x, "rotated");
  if (!out) return;
  stage.out = *out;
  bind(scope, node.outputs[0], stage.out);
  emit(scope, node, stage, fmt::format("[tokens, {}, {}]", *heads, *dim), false);
}

bool Lowerer::lower_gated(Scope& scope, const ir::Node& node, const ir::GatedActivation& op) {
  if (op.function == ir::ActivationFn::kNone || is_pending(scope, node, 0) ||
      is_pending(scope, node, 1))
    return false;
  const auto gate = activation(scope, node, 0);
  const auto up = activation(scope, node, 1);
  if (!gate || !up) return false;
  const auto out = output_buffer(scope, node, "gated");
  if (!out) return true;
  const std::uint64_t width = program_.buffers[out->index].width;
  const bool head = in_head(*out);
  bind(scope, node.outputs[0], *out);
  emit(scope, node, GatedStage{op.function, *gate, *up, *out, width},
       fmt::format("[tokens, {}]", width), head);
  return true;
}

/// Lowers x + norm(y): if the previous stage is the norm, that stage adds x.
bool Lowerer::add_to_norm(Scope& scope, const ir::Node& node) {
  for (std::size_t i = 0; i < 2; ++i) {
    const auto normed = activation(scope, node, i);
    const auto residual = activation(scope, node, 1 - i);
    if (!normed || !residual || *normed == *residual) continue;
    std::vector<Stage>& stages = scope.loop         ? scope.stages
                                 : in_head(*normed) ? program_.head
                                                    : program_.forward;
    auto* norm = stages.empty() ? nullptr : std::get_if<NormStage>(&stages.back().op);
    const Buffer& a = program_.buffers[normed->index];
    const Buffer& b = program_.buffers[residual->index];
    if (!norm || norm->out != *normed || norm->residual.exists() || a.width != b.width ||
        a.one_row != b.one_row || !is_last_use(scope, node.inputs[i]))
      continue;
    norm->residual = *residual;
    if (is_last_use(scope, node.inputs[1 - i])) norm->out = *residual;
    bind(scope, node.outputs[0], norm->out);
    stages.back().comment += " added to x";
    return true;
  }
  return false;
}

bool Lowerer::lower_binary(Scope& scope, const ir::Node& node, const ir::Binary& op) {
  if (op.kind == ir::BinaryKind::kAdd && add_to_norm(scope, node)) return true;
  if (op.kind == ir::BinaryKind::kPow) return lower_power(scope, node);
  if (!has_kernel(op.kind) || is_pending(scope, node, 0) || is_pending(scope, node, 1))
    return false;
  std::size_t first = 0, second = 1;
  if (!activation(scope, node, 0) && commutes(op.kind)) std::swap(first, second);
  const auto a = activation(scope, node, first);
  const auto b = activation(scope, node, second);
  const auto rows = rows_of(scope.graph.value(node.outputs[0]).type);
  if (!a || !rows || program_.buffers[a->index].width != rows->width) return false;
  BinaryStage stage;
  stage.kind = op.kind;
  stage.a = *a;
  stage.width = rows->width;
  if (b) {
    if (program_.buffers[b->index].width != rows->width || in_head(*a) != in_head(*b)) return false;
    stage.b = *b;
  } else {
    const ir::TensorType& type = scope.graph.value(node.inputs[second]).type;
    const auto count = ir::element_count(type);
    const auto* constant = std::get_if<ConstantBinding>(&input(scope, node, second));
    if (count == 1 && constant) {
      stage.value = static_cast<float>(ir::to_doubles(*constant->data).front());
    } else if (count == 1 && std::holds_alternative<ParameterBinding>(input(scope, node, second))) {
      stage.number =
          weight(scope, node, second, {.use = WeightUse::kVector, .label = number_label(op.kind)});
      if (!stage.number.exists()) return true;
    } else if (count && static_cast<std::uint64_t>(*count) == rows->width) {
      stage.row = weight(
          scope, node, second,
          {.use = WeightUse::kVector, .label = op.kind == ir::BinaryKind::kAdd ? "bias" : "row"});
    } else {
      return false;
    }
  }
  const auto out = rows->one_row == in_head(*a) ? in_place_or_new(scope, node, first, *a, "y")
                                                : output_buffer(scope, node, "y");
  if (!out) return true;
  stage.out = *out;
  bind(scope, node.outputs[0], stage.out);
  emit(scope, node, stage, fmt::format("[{}, {}]", rows->one_row ? "1" : "tokens", rows->width),
       rows->one_row);
  return true;
}

/// Lowers powers that products, roots and quotients can compute.
bool Lowerer::lower_power(Scope& scope, const ir::Node& node) {
  if (is_pending(scope, node, 0)) return false;
  const auto x = activation(scope, node, 0);
  const auto* exponent = std::get_if<ConstantBinding>(&input(scope, node, 1));
  const bool one = exponent && exponent->data->element_count() == 1;
  const double power = one ? ir::to_doubles(*exponent->data).front() : 0;
  const bool known =
      power == 2 || power == 3 || power == 4 || power == 0.5 || power == -0.5 || power == -1;
  if (!x || !one || !known) return false;
  const auto out = output_buffer(scope, node, "y");
  if (!out) return true;
  const std::uint64_t width = program_.buffers[out->index].width;
  const bool head = in_head(*out);
  const std::string comment = fmt::format("[{}, {}]", head ? "1" : "tokens", width);
  const auto multiply = [&](BufferId a, BufferId b) {
    BinaryStage stage{.kind = ir::BinaryKind::kMul, .a = a, .b = b, .out = *out, .width = width};
    emit(scope, node, stage, comment, head);
  };
  const auto apply = [&](ir::UnaryKind kind, BufferId from) {
    emit(scope, node, UnaryStage{kind, from, *out, width}, comment, head);
  };
  if (power >= 2) multiply(*x, *x);
  if (power == 3) multiply(*out, *x);
  if (power == 4) multiply(*out, *out);
  if (power == 0.5 || power == -0.5) apply(ir::UnaryKind::kSqrt, *x);
  if (power < 0) apply(ir::UnaryKind::kReciprocal, power == -1 ? *x : *out);
  bind(scope, node.outputs[0], *out);
  return true;
}

bool Lowerer::lower_unary(Scope& scope, const ir::Node& node, const ir::Unary& op) {
  if (is_pending(scope, node, 0)) return false;
  if (op.kind == ir::UnaryKind::kIdentity) {
    binding(scope, node.outputs[0]) = ValueBinding(input(scope, node, 0));
    return true;
  }
  const auto x = activation(scope, node, 0);
  if (!x || !has_kernel(op.kind)) return false;
  const std::uint64_t width = program_.buffers[x->index].width;
  const auto out = in_place_or_new(scope, node, 0, *x, "y");
  if (!out) return true;
  const bool head = in_head(*out);
  bind(scope, node.outputs[0], *out);
  emit(scope, node, UnaryStage{op.kind, *x, *out, width},
       fmt::format("[{}, {}]", head ? "1" : "tokens", width), head);
  return true;
}

}  // namespace llmc::plan
