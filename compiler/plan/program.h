#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "compiler/ir/graph.h"
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
  kLastPositions,  // i32 position of the last token of each row's call
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

/// Looks up rows of a table by token id or by position; in a plain graph, by `ids`.
struct EmbeddingStage {
  WeightRef table;
  BufferId out;
  bool by_position = false;
  BufferId ids{};
};

/// Copies the rows that the caller passes in place of embeddings; the first stage of a shard
/// (shard.h).
struct InputRowsStage {
  BufferId out;
  std::uint64_t width = 0;
};

/// Computes y[tokens, n] = norm(x)[tokens, k] . W^T + bias. `epilogue` selects how y is stored:
/// kStore: out = y; kAddTo: out += y; kAddStore: out = residual + y; kGated: out = function(gate) *
/// up, where gate and up are the halves of y.
struct LinearStage {
  /// kChoose: the greatest element of y, in place of kStore in the function of greedy choices.
  enum class Epilogue : std::uint8_t { kStore, kAddTo, kAddStore, kGated, kChoose };
  Epilogue epilogue = Epilogue::kStore;
  /// Applied to y before the residual is added; kGated: to the gate.
  ir::ActivationFn function = ir::ActivationFn::kNone;
  BufferId source;
  bool quantized = false;  // `source` has the rows of a QuantizeStage
  NormInput norm;
  WeightRef weight, bias;
  WeightRef more_rows = {};  // the rows after those of `weight`, if they have a different format
  BufferId residual;         // kAddStore
  BufferId out;              // kAddTo: also the residual
  /// ir::ExpertLinear: a token has `slots` rows of `source` and `out`, and as many ids, i64, or
  /// none: then its rows are those of the experts in order. Each row reads n of the experts * n
  /// rows of the matrix. `experts` is 0 for all other layers.
  BufferId ids = {};
  std::uint64_t experts = 0, slots = 1;
  /// ir::Unfold in plain graphs: a row of the input is not k successive elements of `source` but a
  /// window. `first` are the first elements of the windows, `elements` those of one window relative
  /// to its first; their last dim is contiguous. The views have no buffer.
  struct Windows {
    View first, elements;
  };
  std::optional<Windows> windows = {};
  /// Rows and columns of the matrix in the model; kGated: `out` has n / 2 columns.
  std::uint64_t n = 0, k = 0;
};

/// Quantizes rows of k floats as products of `weight` read them, to u8[quantized_bytes(k, 1)]
/// (llmc/sizes.h): fewer bytes cross the border of a region.
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
  /// The axis of each pair (ir::Rope::position_axes); empty: the place of the token.
  std::vector<std::uint8_t> position_axes;
};

/// The source of a rotation's angles: a buffer of RopeAnglesStage, or a table of the model.
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
/// Does what `projection` does with its product, which a linear stage has stored in `product`,
/// f32[tokens, packed rows].
struct QkvFinishStage {
  QkvStage projection;
  BufferId product;
};
struct AttentionStage {
  AttentionShape shape;
  float scale = 1, softcap = 0;  // softcap 0: no cap
  std::uint64_t window = 0;      // 0: all previous keys
  bool chunked = false;          // only the keys from the last multiple of `window` on
  WeightRef bias = {};           // f32[heads][bias_columns], as in ir::Attention
  std::uint64_t bias_columns = 0;
  bool bias_by_key = false;
  WeightRef sinks = {};  // f32[heads]
  BufferId q, out;
  std::uint32_t layer = 0;
};
/// Attention to the encoded source's keys and values of layer `layer` (llmc_run::source); `layer`
/// is as in QkvStage.
struct CrossAttentionStage {
  AttentionShape shape;
  float scale = 1, softcap = 0;  // softcap 0: no cap
  BufferId q, out;
  std::uint32_t layer = 0;
};
/// Stores keys and values of a source, `x` f32[2, kv_heads, rows, head_dim], in `out`, a layer of
/// the source's state with room for `max_rows` rows.
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
  // Elements per row and per worker (CallStage::Split).
  Size row_step = 0;
  std::int64_t slot_step = 0;
};

/// A call name<types..., tags...>(buffers..., numbers...) of a kernel in templates/llmc/function/.
/// In a decoder it runs once per row.
struct CallStage {
  using Number = std::variant<Size, float, bool, Sizes>;

  std::string_view kernel;
  std::vector<ir::ElementType> types{};
  std::vector<std::string_view> tags{};
  std::vector<BufferArgument> buffers{};
  std::vector<Number> numbers{};
  bool can_fail = false;            // returns false for invalid data, such as an index out of range
  bool tiled = false;               // a product of vectors, divided among the threads
  std::uint64_t multiply_adds = 0;  // of a product or attention, per row, at the upper bounds

