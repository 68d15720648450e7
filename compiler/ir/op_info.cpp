#include "compiler/ir/op_info.h"

#include <algorithm>

namespace llmc::ir {
namespace {

/// Calls f(T{}) for every operator struct T.
template <class F>
void for_each_op(F&& f) {
  [&]<class... T>(std::type_identity<std::variant<T...>>) {
    (f(T{}), ...);
  }(std::type_identity<Op>{});
}

}  // namespace

std::string_view op_name(const Op& op) {
  return std::visit(
      []<class T>(const T& o) -> std::string_view {
        std::size_t index = 0;
        if constexpr (HasKind<T>) index = static_cast<std::size_t>(o.kind);
        return index < names_of<T>().size() ? names_of<T>()[index] : "invalid";
      },
      op);
}

UnaryKind unary_kind(ActivationFn function) {
  using enum UnaryKind;
  constexpr std::array kKinds{kIdentity, kSilu, kGelu, kGeluTanh, kRelu, kSigmoid, kTanh};
  static_assert(kKinds.size() == EnumInfo<ActivationFn>::names.size());
  return kKinds.at(static_cast<std::size_t>(function));
}

std::optional<ActivationFn> activation_fn(UnaryKind kind) {
  using enum ActivationFn;
  for (const ActivationFn function : {kSilu, kGelu, kGeluTanh, kRelu, kSigmoid, kTanh})
    if (unary_kind(function) == kind) return function;
  return std::nullopt;
}

Arity arity(const Op& op) {
  return std::visit([]<class T>(const T&) { return kOpInfo<T>.arity; }, op);
}

std::string_view to_string(WeightRole role) {
  return EnumInfo<WeightRole>::names[static_cast<std::size_t>(role)];
}

std::vector<std::string_view> op_names() {
  std::vector<std::string_view> names;
  for_each_op([&]<class T>(const T&) {
    names.insert(names.end(), names_of<T>().begin(), names_of<T>().end());
  });
  return names;
}

std::optional<Op> make_op(std::string_view name) {
  std::optional<Op> found;
  for_each_op([&]<class T>(T op) {
    const auto at = std::ranges::find(names_of<T>(), name);
    if (at == names_of<T>().end()) return;
    if constexpr (HasKind<T>) op.kind = static_cast<decltype(op.kind)>(at - names_of<T>().begin());
    found = std::move(op);
  });
  return found;
}

std::size_t output_count(const Op& op) {
  if (const auto* split = std::get_if<Split>(&op)) return split->sizes.size();
  if (const auto* loop = std::get_if<Loop>(&op)) {
    std::int64_t total = 0;
    if (loop->count < 0 || loop->carried < 0 || loop->per_iteration_outputs < 0 ||
        __builtin_mul_overflow(loop->count, loop->per_iteration_outputs, &total) ||
        __builtin_add_overflow(total, loop->carried, &total))
      return 0;
    return static_cast<std::size_t>(total);
  }
  return arity(op).outputs;
}

std::optional<std::string> operand_problem(const Node& node, bool outputs) {
  const Arity expected = arity(node.op);
  const std::size_t got = node.inputs.size();
  const auto count = [](std::size_t n, const char* what) {
    return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
  };
  if (got < expected.min_inputs || got > expected.max_inputs) {
    std::string range = count(expected.min_inputs, "operand");
    if (expected.max_inputs == Arity::kAny) {
      range = "at least " + range;
    } else if (expected.max_inputs != expected.min_inputs) {
      range = std::to_string(expected.min_inputs) + " to " + count(expected.max_inputs, "operand");
    }
    return "takes " + range + ", got " + std::to_string(got);
  }
  // A variadic operator has no optional operands: each operand is an element of its list.
  const bool variadic = expected.max_inputs == Arity::kAny;
  for (std::size_t i = 0; i < got; ++i)
    if (!node.inputs[i].exists() && (variadic || i < expected.min_inputs))
      return "operand " + std::to_string(i) + " is absent";
  if (outputs && node.outputs.size() != output_count(node.op))
    return "has " + count(output_count(node.op), "result") + ", not " +
           std::to_string(node.outputs.size());
  if (outputs && node.outputs.empty()) return "has no result";
  return std::nullopt;
}

Diagnostic node_failure(ErrorKind kind, const Node& node, std::string message, std::string hint) {
  return {.kind = kind,
          .file = node.origin.file,
          .node = node.origin.node,
          .op = std::string(op_name(node.op)),
          .message = std::move(message),
          .hint = std::move(hint)};
}

}  // namespace llmc::ir
