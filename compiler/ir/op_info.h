#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
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
  static constexpr std::array<std::string_view, 23> names{
      "identity", "neg",  "abs",       "sqrt", "reciprocal", "exp",   "log",   "sin",
      "cos",      "tanh", "sigmoid",   "erf",  "relu",       "floor", "ceil",  "not",
      "is_nan",   "gelu", "gelu_tanh", "silu", "round",      "sign",  "is_inf"};
};
template <>
struct EnumInfo<BinaryKind> {
  static constexpr std::array<std::string_view, 16> names{"add",
                                                          "sub",
                                                          "mul",
                                                          "div",
                                                          "pow",
                                                          "min",
                                                          "max",
                                                          "mod",
                                                          "equal",
                                                          "less",
                                                          "less_or_equal",
                                                          "greater",
                                                          "greater_or_equal",
                                                          "and",
                                                          "or",
                                                          "xor"};
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
struct EnumInfo<ActivationFn> {
  static constexpr std::array<std::string_view, 7> names{"none", "silu",    "gelu", "gelu_tanh",
                                                         "relu", "sigmoid", "tanh"};
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
  static constexpr std::array<std::string_view, 11> names{"embedding", "position_embedding",
                                                          "qkv",       "query_key",
                                                          "value",     "attention_out",
                                                          "gate_up",   "up",
                                                          "down",      "head",
                                                          "linear"};
};

/// Numbers of operands and results. Operands from `min_inputs` on are optional: trailing ones are
/// omitted, others are kNoValue. If `max_inputs` is kAny, no operand may be kNoValue.
struct Arity {
  static constexpr std::size_t kAny = std::numeric_limits<std::size_t>::max();
  std::size_t min_inputs = 0;
  std::size_t max_inputs = 0;
  std::size_t outputs = 1;  // kAny: depends on the attributes
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

template <class T>
struct OpInfo;

/// Base of OpInfo; describes an operator without attributes.
template <std::size_t Min, std::size_t Max = Min, std::size_t Outputs = 1>
struct PlainOp {
  static constexpr Arity arity{Min, Max, Outputs};
  static constexpr std::tuple<> fields{};
  /// Whether the operator accepts f64 operands and computes them in f64, as ONNX requires.
  static constexpr bool kTakesF64 = true;
};
/// PlainOp for an operator that computes in f32 only, also for narrower operand types.
template <std::size_t Min, std::size_t Max = Min, std::size_t Outputs = 1>
struct FusedOp : PlainOp<Min, Max, Outputs> {
  static constexpr bool kTakesF64 = false;
};

template <>
struct OpInfo<ConstantOp> : PlainOp<0> {  // the data follows the name and is not an attribute
  static constexpr std::string_view name = "constant";
};
template <>
struct OpInfo<Cast> : PlainOp<1> {
  static constexpr std::string_view name = "cast";
  static constexpr auto fields = std::tuple(field("to", &Cast::to));
};
template <>
struct OpInfo<Reshape> : PlainOp<2> {
  static constexpr std::string_view name = "reshape";
  static constexpr auto fields = std::tuple(rare("allow_zero", &Reshape::allow_zero));
};
template <>
struct OpInfo<Transpose> : PlainOp<1> {
  static constexpr std::string_view name = "transpose";
  static constexpr auto fields = std::tuple(field("perm", &Transpose::perm));
};
template <>
struct OpInfo<Concat> : PlainOp<1, Arity::kAny> {
  static constexpr std::string_view name = "concat";
  static constexpr auto fields = std::tuple(field("axis", &Concat::axis));
};
template <>
struct OpInfo<Split> : PlainOp<1, 1, Arity::kAny> {
  static constexpr std::string_view name = "split";
  static constexpr auto fields =
      std::tuple(field("axis", &Split::axis), field("sizes", &Split::sizes));
};
template <>
struct OpInfo<Slice> : PlainOp<3, 5> {
  static constexpr std::string_view name = "slice";
};
template <>
struct OpInfo<Squeeze> : PlainOp<1> {
  static constexpr std::string_view name = "squeeze";
  static constexpr auto fields = std::tuple(field("axes", &Squeeze::axes));
};
template <>
struct OpInfo<Unsqueeze> : PlainOp<1> {
  static constexpr std::string_view name = "unsqueeze";
  static constexpr auto fields = std::tuple(field("axes", &Unsqueeze::axes));
};
template <>
struct OpInfo<Gather> : PlainOp<2> {
  static constexpr std::string_view name = "gather";
  static constexpr auto fields = std::tuple(field("axis", &Gather::axis));
};
template <>
struct OpInfo<GatherElements> : PlainOp<2> {
  static constexpr std::string_view name = "gather_elements";
  static constexpr auto fields = std::tuple(field("axis", &GatherElements::axis));
};
template <>
struct OpInfo<GatherNd> : PlainOp<2> {
  static constexpr std::string_view name = "gather_nd";
  static constexpr auto fields = std::tuple(rare("batch_dims", &GatherNd::batch_dims));
};
template <>
struct OpInfo<ScatterElements> : PlainOp<3> {
  static constexpr std::string_view name = "scatter_elements";
  static constexpr auto fields = std::tuple(field("axis", &ScatterElements::axis),
                                            rare("reduction", &ScatterElements::reduction));
};
template <>
struct OpInfo<ScatterNd> : PlainOp<3> {
  static constexpr std::string_view name = "scatter_nd";
  static constexpr auto fields = std::tuple(rare("reduction", &ScatterNd::reduction));
};
template <>
struct OpInfo<Pad> : PlainOp<2, 3> {
  static constexpr std::string_view name = "pad";
  static constexpr auto fields = std::tuple(rare("mode", &Pad::mode));
};
template <>
struct OpInfo<Expand> : PlainOp<2> {
  static constexpr std::string_view name = "expand";
};
template <>
struct OpInfo<Tile> : PlainOp<2> {
  static constexpr std::string_view name = "tile";
};
template <>
struct OpInfo<Shape> : PlainOp<1> {
  static constexpr std::string_view name = "shape";
  static constexpr auto fields = std::tuple(rare("begin", &Shape::begin), rare("end", &Shape::end));
};
template <>
struct OpInfo<ConstantOfShape> : PlainOp<1> {
  static constexpr std::string_view name = "constant_of_shape";
  static constexpr auto fields = std::tuple(field("value", &ConstantOfShape::value));
};
template <>
struct OpInfo<Range> : PlainOp<3> {
  static constexpr std::string_view name = "range";
};
template <>
struct OpInfo<Trilu> : PlainOp<1, 2> {
  static constexpr std::string_view name = "trilu";
  static constexpr auto fields = std::tuple(field("upper", &Trilu::upper));
};
template <>
struct OpInfo<Unary> : PlainOp<1> {
  static constexpr auto kinds = EnumInfo<UnaryKind>::names;
};
template <>
struct OpInfo<Binary> : PlainOp<2> {
  static constexpr auto kinds = EnumInfo<BinaryKind>::names;
};
template <>
struct OpInfo<Where> : PlainOp<3> {
  static constexpr std::string_view name = "where";
};
template <>
struct OpInfo<MatMul> : PlainOp<2> {
  static constexpr std::string_view name = "matmul";
};
template <>
struct OpInfo<Gemm> : PlainOp<2, 3> {
  static constexpr std::string_view name = "gemm";
  static constexpr auto fields =
      std::tuple(rare("alpha", &Gemm::alpha), rare("beta", &Gemm::beta),
                 rare("trans_a", &Gemm::trans_a), rare("trans_b", &Gemm::trans_b));
};
template <>
struct OpInfo<Conv> : FusedOp<2> {
  static constexpr std::string_view name = "conv";
  static constexpr auto fields =
      std::tuple(field("strides", &Conv::strides), field("dilations", &Conv::dilations),
                 rare("groups", &Conv::groups));
};
template <>
struct OpInfo<Unfold> : PlainOp<1> {
  static constexpr std::string_view name = "unfold";
  static constexpr auto fields =
      std::tuple(field("kernel", &Unfold::kernel), field("strides", &Unfold::strides),
                 field("dilations", &Unfold::dilations));
};
template <>
struct OpInfo<Softmax> : PlainOp<1> {
  static constexpr std::string_view name = "softmax";
  static constexpr auto fields = std::tuple(field("axis", &Softmax::axis));
};
template <>
struct OpInfo<Reduce> : PlainOp<1> {
  static constexpr auto kinds = EnumInfo<ReduceKind>::names;
  static constexpr auto fields =
      std::tuple(field("axes", &Reduce::axes), rare("keep_dims", &Reduce::keep_dims));
};
template <>
struct OpInfo<ArgMax> : PlainOp<1> {
  static constexpr std::string_view name = "arg_max";
  static constexpr auto fields =
      std::tuple(field("axis", &ArgMax::axis), rare("keep_dims", &ArgMax::keep_dims),
                 rare("minimum", &ArgMax::minimum), rare("last", &ArgMax::last));
};
template <>
struct OpInfo<TopK> : PlainOp<2, 2, 2> {
  static constexpr std::string_view name = "top_k";
  static constexpr auto fields =
      std::tuple(field("axis", &TopK::axis), rare("largest", &TopK::largest));
};
template <>
struct OpInfo<CumSum> : PlainOp<1> {
  static constexpr std::string_view name = "cum_sum";
  static constexpr auto fields =
      std::tuple(field("axis", &CumSum::axis), rare("exclusive", &CumSum::exclusive),
                 rare("reverse", &CumSum::reverse));
};
template <>
struct OpInfo<NonZero> : PlainOp<1> {
  static constexpr std::string_view name = "non_zero";
};
template <>
struct OpInfo<LayerNorm> : FusedOp<2, 3> {
  static constexpr std::string_view name = "layer_norm";
  static constexpr auto fields = std::tuple(field("epsilon", &LayerNorm::epsilon));
};
template <>
struct OpInfo<RmsNorm> : FusedOp<2> {
  static constexpr std::string_view name = "rms_norm";
  static constexpr auto fields = std::tuple(field("epsilon", &RmsNorm::epsilon));
};
template <>
struct OpInfo<Rope> : FusedOp<3> {
  static constexpr std::string_view name = "rope";
  static constexpr auto fields =
      std::tuple(field("rotary_dim", &Rope::rotary_dim), rare("interleaved", &Rope::interleaved),
                 rare("heads_first", &Rope::heads_first), rare("table", &Rope::table),
                 rare("position_axes", &Rope::position_axes));
};
template <>
struct OpInfo<Attention> : FusedOp<4, 6, 2> {
  static constexpr std::string_view name = "attention";
  static constexpr auto fields = std::tuple(
      field("heads", &Attention::heads), field("kv_heads", &Attention::kv_heads),
      field("head_dim", &Attention::head_dim), field("scale", &Attention::scale),
      rare("softcap", &Attention::softcap), rare("window", &Attention::window),
      rare("chunked", &Attention::chunked), rare("cache_layout", &Attention::cache_layout),
      rare("bias_by_key", &Attention::bias_by_key));
};
template <>
struct OpInfo<CrossAttention> : FusedOp<2> {
  static constexpr std::string_view name = "cross_attention";
  static constexpr auto fields = std::tuple(
      field("heads", &CrossAttention::heads), field("kv_heads", &CrossAttention::kv_heads),
      field("head_dim", &CrossAttention::head_dim), field("scale", &CrossAttention::scale),
      rare("softcap", &CrossAttention::softcap));
};
template <>
struct OpInfo<ScaledAttention> : FusedOp<3, 5> {
  static constexpr std::string_view name = "scaled_attention";
  static constexpr auto fields = std::tuple(
      field("scale", &ScaledAttention::scale), rare("softcap", &ScaledAttention::softcap),
      rare("fill", &ScaledAttention::fill), rare("keeps", &ScaledAttention::keeps),
      rare("nan_is_zero", &ScaledAttention::nan_is_zero));
};
template <>
struct OpInfo<GatedActivation> : FusedOp<2> {
  static constexpr std::string_view name = "gated_activation";
  static constexpr auto fields = std::tuple(field("fn", &GatedActivation::function));
};
template <>
struct OpInfo<Embedding> : FusedOp<2> {
  static constexpr std::string_view name = "embedding";
  static constexpr auto fields =
      std::tuple(rare("role", &Embedding::role), rare("format", &Embedding::format));
};
template <>
struct OpInfo<Linear> : FusedOp<2, 6> {
  static constexpr std::string_view name = "linear";
  static constexpr auto fields =
      std::tuple(rare("fn", &Linear::function), rare("gated", &Linear::gated),
                 rare("norm_epsilon", &Linear::norm_epsilon), rare("norm_kind", &Linear::norm_kind),
                 rare("role", &Linear::role), rare("format", &Linear::format),
                 rare("hadamard", &Linear::hadamard));
};
template <>
struct OpInfo<ExpertLinear> : FusedOp<2, 4> {
  static constexpr std::string_view name = "expert_linear";
  static constexpr auto fields =
      std::tuple(field("experts", &ExpertLinear::experts), rare("role", &ExpertLinear::role),
                 rare("format", &ExpertLinear::format), rare("hadamard", &ExpertLinear::hadamard));
};
template <>
struct OpInfo<QkvProjection> : FusedOp<2, 9, 3> {
  static constexpr std::string_view name = "qkv_projection";
  static constexpr auto fields = std::tuple(
      field("heads", &QkvProjection::heads), field("kv_heads", &QkvProjection::kv_heads),
      field("head_dim", &QkvProjection::head_dim),
      rare("norm_epsilon", &QkvProjection::norm_epsilon),
      rare("norm_kind", &QkvProjection::norm_kind),
      rare("qk_norm_epsilon", &QkvProjection::qk_norm_epsilon), rare("rope", &QkvProjection::rope),
      rare("role", &QkvProjection::role), rare("format", &QkvProjection::format),
      rare("value_format", &QkvProjection::value_format),
      rare("hadamard", &QkvProjection::hadamard));
};
template <>
struct OpInfo<Loop>
    : PlainOp<0, Arity::kAny, Arity::kAny> {  // parameters and body are printed separately
  static constexpr std::string_view name = "loop";
  static constexpr auto fields =
      std::tuple(field("count", &Loop::count), field("carried", &Loop::carried),
                 field("per_iteration_inputs", &Loop::per_iteration_inputs),
                 field("per_iteration_outputs", &Loop::per_iteration_outputs));
};
template <>
struct OpInfo<Parameter> : PlainOp<0> {
  static constexpr std::string_view name = "parameter";
  static constexpr auto fields = std::tuple(field("index", &Parameter::index));
};

/// Whether struct T represents several operators, distinguished by `kind`.
template <class T>
concept HasKind = requires(T op) {
  op.kind;
  OpInfo<T>::kinds;
};

/// Calls f(field) for each attribute field of T.
template <class T, class F>
constexpr void for_each_field(F&& f) {
  std::apply([&](const auto&... fields) { (f(fields), ...); }, OpInfo<T>::fields);
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