  /// How the call is divided among the workers of a plain graph.
  enum class Split : std::uint8_t {
    kNone,
    kRows,   // `split_number` is the row count; each buffer advances by its row_step per row
    kRange,  // `split_number` and the number after it are the computed range
  };
  Split split = Split::kNone;
  std::size_t split_number = 0;
};

/// Stores the state after the last row of each segment as the sequence's state `slot`.
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
  /// Successive stages with the same number other than 0 are a recurrence: all of them, loop nests,
  /// run for one row of a segment before any runs for the next row.
  std::uint32_t recurrence = 0;
  /// Number of the region that a device computes and that contains the stage; 0: the CPU computes
  /// it. Successive stages with the same number are one region (partition.h).
  std::uint32_t region = 0;
};

/// A recurrent state of a sequence: f32[width].
struct RecurrentState {
  BufferId before;                      // Place::kState: its value before the token of each row
  BufferId next{};                      // its value after the token of each row
  std::uint64_t width = 0, offset = 0;  // elements; bytes in the sequence's states
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
  BufferId row;     // rows of `hidden` that the head reads; shares its storage
  BufferId logits;  // in the caller's memory

  std::uint32_t layers = 0;   // number of layers in the cache
  std::uint32_t sources = 0;  // number of keys and values of a source
  std::vector<RecurrentState> states;
  AttentionShape attention;  // identical in all layers; heads 0: there is none
  AttentionShape cross;      // of the cross-attention of all layers; heads 0: there is none
  /// Encoder of an encoder-decoder: the number of rows that the decoder attends to.
  Size source_rows;
  std::uint64_t hidden_width = 0, vocabulary = 0;
  std::uint64_t positions_max = 0;  // rows of the smallest position table; 0: no limit
  std::uint32_t position_axes = 0;  // positions of a token for rotations; 0: its place alone

  bool is_plain() const { return layers == 0 && states.empty(); }
  /// Returns the bytes of a sequence's recurrent states; a multiple of 64.
  std::uint64_t state_bytes() const;
};

struct LowerOptions {
  /// Context in tokens. Rows of position tables after it are not stored. 0: all rows are stored.
  std::uint64_t context = 0;
  /// Number of workers that have separate scratch memory (plain graphs).
  std::uint32_t threads_max = 1;
  DimRanges open_dims = {};  // ranges of the symbols in the shapes of a plain graph's inputs
  /// Set for the encoder of an encoder-decoder, whose outputs are the keys and values of each
  /// layer, f32[2, kv_heads, rows, head_dim]: the formats in which they are stored as a state.
  std::optional<KvFormats> source_formats = {};
};

/// Lowers a decoder. Matrices are named by their roles and use the formats of their operators;
/// kUnset means f32. Fails with kUnsupported if a node cannot be computed token by token (one
/// diagnostic for each node; equal messages are merged) or the graph is not a decoder, and with
/// kBadInput if weights have invalid shapes.
Result<Program> lower(const ir::Graph& graph, const LowerOptions& options);

/// Lowers a plain graph. `inputs` are the graph's inputs before any pass, because passes remove
/// unused inputs. Linear layers and table lookups become kernel stages. Fails with kUnsupported,
/// with one diagnostic for each operator that has no loop nest and for each shape (at most 8) that
/// is neither fixed nor determined by the open dims.
Result<Program> lower_plain(const ir::Graph& graph, const std::vector<ir::Value>& inputs,
                            const LowerOptions& options = {});

/// Returns the weight that a stage of the body of `loop`, or of no loop (nullptr), refers to in an
/// iteration of it. The weights of all iterations have the same format and shape.
const PackedWeight& weight_of(const Program& program, WeightRef ref, const LoopStage* loop,
                              std::uint32_t iteration = 0);

/// Stores the matrix of the head's last product with split codes (llmc/quant/coded.h), if it is q6
/// and its results are the logits: greedy choices then read the upper bits of most rows alone.
void split_codes_of_head(Program& program);
/// Returns that product; nullptr if its codes are not split.
const LinearStage* chosen_from(const Program& program);

/// Buffers that a stage reads and writes, except those used inside a loop body.
struct Access {
  std::vector<BufferId> reads, writes;
};
Access access(const Stage& stage);
/// Orders the stages of a decoder's forward pass for its states (recurrence.cpp): marks the stages
/// between the value of a state before a token and the one after it as a recurrence, moves other
/// stages that read the value before the token after the recurrence, and appends the stages that
/// store the states. Fails with kUnsupported if a recurrence has a stage that is not a loop nest.
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
