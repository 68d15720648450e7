#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/module.h"
#include "compiler/plan/expression.h"
#include "compiler/plan/weights.h"
#include "compiler/support/result.h"
#include "llmc/quant/kv.h"

/// A lowered module, from which source is emitted: stages, which are kernel calls or loop nests,
/// with their buffers and weights. A decoder has the entries `forward` (processes a chunk of
/// tokens, with repeated layers as loops) and `head` (computes the logits of selected rows). A
/// plain graph has one entry.
namespace llmc::plan {

/// A weight that a stage reads: an element of Program::weights or, inside a loop, a field of the
/// layer's weight table.
struct WeightRef {
  std::uint32_t index = UINT32_MAX;  // index in Program::weights or LoopStage::fields
  bool per_layer = false;
  bool exists() const { return index != UINT32_MAX; }
};

/// The storage class of a buffer.
enum class Place : std::uint8_t {
  kArena,          // scratch memory of the call
  kInput,          // memory of the caller, input `slot`
  kOutput,         // memory of the caller, output `slot`
  kWeight,         // Buffer::weight, read by loop nests
  kTokens,         // i32 token id of each row
  kPositions,      // i32 position of each row's token
  kLastPositions,  // i32 position of the last token that the call appends to each row's sequence
  kState,          // Program::states[slot] before the token of each row
};

/// Storage of a value. It has `width` elements per token, or, if `one_row` is set, per row for
/// which logits are computed. In a plain graph the whole value is one row. Two values share a
/// buffer if one is a reshaped view of the other or updates it in place.
struct Buffer {
  std::string name{};  // name in the emitted source, such as "x" or "gated"; unique within its
                       // storage class
  std::uint64_t width = 0;
  bool one_row = false;
  Place place = Place::kArena;
  std::uint32_t slot = 0;  // kInput, kOutput, kState
  ir::ElementType element = ir::ElementType::kF32;
  WeightRef weight{};     // kWeight
  std::string comment{};  // dims and name of the value in the model; untrusted text
  Size size{};            // plain graph: number of elements; `width` is its upper bound

