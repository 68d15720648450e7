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
#include "compiler/ir/weight_format.h"

/// The closed set of operators. Each operator is a plain struct of attributes. Its comment lists
/// the operands, which are the node's inputs, in order; a trailing `?` marks an optional operand.
/// To add an operator, define the struct here and add it to LLMC_IR_OPS. Compiler and linker errors
/// then show what is missing (docs/adding-an-op.md).
namespace llmc::ir {

class Graph;

// ---- Data movement and shapes: ONNX semantics unless noted otherwise ----------------------------

/// () -> value
struct ConstantOp {
  ConstantPtr data;
};
/// x -> x converted to element type `to` (float to integer truncates toward zero)
struct Cast {
  ElementType to = ElementType::kF32;
};
/// (x, shape i64[r]) -> x reshaped. In `shape`, 0 copies the dim of x unless allow_zero is set, and
/// one -1 is replaced by the remaining size.
struct Reshape {
  bool allow_zero = false;
};
/// x -> x with dims permuted: dim i of the result is dim perm[i] of x. An empty `perm` reverses the
/// dims.
struct Transpose {
  std::vector<std::int64_t> perm;
};
/// (x0, x1, …) -> concatenation along axis (>= 0 after import)
struct Concat {
  std::int64_t axis = 0;
};
/// (x) -> consecutive parts of x along axis, with the given sizes
struct Split {
  std::int64_t axis = 0;
  std::vector<std::int64_t> sizes;
};
/// (x, starts, ends, axes?, steps?) -> x[starts:ends:steps] along `axes` (absent: 0, 1, …)
struct Slice {};
/// Squeeze: (x) -> x without the dims of size 1 at `axes`. Unsqueeze: (x) -> x with dims of size 1
/// inserted at `axes` of the result. Axes are >= 0 and ascending after import.
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
/// (x, shape) -> x broadcast to the common shape of x and `shape`, as in ONNX
struct Expand {};
/// (x, repeats i64[rank]) -> x repeated repeats[i] times along dim i
struct Tile {};
/// x -> dims [begin, end) of x, i64. Negative bounds count from the last dim; both are clamped.
struct Shape {
  std::int64_t begin = 0;
  std::int64_t end = INT64_MAX;
};
/// (shape i64[r]) -> tensor filled with the only element of `value`
struct ConstantOfShape {
  ConstantPtr value;
};
/// (start, limit, delta) -> start, start + delta, … before limit, 1-D
struct Range {};
/// (data, indices) of equal rank -> result with the shape of indices: result[i…] is data[i…] with
/// the index along axis replaced by indices[i…]
struct GatherElements {
  std::int64_t axis = 0;
};
/// (data, indices[…, k]) -> data[b…, indices[b…, j, :]]: an index tuple addresses the k dims of
/// data that follow the first `batch_dims` dims, which both operands share
struct GatherNd {
  std::int64_t batch_dims = 0;
};
/// Function that combines a scattered element with the existing one.
enum class ScatterReduction : std::uint8_t { kNone, kAdd, kMul, kMin, kMax };
/// (data, indices, updates) -> data with updates[i…] stored at, or combined with, data[i…] with the
/// index along axis replaced by indices[i…], in row-major order of the updates
struct ScatterElements {
  std::int64_t axis = 0;
  ScatterReduction reduction = ScatterReduction::kNone;
};
/// (data, indices[…, k], updates) -> data with the slices of `updates` stored at, or combined with,
/// data[indices[j, :]]
struct ScatterNd {
  ScatterReduction reduction = ScatterReduction::kNone;
};
enum class PadMode : std::uint8_t { kConstant, kReflect, kEdge, kWrap };
/// (x, pads i64[2 rank], value?) -> x with pads[i] elements before and pads[rank + i] after dim i;
/// negative pads remove elements
struct Pad {
  PadMode mode = PadMode::kConstant;
};
/// (x, k?) -> the upper (or lower) triangle of the last two dims, whose diagonal is shifted up by
/// k; zeros elsewhere
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
/// (a, b) -> f(a, b) with numpy broadcasting. Comparisons return bools. Integer division truncates.
/// The result of kMod has the sign of the divisor for integers, and that of the dividend for
/// floats.
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
/// (x[N, C, size…], weight[M, C / groups, kernel…]) -> [N, M, positions…]: convolution as in ONNX,
/// without padding. Along each spatial dim, position p of the result and tap t of the kernel read
/// element p * stride + t * dilation of x. The M / groups channels of group g of the result read
/// the C / groups channels of group g of x.
struct Conv {
  std::vector<std::int64_t> strides, dilations;  // one per spatial dim, at least 1
  std::int64_t groups = 1;
};
/// (x[N, size…, C], weight[kernel…, C]) -> [N, positions…, C]: convolution of each channel with a
/// kernel of its own, channels last. Positions and taps are those of Conv.
struct DepthwiseConv {
  std::vector<std::int64_t> strides, dilations;  // one per spatial dim, at least 1
};
/// x[N, size…, C] -> [N, positions…, kernel… * C]: the elements that a kernel reads at each
/// position (im2col), C innermost. Along each spatial dim, position p and tap t read element p *
/// stride + t * dilation of x.
struct Unfold {
  std::vector<std::int64_t> kernel, strides, dilations;  // one per spatial dim, at least 1
};
/// x -> softmax along axis (opset 13 semantics)
struct Softmax {
  std::int64_t axis = -1;
};
enum class ReduceKind : std::uint8_t { kSum, kMean, kMax, kMin, kProd };
/// x -> x reduced over `axes`; empty: over all axes
struct Reduce {
  ReduceKind kind = ReduceKind::kSum;
  std::vector<std::int64_t> axes;
  bool keep_dims = true;
};
/// x -> i64 index of the maximum (or minimum) along axis: the first (or last) of equal elements
struct ArgMax {
  std::int64_t axis = 0;
  bool keep_dims = true;
  bool minimum = false;
  bool last = false;
};
/// (x, k i64 scalar) -> (values, i64 indices) of the k largest (or smallest) elements along axis,
/// in descending (or ascending) order; equal elements in order of their indices
struct TopK {
  std::int64_t axis = -1;
  bool largest = true;
};
/// x -> cumulative sums along axis. `reverse` sums from the end; `exclusive` excludes the element
/// itself.
struct CumSum {
  std::int64_t axis = 0;
  bool exclusive = false;
  bool reverse = false;
};
/// x[d0, d1, …] -> i64[rank, n]: the indices of the n elements that are not 0, in row-major order.
/// Each column is one index. x is not a scalar.
struct NonZero {};
/// (x[…, n], scale[n], bias[n]?) -> layer normalization over the last dim
struct LayerNorm {
  float epsilon = 1e-5f;
};

// ---- Operators created by fusion ----------------------------------------------------------------
// Activations of a decoder are [tokens, width], or any shape with the same row-major order.

/// (x[…, n], weight[n]) -> x / sqrt(mean(x^2, last dim) + epsilon) * weight   (Zhang & Sennrich
/// 2019)
struct RmsNorm {
  float epsilon = 1e-6f;
};

/// (x[1, S, heads, dim] or with `heads_first` x[1, heads, S, dim], positions i64[S elements],
/// frequencies f32[rotary_dim / 2]) -> x rotated by the angle position * frequency. Elements (i, i
/// + rotary_dim/2) form a pair, with `interleaved` elements (2i, 2i+1). Elements from rotary_dim on
/// are copied. With `table`, the third operand is f32[max_positions, rotary_dim], and each row
/// holds the cosines, then the sines, of one position. (Su et al. 2021.)
/// With `position_axes`, as in multimodal RoPE (Qwen2-VL, arXiv 2409.12191), positions are i64[n,
/// S], and pair p is rotated by the position in row position_axes[p]. `table` and `position_axes`
/// exclude each other.
struct Rope {
  std::int64_t rotary_dim = 0;
  bool interleaved = false;
  bool heads_first = false;
  bool table = false;
  std::vector<std::int64_t> position_axes = {};  // [rotary_dim / 2]; empty: one position
};

/// Order of the sequence and head dims in a cache tensor.
enum class CacheLayout : std::uint8_t {
  kSequenceFirst /* [2,1,P,kv,D] */,
  kHeadsFirst /* [2,1,kv,P,D] */
};

/// Causal grouped-query attention of S new tokens over a cache.
/// (q[1,S,heads,dim], k[1,S,kv_heads,dim], v[1,S,kv_heads,dim], past[2,1,P,kv_heads,dim] or heads
/// first, bias f32[heads,n] or absent, sinks f32[heads] or absent)
///     -> (out[1,S,heads*dim], present: past with the S new tokens appended)
/// score = scale * q.k. Query i attends to keys 0 .. P+i. With window w > 0, it attends only to the
/// last w of these keys, which include its own; with `chunked`, it attends to the keys from the
/// last multiple of w on instead. Query head h reads KV head h / (heads/kv_heads). With softcap c >
/// 0, the score is replaced by c * tanh(score / c) before masking. Then bias[h][n-1-d] is added for
/// a key at distance d before the query, or bias[h][key] with bias_by_key. P + S is at most n. With
/// sinks, the softmax includes one more key with score sinks[h] and value 0.
struct Attention {
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
  float scale = 1;
  float softcap = 0;
  std::int64_t window = 0;
  bool chunked = false;
  CacheLayout cache_layout = CacheLayout::kSequenceFirst;
  bool bias_by_key = false;
};

/// Attention of S tokens of a decoder to all T tokens of an encoded source, without a mask.
/// (q[1,S,heads,dim], source[2,kv_heads,T,dim]: keys, then values) -> out[1,S,heads*dim]
/// score = scale * q.k; with softcap c > 0, c * tanh(score / c). Query head h reads KV head
/// h / (heads/kv_heads).
struct CrossAttention {
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
  float scale = 1;
  float softcap = 0;
};

/// (q[…, S, D], k[…, D, T], v[…, T, W], bias?, mask bool?) -> softmax(s) . v, f32[…, S, W]:
/// attention without a cache. Score s is scale * q . k; with softcap c > 0, c * tanh(s / c). Then
/// the bias is added, and scores where mask != keeps are replaced by `fill`. Bias and mask are
/// broadcast to the scores; the leading dims of q, k and v are broadcast to each other (numpy).
/// With `nan_is_zero`, probabilities that are NaN are replaced by 0.
struct ScaledAttention {
  float scale = 1, softcap = 0, fill = 0;
  bool keeps = true, nan_is_zero = false;
};

/// An elementwise function, defined by the UnaryKind with the same name.
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
/// Returns the function of the unary operator, or nullopt if it is not an ActivationFn.
std::optional<ActivationFn> activation_fn(UnaryKind kind);

/// (gate, up) -> function(gate) * up   (Shazeer 2020: SwiGLU, GEGLU, ReGLU, …)
struct GatedActivation {
  ActivationFn function = ActivationFn::kSilu;
};

/// The role of a weight matrix in the model (passes/assign_weight_formats.h).
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
/// Returns the role's name in plans and emitted sources, such as "down".
std::string_view to_string(WeightRole role);

/// (ids[…], table[vocab, n]) -> f32[…, n]: rows of a constant table, as one stage. In a decoder,
/// ids are the token ids, i64[S], or the positions (learned position embedding).
struct Embedding {
  WeightRole role = WeightRole::kEmbedding;
  WeightFormat format = WeightFormat::kUnset;
};

/// With `hadamard` > 0, Linear, ExpertLinear and QkvProjection transform each row of the input,
/// after its normalization if there is one, by hadamard_input(row, hadamard) of ir/hadamard.h. The
/// weight is transformed, too, so that the product is the same except for rounding.

/// Normalization of an operand: RmsNorm or LayerNorm.
enum class NormKind : std::uint8_t { kRms, kLayer };

/// y[…, N] = function(norm(x)[…, K] . weight[N, K]^T + bias) + residual, one stage of the emitted
/// model. With `gated`, the first N/2 rows of the weight are the gate, the others `up`, and the
/// result function(gate) * up has N/2 columns. Inputs: (x, weight constant [N, K], bias[N]?,
/// norm_weight[K]?, residual?, norm_bias[K]?) with kNoValue for an absent operand. norm_weight is
/// present if and only if norm_epsilon is set. norm_bias is present only with kLayer.
struct Linear {
  ActivationFn function = ActivationFn::kNone;
  bool gated = false;
  std::optional<float> norm_epsilon;  // if set, x is normalized first
  NormKind norm_kind = NormKind::kRms;
  WeightRole role = WeightRole::kLinear;
  WeightFormat format = WeightFormat::kUnset;
  std::int64_t hadamard = 0;
};

/// y[…, N] = x[…, K] . W[N, K]^T + bias, where W and bias are those of the row's expert. Expert e
/// has rows e * N … e * N + N - 1 of the weight. The expert of a row is ids[…], clamped to 0 …
/// experts - 1. Without ids, x is […, experts, K], and row e has expert e. (x, weight constant
/// [experts * N, K], ids i64[…]?, bias[experts * N]?) -> y
struct ExpertLinear {
  std::int64_t experts = 0;
  WeightRole role = WeightRole::kLinear;
  WeightFormat format = WeightFormat::kUnset;
  std::int64_t hadamard = 0;
};

/// One stage: norm, merged q/k/v projection, bias, RMS norm of each head of q and k, RoPE. (x[…,
/// K], weight [(heads + 2*kv_heads)*dim, K], bias?, norm_weight?, positions?, frequencies or
/// table?, norm_bias?, q_norm_weight[dim]?, k_norm_weight[dim]?)
///     -> (q[1,S,heads,dim], k[1,S,kv_heads,dim], v[1,S,kv_heads,dim])
/// The weight has the rows of q, then of k, then of v. q_norm_weight and k_norm_weight are present
/// if and only if qk_norm_epsilon is set, positions and frequencies if and only if rope is.
struct QkvProjection {
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
  std::optional<float> norm_epsilon;
  NormKind norm_kind = NormKind::kRms;
  std::optional<float> qk_norm_epsilon;
  std::optional<Rope> rope;
  WeightRole role = WeightRole::kQueryKeyValue;
  WeightFormat format = WeightFormat::kUnset;
  WeightFormat value_format = WeightFormat::kUnset;  // format of the value rows; kUnset: `format`
  std::int64_t hadamard = 0;
};

/// Repeated layers with one body graph. Inputs: `carried` loop-carried values, then the
/// per-iteration inputs (caches) of iteration 0, of iteration 1, …, then invariants. Outputs: the
/// loop-carried values after the last iteration, then the per-iteration outputs (updated caches) of
/// iteration 0, of iteration 1, …. Inputs of the body graph: loop-carried values, per-iteration
/// inputs of one iteration, invariants. Constants that differ between iterations are Parameter
/// nodes in the body: parameter p in iteration i is parameters[p][i].
struct Loop {
  std::int64_t count = 0;
  std::int64_t carried = 0;
  std::int64_t per_iteration_inputs = 0;
  std::int64_t per_iteration_outputs = 0;
  std::vector<std::vector<ConstantPtr>> parameters;  // [parameter][iteration], equal types in a row
  /// Their names in the model, [parameter][iteration]; or empty.
  std::vector<std::vector<std::string>> parameter_names;
  std::shared_ptr<const Graph> body;
};
/// () -> parameters[index] of the current iteration. Only in a Loop body.
struct Parameter {
  std::int64_t index = 0;
};

/// Expands to X(name) for every operator, separated by commas. Used for the alternatives of Op, and
/// to declare one overload of a function for each operator.
#define LLMC_IR_OPS(X)                                                                           \
  X(ConstantOp), X(Cast), X(Reshape), X(Transpose), X(Concat), X(Split), X(Slice), X(Squeeze),   \
      X(Unsqueeze), X(Gather), X(GatherElements), X(GatherNd), X(ScatterElements), X(ScatterNd), \
      X(Pad), X(Expand), X(Tile), X(Shape), X(ConstantOfShape), X(Range), X(Trilu), X(Unary),    \
      X(Binary), X(Where), X(MatMul), X(Gemm), X(Conv), X(DepthwiseConv), X(Unfold), X(Softmax), \
      X(Reduce), X(ArgMax), X(TopK), X(CumSum), X(NonZero), X(LayerNorm), X(RmsNorm), X(Rope),   \
      X(Attention), X(CrossAttention), X(ScaledAttention), X(GatedActivation), X(Embedding),     \
      X(Linear), X(ExpertLinear), X(QkvProjection), X(Loop), X(Parameter)

#define LLMC_IR_OP(T) T
using Op = std::variant<LLMC_IR_OPS(LLMC_IR_OP)>;
#undef LLMC_IR_OP

/// Returns the operator's name in text form ("rms_norm", "add", "matmul", …).
std::string_view op_name(const Op& op);

}  // namespace llmc::ir
