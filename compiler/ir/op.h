#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "compiler/ir/constant.h"
#include "compiler/ir/type.h"

/// The closed set of operators. Each is a plain struct of attributes. Its operands are the node's
/// inputs, in the order given in its comment (a trailing `?` marks an optional one). To add one,
/// define the struct here and add it to LLMC_IR_OPS; errors of compiler and linker then show what
/// is missing (docs/adding-an-op.md).
namespace llmc::ir {

class Graph;

// ---- Data movement and shapes: ONNX semantics unless noted otherwise ----------------------------

/// () -> value
struct ConstantOp {
  ConstantPtr data;
};
/// x -> same elements, other element type (float to integer truncates toward zero)
struct Cast {
  ElementType to = ElementType::kF32;
};
/// (x, shape i64[r]) -> x reshaped; 0 copies a dim unless allow_zero, one -1 is inferred
struct Reshape {
  bool allow_zero = false;
};
/// x -> x with dims permuted: dim i of the result is dim perm[i] of x; empty reverses the dims
struct Transpose {
  std::vector<std::int64_t> perm;
};
/// (x0, x1, …) -> concatenation along axis (>= 0 after import)
struct Concat {
  std::int64_t axis = 0;
};
/// (x) -> parts of `sizes` along axis; sizes are explicit after import
struct Split {
  std::int64_t axis = 0;
  std::vector<std::int64_t> sizes;
};
/// (x, starts, ends, axes?, steps?) -> x[starts:ends:steps]
struct Slice {};
/// (x) -> x without / with size-1 dims at `axes` (>= 0, ascending after import)
struct Squeeze {
  std::vector<std::int64_t> axes;
};
struct Unsqueeze {
  std::vector<std::int64_t> axes;
};
/// (data, indices) -> elements of data along axis; negative indices count from the end
struct Gather {
  std::int64_t axis = 0;
};
/// (x, shape) -> x broadcast to shape (in both directions, as in ONNX)
struct Expand {};
/// (x, repeats) -> x repeated
struct Tile {};
/// x -> i64[end - begin] the dims of x
struct Shape {
  std::int64_t begin = 0;
  std::int64_t end = INT64_MAX;
};
/// (shape i64[r]) -> tensor filled with the only element of `value`
struct ConstantOfShape {
  ConstantPtr value;
};
/// (start, limit, delta) -> 1-D range
struct Range {};
/// (data, indices) of equal rank -> data[…, indices[i…], …] along axis, with the shape of indices
struct GatherElements {
  std::int64_t axis = 0;
};
/// (data, indices[…, k]) -> data[b…, indices[b…, j, :]]: slices addressed by k dims after the
/// `batch_dims` leading ones that both share
struct GatherNd {
  std::int64_t batch_dims = 0;
};
/// How a scattered element is combined with the existing one.
enum class ScatterReduction : std::uint8_t { kNone, kAdd, kMul, kMin, kMax };
/// (data, indices, updates) -> data with updates[i…] stored at data[…, indices[i…], …] along axis,
/// in row-major order of the updates
struct ScatterElements {
  std::int64_t axis = 0;
  ScatterReduction reduction = ScatterReduction::kNone;
};
/// (data, indices[…, k], updates) -> data with slices stored at data[indices[j, :]]
struct ScatterNd {
  ScatterReduction reduction = ScatterReduction::kNone;
};
enum class PadMode : std::uint8_t { kConstant, kReflect, kEdge, kWrap };
/// (x, pads i64[2 rank], value?) -> x with pads[i] elements before and pads[rank + i] after dim i;
/// negative pads remove elements
struct Pad {
  PadMode mode = PadMode::kConstant;
};
/// (x, k?) -> the upper (or lower) triangle of the last two dims, shifted up by k diagonals; zeros
/// elsewhere
struct Trilu {
  bool upper = true;
};

// ---- Elementwise --------------------------------------------------------------------------------

enum class UnaryKind : std::uint8_t {
  kIdentity,
  kNeg,
  kAbs,
  kSqrt,
  kReciprocal,
  kExp,
  kLog,
  kSin,
  kCos,
  kTanh,
  kSigmoid,
  kErf,
  kRelu,
  kFloor,
  kCeil,
  kNot,
  kIsNan,
  kGelu,      // x * (1 + erf(x / sqrt 2)) / 2
  kGeluTanh,  // x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))) / 2   (Hendrycks & Gimpel 2016)
  kSilu,      // x * sigmoid(x)
  kRound /* half to even */,
  kSign,
  kIsInf
};
/// x -> f(x)
struct Unary {
  UnaryKind kind = UnaryKind::kIdentity;
};

enum class BinaryKind : std::uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kPow,
  kMin,
  kMax,
  kMod,
  kEqual,
  kLess,
  kLessOrEqual,
  kGreater,
  kGreaterOrEqual,
  kAnd,
  kOr,
  kXor
};
/// (a, b) -> f(a, b) with numpy broadcasting; comparisons give bool; integer division truncates;
/// the sign of mod is that of the divisor (for floats: of the dividend)
struct Binary {
  BinaryKind kind = BinaryKind::kAdd;
};
/// (condition, a, b) -> a if condition else b, broadcast
struct Where {};