  std::uint64_t row_bytes() const { return width * ir::element_bytes(element); }
};
struct BufferId {
  std::uint32_t index = UINT32_MAX;
  friend auto operator<=>(const BufferId&, const BufferId&) = default;
  bool exists() const { return index != UINT32_MAX; }
};

/// Normalization of a linear stage's input.
struct NormInput {
  WeightRef weight;
  float epsilon = 0;
  ir::NormKind kind = ir::NormKind::kRms;
  WeightRef bias = {};  // bias of a layer norm
  bool exists() const { return weight.exists(); }
};

/// Looks up rows of a table by token id or by position; in a plain graph, by the ids in `ids`.
struct EmbeddingStage {
  WeightRef table;
  BufferId out;
  bool by_position = false;
  BufferId ids{};
};

/// Copies the rows that the caller passes in place of embeddings. Every shard but the first has it,
/// after the stages that depend only on positions (shard.h).
struct InputRowsStage {
  BufferId out;
  std::uint64_t width = 0;
};

/// Computes y[tokens, n] = norm(x)[tokens, k] . W^T + bias. `epilogue` selects how y is stored:
/// - kStore: out = y
/// - kAddTo: out += y
/// - kAddStore: out = residual + y
/// - kGated: out = function(gate) * up, where gate and up are the halves of y
/// - kChoose: stores the greatest element of y; replaces kStore in the function of greedy choices
struct LinearStage {
  enum class Epilogue : std::uint8_t { kStore, kAddTo, kAddStore, kGated, kChoose };
  Epilogue epilogue = Epilogue::kStore;
  /// Applied to y before the residual is added; kGated: to the gate.
  ir::ActivationFn function = ir::ActivationFn::kNone;
  BufferId source;
  bool quantized = false;  // `source` contains rows that a QuantizeStage has quantized
  NormInput norm;
  WeightRef weight, bias;
  WeightRef more_rows = {};  // rows that follow those of `weight`, if their format is different
  BufferId residual;         // kAddStore
  BufferId out;              // kAddTo: also the residual
  /// ir::ExpertLinear: each token has `slots` rows in `source` and in `out`, and one i64 expert id
  /// per row in `ids`. Without `ids`, row i belongs to expert i. The matrix has experts * n rows; a
  /// row is multiplied by the n rows of its expert. `experts` is 0 for all other layers.
  BufferId ids = {};
  std::uint64_t experts = 0, slots = 1;
  /// ir::Unfold in plain graphs: each input row is a window of `source` instead of k successive
  /// elements. `first` is a view of the first element of each window. `elements` is a view of one
  /// window, relative to its first element; its last dim is contiguous. The views have no buffer.
  struct Windows {
    View first, elements;
  };
  std::optional<Windows> windows = {};
  /// Rows (with experts, of each expert) and columns of the matrix. kGated: `out` has n / 2
  /// columns. Product of a QkvFinishStage: n counts packed rows.
  std::uint64_t n = 0, k = 0;
};

/// Quantizes rows of k floats to the format that products with `weight` read,
/// u8[quantized_bytes(k, 1)] per row (llmc/sizes.h). Fewer bytes then cross the border of a region.
struct QuantizeStage {
  BufferId x, out;
  WeightRef weight;
  std::uint64_t k = 0;
};

/// Computes the cosine and sine rows of the chunk's tokens, f32 [tokens, rotary_dim].
struct RopeAnglesStage {
  WeightRef frequencies;
  std::uint64_t rotary_dim = 0;
  BufferId out;
  /// Position axis of each pair of elements (ir::Rope::position_axes). Empty: all pairs rotate by
  /// the token's position in the sequence.
  std::vector<std::uint8_t> position_axes;
};

/// Source of a rotation's angles: the buffer of a RopeAnglesStage, or a table of the model.
struct Angles {
  BufferId buffer;
  WeightRef table;
  std::uint64_t rotary_dim = 0;
  bool interleaved = false;
  bool exists() const { return buffer.exists() || table.exists(); }
};

struct AttentionShape {
  std::uint64_t heads = 0, kv_heads = 0, head_dim = 0;
  friend bool operator==(const AttentionShape&, const AttentionShape&) = default;
};

/// Projects rows of width `k` to q, k and v. Stores k and v in layer `layer` of the cache; inside a
/// loop, `layer` is relative to the iteration's first layer.
struct QkvStage {
  AttentionShape shape;
  BufferId source;
  NormInput norm;
  WeightRef weight, bias;
  WeightRef value_weight;    // rows of the value heads if they have a different format
  WeightRef q_norm, k_norm;  // RMS norms of the heads: both or neither
  float qk_norm_epsilon = 0;
  Angles angles;
  BufferId q;
  std::uint32_t layer = 0;
  std::uint64_t k = 0;
};
/// The rest of `projection` after its matrix product: adds the bias, normalizes, rotates and
/// stores. A linear stage has stored the product in `product`, f32[tokens, packed rows].
struct QkvFinishStage {
  QkvStage projection;
  BufferId product;
};
struct AttentionStage {
  AttentionShape shape;
  float scale = 1, softcap = 0;  // softcap 0: no cap
  std::uint64_t window = 0;      // number of keys that a query reads at most; 0: no limit
  bool chunked = false;          // a query reads the keys from the last multiple of `window` on
  WeightRef bias = {};           // f32[heads][bias_columns], as in ir::Attention
  std::uint64_t bias_columns = 0;
  bool bias_by_key = false;
  WeightRef sinks = {};  // f32[heads]
  BufferId q, out;
  std::uint32_t layer = 0;
};
/// Cross-attention to the keys and values of layer `layer` of a source (llmc_segment::source).
/// `layer` is as in QkvStage.
struct CrossAttentionStage {
  AttentionShape shape;
  float scale = 1, softcap = 0;  // softcap 0: no cap
  BufferId q, out;
  std::uint32_t layer = 0;
};
/// Stores the keys and values of a source for one layer. `x` is f32[2, kv_heads, rows, head_dim].
/// `out` is that layer of the source's state, with room for `max_rows` rows.
struct SourceStoreStage {
  AttentionShape shape;
  KvFormats formats;
  BufferId x, out;
  Size rows;
  std::uint64_t max_rows = 0;
};
/// Normalizes each of the `parts` of a row separately; each has `width` elements. Adds `residual`,
/// if present, to the result.
struct NormStage {
  BufferId x, out, residual;
  NormInput norm;
  std::uint64_t width = 0, parts = 1;
};
struct RopeStage {
  BufferId x, out;
  Angles angles;
  std::uint64_t heads = 0, head_dim = 0;
};
struct KvStoreStage {
  AttentionShape shape;
  BufferId k, v;
  std::uint32_t layer = 0;
};
struct GatedStage {
  ir::ActivationFn function = ir::ActivationFn::kSilu;
  BufferId gate, up, out;
  std::uint64_t width = 0;
};
/// Elementwise operation. The second operand is a buffer with the same shape (`b`), a row used for
/// every token (`row`), a scalar weight that differs between the layers of a loop (`number`), or a
/// literal (`value`).
struct BinaryStage {
  ir::BinaryKind kind = ir::BinaryKind::kAdd;
  BufferId a, b, out;
  WeightRef row{}, number{};
  float value = 0;
  std::uint64_t width = 0;
};
struct UnaryStage {
  ir::UnaryKind kind = ir::UnaryKind::kNeg;
  BufferId x, out;
  std::uint64_t width = 0;
};
struct CopyStage {
  BufferId x, out;
  std::uint64_t width = 0;
};

/// One loop nest: assigns to each element of `target` the value of an expression over the same
/// dims. In a decoder it runs once per row.
struct MapStage {
  View target;
  ExpressionPtr value;
};

struct BufferArgument {
  std::uint32_t buffer = 0;  // index in Program::buffers
  Size offset = 0;           // elements
  bool written = false;
  // Distance in elements between successive rows, and between workers (CallStage::Split).
  Size row_step = 0;
  std::int64_t slot_step = 0;
};

/// A call name<types..., tags...>(buffers..., numbers...) of a kernel in templates/llmc/function/.
/// In a decoder it runs once per row.
struct CallStage {
  /// A number or a list of numbers. `name`: the field of the kernel's config that it sets, or the
  /// name of the parameter of a list; "": a plain parameter, which precede all others.
  struct Number {
    std::string_view name;
    std::variant<Size, float, bool, Sizes> value;
  };

