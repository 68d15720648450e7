#pragma once

#include <array>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/op.h"
#include "compiler/support/diagnostic.h"

/// Static description of each operator for printing, parsing and verifying: name, numbers of
/// operands and results, attributes. Every operator of `Op` must have an entry here, otherwise
/// compilation fails (docs/adding-an-op.md).
namespace llmc::ir {

/// Names of an enum's values in text form, in order.
template <class E>
struct EnumInfo;

template <>
struct EnumInfo<UnaryKind> {
  static constexpr auto names = std::to_array<std::string_view>(
      {"identity", "neg",  "abs",       "sqrt", "reciprocal", "exp",   "log",   "sin",
       "cos",      "tanh", "sigmoid",   "erf",  "relu",       "floor", "ceil",  "not",
       "is_nan",   "gelu", "gelu_tanh", "silu", "round",      "sign",  "is_inf"});
};
template <>
struct EnumInfo<BinaryKind> {
  static constexpr auto names = std::to_array<std::string_view>(
      {"add", "sub", "mul", "div", "pow", "min", "max", "mod", "equal", "less", "less_or_equal",
       "greater", "greater_or_equal", "and", "or", "xor"});
};
template <>
struct EnumInfo<ReduceKind> {
  static constexpr std::array<std::string_view, 5> names{"reduce_sum", "reduce_mean", "reduce_max",
                                                         "reduce_min", "reduce_prod"};
};
template <>
struct EnumInfo<ScatterReduction> {
  static constexpr std::array<std::string_view, 5> names{"none", "add", "mul", "min", "max"};
};
template <>
struct EnumInfo<PadMode> {
  static constexpr std::array<std::string_view, 4> names{"constant", "reflect", "edge", "wrap"};
};
template <>
struct EnumInfo<ElementType> {
  static constexpr std::array<std::string_view, 13> names{
      "f32", "f16", "bf16", "f64", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "bool"};
};
template <>
struct EnumInfo<CacheLayout> {
  static constexpr std::array<std::string_view, 2> names{"sequence_first", "heads_first"};
};
template <>
struct EnumInfo<InputKind> {
  static constexpr auto names =
      std::to_array<std::string_view>({"none", "token_ids", "mask", "positions", "position_axes",
                                       "last_position", "attention_cache", "source", "recurrent"});
};
template <>
struct EnumInfo<ActivationFn> {
  static constexpr auto names = std::to_array<std::string_view>(
      {"none", "silu", "gelu", "gelu_tanh", "relu", "sigmoid", "tanh"});
};
template <>
struct EnumInfo<NormKind> {
  static constexpr std::array<std::string_view, 2> names{"rms", "layer"};
};
template <>
struct EnumInfo<WeightFormat> {
  static constexpr auto names = kWeightFormatNames;
};
template <>
struct EnumInfo<WeightRole> {
  static constexpr auto names = std::to_array<std::string_view>(
      {"embedding", "position_embedding", "qkv", "query_key", "value", "attention_out", "gate_up",
       "up", "down", "head", "linear"});
};

/// Numbers of operands and results. Operands from `min_inputs` on are optional: trailing ones are
/// omitted, others are kNoValue. If `max_inputs` is kAny, no operand may be kNoValue.
struct Arity {
  static constexpr std::size_t kAny = std::numeric_limits<std::size_t>::max();
  std::size_t min_inputs, max_inputs;
  std::size_t outputs;  // kAny: depends on the attributes