// ---- Products and reductions --------------------------------------------------------------------

/// (a, b) -> numpy matmul, batch dims broadcast
struct MatMul {};
/// (a, b, c?) -> alpha * op(a) op(b) + beta * c
struct Gemm {
  float alpha = 1, beta = 1;
  bool trans_a = false, trans_b = false;
};
/// x -> softmax along axis (opset 13 semantics)
struct Softmax {
  std::int64_t axis = -1;
};
enum class ReduceKind : std::uint8_t { kSum, kMean, kMax, kMin, kProd };
/// x -> reduced over `axes` (explicit after import; empty = all)
struct Reduce {
  ReduceKind kind = ReduceKind::kSum;
  std::vector<std::int64_t> axes;
  bool keep_dims = true;
};
/// x -> i64 index of the maximum (minimum) along axis, the first (last) among equals
struct ArgMax {
  std::int64_t axis = 0;
  bool keep_dims = true;
  bool minimum = false;
  bool last = false;
};
/// (x, k i64 scalar) -> (values, i64 indices) of the k largest (smallest) along axis, best first,
/// the lower index first among equals
struct TopK {
  std::int64_t axis = -1;
  bool largest = true;
};
/// x -> running sums along axis, from the end with `reverse`, without the element itself with
/// `exclusive`
struct CumSum {
  std::int64_t axis = 0;
  bool exclusive = false;
  bool reverse = false;
};
/// (x, scale, bias?) -> layer normalization over the last dim
struct LayerNorm {
  float epsilon = 1e-5f;
};

// ---- Operators created by fusion ----------------------------------------------------------------
// Activations of a decoder are [tokens, width] or any shape with the same row-major bytes.

/// (x[…, n], weight[n]) -> x / sqrt(mean(x^2, last dim) + epsilon) * weight   (Zhang & Sennrich
/// 2019)
struct RmsNorm {
  float epsilon = 1e-6f;
};

/// (x[1, S, heads, dim] or with `heads_first` x[1, heads, S, dim], positions i64[S elements],
/// frequencies f32[rotary_dim / 2]) -> x rotated by the angle position * frequency. Half form: pair
/// (i, i + rotary_dim/2); interleaved: pair (2i, 2i+1). Dims from rotary_dim on are copied. With
/// `table`, the third operand is f32[max_positions, rotary_dim] = cos | sin halves. (Su et al.
/// 2021.)
struct Rope {
  std::int64_t rotary_dim = 0;
  bool interleaved = false;
  bool heads_first = false;
  bool table = false;
};

/// Order of the sequence and head dims in a cache tensor.
enum class CacheLayout : std::uint8_t {
  kSequenceFirst /* [2,1,P,kv,D] */,
  kHeadsFirst /* [2,1,kv,P,D] */
};

/// Causal grouped-query attention of S new tokens over a cache.
/// (q[1,S,heads,dim], k[1,S,kv_heads,dim], v[1,S,kv_heads,dim], past[2,1,P,kv_heads,dim] or heads
/// first)
///     -> (out[1,S,heads*dim], present: past with the S new tokens appended)
/// score = scale * q.k; query i of S sees keys 0 .. P+i, with a window w > 0 only the last w of
/// them (including its own); query head h reads KV head h / (heads/kv_heads). With softcap c > 0
/// the score is c * tanh(score / c); masking comes after that.
struct Attention {
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
  float scale = 1;
  float softcap = 0;
  std::int64_t window = 0;
  CacheLayout cache_layout = CacheLayout::kSequenceFirst;
};

/// A function of one element, defined by the UnaryKind of the same name.
enum class ActivationFn : std::uint8_t {
  kNone,
  kSilu,
  kGelu /* using erf */,
  kGeluTanh,
  kRelu,
  kSigmoid,
  kTanh
};
/// Returns the unary operator with this function; kIdentity for kNone.
UnaryKind unary_kind(ActivationFn function);
/// Returns nullopt if the operator is none of the functions above.
std::optional<ActivationFn> activation_fn(UnaryKind kind);

/// (gate, up) -> function(gate) * up   (Shazeer 2020: SwiGLU, GEGLU, ReGLU, …)
struct GatedActivation {
  ActivationFn function = ActivationFn::kSilu;
};

/// How a weight matrix is stored in the emitted library.
enum class WeightFormat : std::uint8_t { kUnset, kF32, kF16, kBF16, kQ8, kQ4, kQ6 };