  std::string_view kernel;
  std::vector<ir::ElementType> types{};
  std::vector<std::string_view> tags{};
  std::vector<BufferArgument> buffers{};
  std::vector<Number> numbers{};
  bool can_fail = false;            // returns false for invalid data, such as an index out of range
  bool tiled = false;               // a vectorized product, convolution or attention (NestWork)
  std::uint64_t multiply_adds = 0;  // of the call (in a decoder: per row), at the upper bounds

  /// How the call is divided among the workers of a plain graph.
  enum class Split : std::uint8_t {
    kNone,
    kRows,   // the first number is the row count; each buffer advances by row_step per row
    kRange,  // the first two numbers are the range that the call computes
  };
  Split split = Split::kNone;
};

/// Stores the state after the last row of each segment (llmc_segment) as state `slot` of the
/// segment's sequence.
struct StateStoreStage {
  BufferId next, state;  // of Program::states[slot]
  std::uint32_t slot = 0;
};

struct Stage;

/// Identical layers with one body.
struct LoopStage {
  std::string function;  // "layer", "layer_2"
  std::uint32_t count = 0;
  std::uint32_t first_layer = 0;      // cache layer of the first iteration
  std::uint32_t layers_per_pass = 1;  // layers per execution of the body
  struct Field {
    std::string name;                         // "qkv", "down_bias"
    std::vector<std::uint32_t> weights = {};  // indices in Program::weights, one per iteration
  };
  std::vector<Field> fields;
  std::vector<Stage> body;
};

struct Stage {
  std::variant<EmbeddingStage, LinearStage, RopeAnglesStage, QkvStage, AttentionStage, NormStage,
               RopeStage, KvStoreStage, GatedStage, BinaryStage, UnaryStage, CopyStage, LoopStage,
               MapStage, CallStage, CrossAttentionStage, StateStoreStage, SourceStoreStage,
               QkvFinishStage, InputRowsStage, QuantizeStage>
      op;
  ir::Origin origin;    // named in the comment at the call; untrusted text
  std::string comment;  // shapes, generated by the compiler
  /// Successive stages with the same number other than 0 are a recurrence. They are loop nests, and
  /// all of them run for one row of a segment before any runs for the next row.
  std::uint32_t recurrence = 0;
  /// Number of the region that a device computes and that contains the stage; 0: the CPU computes
  /// it. Successive stages with the same number are one region (partition.h).
  std::uint32_t region = 0;
};

/// A recurrent state of a sequence: f32[width].
struct RecurrentState {
  BufferId before;                      // Place::kState: its value before the token of each row
  BufferId next{};                      // its value after the token of each row
  std::uint64_t width = 0, offset = 0;  // in elements; in bytes, within the sequence's states
};

/// An input or output of a plain graph as seen by the caller.
struct Port {
  std::string name;  // as in the model; untrusted text
  ir::ElementType element = ir::ElementType::kF32;
  Sizes dims;
  std::uint32_t buffer = 0;

  std::uint64_t bytes() const;  // size at the upper bounds of open dims
  /// Returns the dims for the given sizes of open dims, by name.
  std::vector<std::int64_t> dims_at(const std::map<std::string, std::int64_t>& sizes) const;
  std::uint64_t bytes(const std::map<std::string, std::int64_t>& sizes) const;
};

struct Program {
  ir::EntryKind entry = ir::EntryKind::kForward;
  std::vector<PackedWeight> weights;  // in execution order, layer by layer
  std::vector<Buffer> buffers;
  std::vector<Stage> forward;         // plain graph: all stages
  std::vector<Port> inputs, outputs;  // plain graph only
  std::vector<OpenDimPtr> open_dims;  // plain graph only: set by a call, in the order of inputs
  std::vector<OpenDimPtr> quotients;  // plain graph only: computed from open_dims and each other
  // Decoders only.
  /// Stages that compute the logits of one or more rows; they read `row` and write `logits`.
  std::vector<Stage> head;
  BufferId hidden;  // final rows of a chunk: the result of `forward`
  BufferId row;     // final rows that the head reads: passed by its caller, not in scratch
  BufferId logits;  // in the caller's memory