  constexpr Arity(std::size_t inputs) : Arity(inputs, inputs) {}
  constexpr Arity(std::size_t min, std::size_t max, std::size_t results = 1)
      : min_inputs(min), max_inputs(max), outputs(results) {}
};

/// Condition under which an attribute is printed.
enum class PrintRule { kAlways, kUnlessDefault };

/// Describes an attribute: a member of operator struct T.
template <class T, class Member>
struct Field {
  std::string_view name;
  Member T::* member;
  PrintRule print_rule;
};
/// Describes an attribute that is always printed.
template <class T, class Member>
constexpr Field<T, Member> field(std::string_view name, Member T::* member) {
  return {name, member, PrintRule::kAlways};
}
/// Describes an attribute that is printed only if it differs from its default.
template <class T, class Member>
constexpr Field<T, Member> rare(std::string_view name, Member T::* member) {
  return {name, member, PrintRule::kUnlessDefault};
}

/// Describes operator struct T.
template <class T, class... Members>
struct OpInfo {
  std::string_view name;
  Arity arity;
  bool takes_f64;  // whether it accepts f64 operands and computes them in f64, as ONNX requires
  std::tuple<Field<T, Members>...> fields;
};
template <class T, class... Members>
constexpr OpInfo<T, Members...> op(std::string_view name, Arity arity,
                                   Field<T, Members>... fields) {
  return {name, arity, true, {fields...}};
}
/// Describes an operator that computes in f32 only, also for narrower operand types.
template <class T, class... Members>
constexpr OpInfo<T, Members...> f32_op(std::string_view name, Arity arity,
                                       Field<T, Members>... fields) {
  return {name, arity, false, {fields...}};
}

/// A list of rows of different types. Each is a base, so that overload resolution finds the row of
/// an operator.
template <class... Rows>
struct OpTable : Rows... {};
template <class... Rows>
OpTable(Rows...) -> OpTable<Rows...>;

/// The name of an operator struct with a `kind`, whose values have names instead.
inline constexpr std::string_view kNamedByKind{};

inline constexpr OpTable kOps{
    // The data follows the name and is not an attribute.
    op<ConstantOp>("constant", 0),
    op<Cast>("cast", 1, field("to", &Cast::to)),
    op<Reshape>("reshape", 2, rare("allow_zero", &Reshape::allow_zero)),
    op<Transpose>("transpose", 1, field("perm", &Transpose::perm)),
    op<Concat>("concat", {1, Arity::kAny}, field("axis", &Concat::axis)),
    op<Split>("split", {1, 1, Arity::kAny}, field("axis", &Split::axis),
              field("sizes", &Split::sizes)),
    op<Slice>("slice", {3, 5}),
    op<Squeeze>("squeeze", 1, field("axes", &Squeeze::axes)),
    op<Unsqueeze>("unsqueeze", 1, field("axes", &Unsqueeze::axes)),
    op<Gather>("gather", 2, field("axis", &Gather::axis)),
    op<GatherElements>("gather_elements", 2, field("axis", &GatherElements::axis)),
    op<GatherNd>("gather_nd", 2, rare("batch_dims", &GatherNd::batch_dims)),
    op<ScatterElements>("scatter_elements", 3, field("axis", &ScatterElements::axis),
                        rare("reduction", &ScatterElements::reduction)),
    op<ScatterNd>("scatter_nd", 3, rare("reduction", &ScatterNd::reduction)),
    op<Pad>("pad", {2, 3}, rare("mode", &Pad::mode)),
    op<Expand>("expand", 2),
    op<Tile>("tile", 2),
    op<Shape>("shape", 1, rare("begin", &Shape::begin), rare("end", &Shape::end)),
    op<ConstantOfShape>("constant_of_shape", 1, field("value", &ConstantOfShape::value)),
    op<Range>("range", 3),
    op<Trilu>("trilu", {1, 2}, field("upper", &Trilu::upper)),
    op<Unary>(kNamedByKind, 1),
    op<Binary>(kNamedByKind, 2),
    op<Where>("where", 3),
    op<MatMul>("matmul", 2),
    op<Gemm>("gemm", {2, 3}, rare("alpha", &Gemm::alpha), rare("beta", &Gemm::beta),
             rare("trans_a", &Gemm::trans_a), rare("trans_b", &Gemm::trans_b)),
    f32_op<Conv>("conv", 2, field("strides", &Conv::strides), field("dilations", &Conv::dilations),
                 rare("groups", &Conv::groups)),
    f32_op<DepthwiseConv>("depthwise_conv", 2, field("strides", &DepthwiseConv::strides),
                          field("dilations", &DepthwiseConv::dilations)),
    op<Unfold>("unfold", 1, field("kernel", &Unfold::kernel), field("strides", &Unfold::strides),
               field("dilations", &Unfold::dilations)),
    op<Softmax>("softmax", 1, field("axis", &Softmax::axis)),
    op<Reduce>(kNamedByKind, 1, field("axes", &Reduce::axes),
               rare("keep_dims", &Reduce::keep_dims)),
    op<ArgMax>("arg_max", 1, field("axis", &ArgMax::axis), rare("keep_dims", &ArgMax::keep_dims),
               rare("minimum", &ArgMax::minimum), rare("last", &ArgMax::last)),
    op<TopK>("top_k", {2, 2, 2}, field("axis", &TopK::axis), rare("largest", &TopK::largest)),
    op<CumSum>("cum_sum", 1, field("axis", &CumSum::axis), rare("exclusive", &CumSum::exclusive),
               rare("reverse", &CumSum::reverse)),
    op<NonZero>("non_zero", 1),
    f32_op<LayerNorm>("layer_norm", {2, 3}, field("epsilon", &LayerNorm::epsilon)),
    f32_op<RmsNorm>("rms_norm", 2, field("epsilon", &RmsNorm::epsilon)),
    f32_op<Rope>("rope", 3, field("rotary_dim", &Rope::rotary_dim),
                 rare("interleaved", &Rope::interleaved), rare("heads_first", &Rope::heads_first),
                 rare("table", &Rope::table), rare("position_axes", &Rope::position_axes)),
    f32_op<Attention>("attention", {4, 6, 2}, field("heads", &Attention::heads),
                      field("kv_heads", &Attention::kv_heads),
                      field("head_dim", &Attention::head_dim), field("scale", &Attention::scale),
                      rare("softcap", &Attention::softcap), rare("window", &Attention::window),
                      rare("chunked", &Attention::chunked),
                      rare("cache_layout", &Attention::cache_layout),
                      rare("bias_by_key", &Attention::bias_by_key)),
    f32_op<CrossAttention>(
        "cross_attention", 2, field("heads", &CrossAttention::heads),
        field("kv_heads", &CrossAttention::kv_heads), field("head_dim", &CrossAttention::head_dim),
        field("scale", &CrossAttention::scale), rare("softcap", &CrossAttention::softcap)),
    f32_op<ScaledAttention>(
        "scaled_attention", {3, 5}, field("scale", &ScaledAttention::scale),
        rare("softcap", &ScaledAttention::softcap), rare("fill", &ScaledAttention::fill),
        rare("keeps", &ScaledAttention::keeps), rare("nan_is_zero", &ScaledAttention::nan_is_zero)),
    f32_op<GatedActivation>("gated_activation", 2, field("fn", &GatedActivation::function)),
    f32_op<Embedding>("embedding", 2, rare("role", &Embedding::role),
                      rare("format", &Embedding::format)),
    f32_op<Linear>("linear", {2, 6}, rare("fn", &Linear::function), rare("gated", &Linear::gated),
                   rare("norm_epsilon", &Linear::norm_epsilon),
                   rare("norm_kind", &Linear::norm_kind), rare("role", &Linear::role),
                   rare("format", &Linear::format), rare("hadamard", &Linear::hadamard)),
    f32_op<ExpertLinear>("expert_linear", {2, 4}, field("experts", &ExpertLinear::experts),
                         rare("role", &ExpertLinear::role), rare("format", &ExpertLinear::format),
                         rare("hadamard", &ExpertLinear::hadamard)),
    f32_op<QkvProjection>(
        "qkv_projection", {2, 9, 3}, field("heads", &QkvProjection::heads),
        field("kv_heads", &QkvProjection::kv_heads), field("head_dim", &QkvProjection::head_dim),
        rare("norm_epsilon", &QkvProjection::norm_epsilon),
        rare("norm_kind", &QkvProjection::norm_kind),
        rare("qk_norm_epsilon", &QkvProjection::qk_norm_epsilon),
        rare("rope", &QkvProjection::rope), rare("role", &QkvProjection::role),
        rare("format", &QkvProjection::format), rare("value_format", &QkvProjection::value_format),
        rare("hadamard", &QkvProjection::hadamard)),
    // Parameters and body are printed separately.
    op<Loop>("loop", {0, Arity::kAny, Arity::kAny}, field("count", &Loop::count),
             field("carried", &Loop::carried),
             field("per_iteration_inputs", &Loop::per_iteration_inputs),
             field("per_iteration_outputs", &Loop::per_iteration_outputs)),
    op<Parameter>("parameter", 0, field("index", &Parameter::index)),
};

template <class T, class... Members>
constexpr const OpInfo<T, Members...>& find_op(const OpInfo<T, Members...>& row) {
  return row;
}
/// The row of operator struct T.
template <class T>
inline constexpr const auto& kOpInfo = find_op<T>(kOps);

/// Whether struct T represents several operators, distinguished by `kind`.
template <class T>
concept HasKind = requires(T op) { op.kind; };

/// Returns the names of the operators that struct T represents, in the order of its kinds.
template <class T>
constexpr std::span<const std::string_view> names_of() {
  if constexpr (HasKind<T>) {
    return EnumInfo<decltype(T::kind)>::names;
  } else {
    return {&kOpInfo<T>.name, 1};
  }
}

/// Attributes of graph inputs.
inline constexpr std::tuple kInputFields{rare("kind", &Value::kind), rare("layer", &Value::layer)};

/// Calls f(field) for each attribute field of T, an operator struct or Value.
template <class T, class F>
constexpr void for_each_field(F&& f) {
  const auto visit = [&](const auto&... fields) { (f(fields), ...); };
  if constexpr (std::is_same_v<T, Value>) {
    std::apply(visit, kInputFields);
  } else {
    std::apply(visit, kOpInfo<T>.fields);
  }
}

Arity arity(const Op& op);
/// Returns all operator names, in the order of `Op`.
std::vector<std::string_view> op_names();
/// Returns the operator `name` with default attributes, or nullopt.
std::optional<Op> make_op(std::string_view name);
/// Returns the number of outputs of `op`; 0 for a Loop with invalid counts.
std::size_t output_count(const Op& op);
/// Returns an error message if the number of operands or outputs of `node` is wrong or a required
/// operand is absent, otherwise nullopt. If `outputs` is false, only operands are checked, because
/// inference runs before the outputs exist.
std::optional<std::string> operand_problem(const Node& node, bool outputs = true);

/// Returns a Diagnostic about a node: its place in the model and its operator.
Diagnostic node_failure(ErrorKind kind, const Node& node, std::string message,
                        std::string hint = {});

}  // namespace llmc::ir