/// What a weight matrix does in the model (passes/assign_weight_formats.h).
enum class WeightRole : std::uint8_t {
  kEmbedding,
  kPositionEmbedding,
  kQueryKeyValue,
  kQueryKey, /* the first rows of kQueryKeyValue */
  kValue,    /* its other rows */
  kAttentionOut,
  kGateUp,
  kUp, /* of an activation without gate */
  kDown,
  kHead,
  kLinear /* none of the others */
};
/// "down": the matrix's name in plans and emitted sources.
std::string_view to_string(WeightRole role);

/// (ids[…], table[vocab, n]) -> f32[…, n]: Gather on axis 0 of a constant table, as a stage. In a
/// decoder the ids are its tokens, i64[S], or positions (learned positions).
struct Embedding {
  WeightRole role = WeightRole::kEmbedding;
  WeightFormat format = WeightFormat::kUnset;
};

/// RmsNorm or LayerNorm.
enum class NormKind : std::uint8_t { kRms, kLayer };

/// y[…, N] = function(norm(x)[…, K] . weight[N, K]^T + bias) + residual, one stage of the emitted
/// model. `gated`: rows of the weight are gate|up, and the result function(gate) * up has N/2
/// columns. Inputs: (x, weight constant [N, K], bias?, norm_weight?, residual?, norm_bias?) with
/// kNoValue for absent ones; norm_weight is present exactly if norm_epsilon is, norm_bias only with
/// kLayer.
struct Linear {
  ActivationFn function = ActivationFn::kNone;
  bool gated = false;
  std::optional<float> norm_epsilon;  // set: x is normalized first
  NormKind norm_kind = NormKind::kRms;
  WeightRole role = WeightRole::kLinear;
  WeightFormat format = WeightFormat::kUnset;
};

/// norm + merged q/k/v projection + bias + RMS norm of each head of q and of k + RoPE, one stage.
/// (x, weight [(heads + 2*kv_heads)*dim, K], bias?, norm_weight?, positions?, frequencies or
/// table?, norm_bias?, q_norm_weight[dim]?, k_norm_weight[dim]?)
///     -> (q[1,S,heads,dim], k[1,S,kv_heads,dim], v[1,S,kv_heads,dim])
/// Both weights of the head norms are present exactly if qk_norm_epsilon is.
struct QkvProjection {
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
  std::optional<float> norm_epsilon;
  NormKind norm_kind = NormKind::kRms;
  std::optional<float> qk_norm_epsilon;
  std::optional<Rope> rope;
  WeightRole role = WeightRole::kQueryKeyValue;
  WeightFormat format = WeightFormat::kUnset;
  WeightFormat value_format = WeightFormat::kUnset;  // of the value rows; kUnset: as `format`
};

/// Repeated layers as one body. Inputs: `carried` values, then per-iteration values (cache slots)
/// grouped iteration-major, then invariants. Outputs: the carried values after the last iteration,
/// then the per-iteration results (presents), iteration-major.
/// Inputs of the body graph: carried values, per-iteration inputs of one iteration, invariants.
/// Constants that differ between iterations are Parameter nodes in the body: parameter p of
/// iteration i is parameters[p][i].
struct Loop {
  std::int64_t count = 0;
  std::int64_t carried = 0;
  std::int64_t per_iteration_inputs = 0;
  std::int64_t per_iteration_outputs = 0;
  std::vector<std::vector<ConstantPtr>> parameters;  // [parameter][iteration], equal types in a row
  std::vector<std::vector<std::string>>
      parameter_names;  // their names in the model, with the same dims
  std::shared_ptr<const Graph> body;
};
/// Only in a Loop body: () -> the constant of the current iteration
struct Parameter {
  std::int64_t index = 0;
};

/// X(name) of every operator, separated by commas: the alternatives of Op, and the declarations of
/// a function with an overload for each.
#define LLMC_IR_OPS(X)                                                                           \
  X(ConstantOp), X(Cast), X(Reshape), X(Transpose), X(Concat), X(Split), X(Slice), X(Squeeze),   \
      X(Unsqueeze), X(Gather), X(GatherElements), X(GatherNd), X(ScatterElements), X(ScatterNd), \
      X(Pad), X(Expand), X(Tile), X(Shape), X(ConstantOfShape), X(Range), X(Trilu), X(Unary),    \
      X(Binary), X(Where), X(MatMul), X(Gemm), X(Softmax), X(Reduce), X(ArgMax), X(TopK),        \
      X(CumSum), X(LayerNorm), X(RmsNorm), X(Rope), X(Attention), X(GatedActivation),            \
      X(Embedding), X(Linear), X(QkvProjection), X(Loop), X(Parameter)

#define LLMC_IR_OP(T) T
using Op = std::variant<LLMC_IR_OPS(LLMC_IR_OP)>;
#undef LLMC_IR_OP

/// Returns the operator's name in text form ("rms_norm", "add", "matmul", …).
std::string_view op_name(const Op& op);

}  // namespace llmc::ir