  std::uint32_t layers = 0;   // number of layers in the cache
  std::uint32_t sources = 0;  // number of layers that have keys and values of a source
  std::vector<RecurrentState> states;
  AttentionShape attention;  // identical in all layers; heads 0: there is none
  AttentionShape cross;      // of the cross-attention of all layers; heads 0: there is none
  /// Encoder of an encoder-decoder: the number of rows that the decoder attends to.
  Size source_rows;
  std::uint64_t hidden_width = 0, vocabulary = 0;
  std::uint64_t positions_max = 0;  // size of the smallest table by position; 0: no limit
  std::uint32_t position_axes = 0;  // positions per token for rotations; 0: only its index

  bool is_plain() const { return entry != ir::EntryKind::kForward; }
  /// Returns whether the library of a decoder contains the graph, and passes it a pointer to its
  /// packed weights without a file's header.
  bool is_encoder() const {
    return entry == ir::EntryKind::kEncode || entry == ir::EntryKind::kEncodeMedia;
  }
  /// Returns the bytes of a sequence's recurrent states; a multiple of 64.
  std::uint64_t state_bytes() const;
};

struct LowerOptions {
  ir::EntryKind entry = ir::EntryKind::kForward;  // what the graph computes
  /// Context in tokens. Rows of position tables after it are not stored. 0: all rows are stored.
  std::uint64_t context = 0;
  /// Number of workers that have separate scratch memory (plain graphs).
  std::uint32_t threads_max = 1;
  DimRanges open_dims = {};  // ranges of the symbols in the shapes of a plain graph's inputs
  /// kEncode, whose outputs are the keys and values of each layer,
  /// f32[2, kv_heads, rows, head_dim]: the formats in which they are stored as a state.
  KvFormats source_formats = {};
};

/// Lowers the graph of an entry after the passes. Matrices use the formats of their operators;
/// kUnset means f32. All diagnostics are kept, except that those of several nodes with the same
/// message become one. Fails with
/// - kUnsupported in a decoder, if a node cannot be computed token by token or the graph is not a
///   decoder;
/// - kUnsupported in a plain graph, if an operator has no loop nest or a shape (at most 8 are
///   listed) is neither fixed nor determined by the open dims;
/// - kBadInput if weights have invalid shapes.
Result<Program> lower(const ir::Graph& graph, const LowerOptions& options);

/// Returns the weight to which `ref` refers in a stage of the body of `loop`, in the given
/// iteration. `loop` is nullptr for a stage outside loops. The weights of all iterations have the
/// same format and shape.
const PackedWeight& weight_of(const Program& program, WeightRef ref, const LoopStage* loop,
                              std::uint32_t iteration = 0);

/// Selects split codes (llmc/quant/coded.h) for the matrix whose product is the logits, so that
/// greedy choices read only the upper bits of most rows. Does nothing unless the matrix is large
/// and was quantized to q6, no other stage reads it, and the head consists of norms and products.
void split_codes_of_head(Program& program);
/// Returns the product whose results are the logits; nullptr if its codes are not split.
const LinearStage* greedy_choice_product(const Program& program);

/// Buffers that a stage reads and writes. Empty for a LoopStage.
struct Access {
  std::vector<BufferId> reads, writes;
};
Access access(const Stage& stage);
/// Orders the stages of a decoder's forward pass for its recurrent states (recurrence.cpp). Marks
/// the stages that compute a state after a token from the state before it as a recurrence, moves
/// other stages that read the state before a token to the place after the recurrence, and adds the
/// stages that store the states. Fails with kUnsupported if a recurrence has a stage that is not a
/// loop nest.
Status order_recurrences(Program& program);
/// Returns the number of rows of a linear stage in a plain graph, where a buffer contains all rows.
Size rows_of(const Program& program, const LinearStage& stage);
/// Returns whether any of the stages, or any stage of a loop body, is a loop nest.
bool has_nests(const std::vector<Stage>& stages);
/// Replaces the buffers that a stage reads, then those that it writes. The maps are also called for
/// absent buffers.
using BufferMap = std::function<BufferId(BufferId)>;
void replace_buffers(Stage& stage, const BufferMap& read, const BufferMap& written);

}  // namespace llmc::plan
