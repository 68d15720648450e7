#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/plan/expression.h"
#include "compiler/plan/weights.h"
#include "compiler/support/result.h"

/// A module as what the emitted source computes: stages that are kernel calls or loop nests over
/// buffers and weights. A decoder has the entries `forward` (a chunk of tokens, layers rolled into
/// loops) and `head` (logits of some rows); a plain graph has one entry, which runs once.
namespace llmc::plan {

/// A weight a stage reads: one of Program::weights, or inside a loop a field of the layer's row.
struct WeightRef {
  std::uint32_t index = UINT32_MAX;  // of Program::weights, or of Loop::fields
  bool per_layer = false;
  bool exists() const { return index != UINT32_MAX; }
};

/// Where the elements of a buffer are.
enum class Place : std::uint8_t {
  kArena,      // scratch memory of the call
  kInput,      // the caller's, input `slot`
  kOutput,     // the caller's, output `slot`
  kWeight,     // Buffer::weight, read by loop nests
  kTokens,     // i32 token id of the row
  kPositions,  // i32 position of the row's token
};

/// Storage of a value: `width` elements for each token, with `one_row` for each of the rows whose
/// logits are computed; the elements of a plain graph's value, whose one row it is. Several values
/// share a buffer when one is a reshaped view of the other, or updates it in place.
struct Buffer {
  std::string name{};  // in the emitted source: "x", "q", "gated"; unique among those of its place
  std::uint64_t width = 0;
  bool one_row = false;
  Place place = Place::kArena;
  std::uint32_t slot = 0;  // kInput, kOutput
  ir::ElementType element = ir::ElementType::kF32;
  WeightRef weight{};     // kWeight
  std::string comment{};  // dims and the model's name for it; untrusted text
  Size size{};            // of a plain graph; `width` is its bound
};
struct BufferId {
  std::uint32_t index = UINT32_MAX;
  friend auto operator<=>(const BufferId&, const BufferId&) = default;
  bool exists() const { return index != UINT32_MAX; }
};

/// Normalisation of a linear stage's input.
struct NormInput {
  WeightRef weight;
  float epsilon = 0;
  ir::NormKind kind = ir::NormKind::kRms;
  WeightRef bias;  // of a layer norm
  bool exists() const { return weight.exists(); }
};

/// Rows of a table: of the tokens, or of their positions; of a plain graph, those that `ids` name.
struct EmbeddingStage {
  WeightRef table;
  BufferId out;
  bool by_position = false;
  BufferId ids{};
};

/// y[tokens, n] = norm(x)[tokens, k] . W^T + bias, stored as `epilogue` says.
struct LinearStage {
  enum class Epilogue : std::uint8_t { kStore, kAddTo, kAddStore, kGated };
  Epilogue epilogue = Epilogue::kStore;
  ir::ActivationFn function = ir::ActivationFn::kNone;  // of the product, before the residual
  BufferId source;
  NormInput norm;
  WeightRef weight, bias;
  BufferId residual;           // kAddStore
  BufferId out;                // kAddTo: the residual itself
  std::uint64_t n = 0, k = 0;  // of the matrix as the model has it; kGated: out has n / 2 columns
};

/// Cos/sin rows of the chunk's tokens, f32 [tokens, rotary_dim].
struct RopeAnglesStage {
  WeightRef frequencies;
  std::uint64_t rotary_dim = 0;
  BufferId out;
};

/// Where a rotation takes its angles from: a buffer of RopeAnglesStage, or the model's own table.
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

/// `layer` of the cache: the number here; inside a loop that many behind the iteration's first.
struct QkvStage {
  AttentionShape shape;
  BufferId source;
  NormInput norm;
  WeightRef weight, bias;
  WeightRef value_weight;    // the value heads' rows when they have a format of their own
  WeightRef q_norm, k_norm;  // RMS norms of the heads, both or none
  float qk_norm_epsilon = 0;
  Angles angles;
  BufferId q;
  std::uint32_t layer = 0;
  std::uint64_t k = 0;
};
struct AttentionStage {
  AttentionShape shape;
  float scale = 1, softcap = 0;  // softcap 0: scores as they are
  std::uint64_t window = 0;      // 0: all keys before
  BufferId q, out;
  std::uint32_t layer = 0;
};
/// Each of the `parts` of a row has `width` elements and is normalised by itself. `residual`, if
/// any, is added to the result.
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
/// The second operand is a buffer of the same shape, a row for every token, a number that is data
/// (one element: it differs between the layers of a loop), or a number in the source.
struct BinaryStage {
  ir::BinaryKind kind = ir::BinaryKind::kAdd;
  BufferId a, b, out;
  WeightRef row;
  WeightRef number{};
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

/// Elements of `target`, each the value of an expression over the same dims: one loop nest, run
/// for every row.
struct MapStage {
  View target;
  ExpressionPtr value;
};

struct BufferArgument {
  std::uint32_t buffer = 0;  // of Program::buffers
  Size offset = 0;           // elements
  bool written = false;
  // Elements per row and per worker (CallStage::Split).
  Size row_step = 0;
  std::int64_t slot_step = 0;
};

/// A call of templates/llmc/function/, for every row of a decoder: name<types...,
/// tags...>(buffers..., numbers...).
struct CallStage {
  using Number = std::variant<Size, float, bool, Sizes>;

  std::string_view kernel;
  std::vector<ir::ElementType> types;
  std::vector<std::string_view> tags;
  std::vector<BufferArgument> buffers;
  std::vector<Number> numbers;
  bool can_fail = false;  // returns false for data that makes no sense, such as a bad index
  std::uint64_t multiply_adds = 0;  // of a matrix product, for each row; at the bounds

  /// How a plain graph divides the call among workers.
  enum class Split : std::uint8_t {
    kNone,
    kRows,   // `split_number` counts rows; each buffer advances by its row_step per row
    kRange,  // `split_number` and the number after it are the range of what is computed
  };
  Split split = Split::kNone;
  std::size_t split_number = 0;
};

struct Stage;

/// Identical layers as one body.
struct LoopStage {
  std::string function;  // "layer", "layer_2"
  std::uint32_t count = 0;
  std::uint32_t first_layer = 0;      // of the cache
  std::uint32_t layers_per_pass = 1;  // one pass of the body takes so many of them
  struct Field {
    std::string name;                    // "qkv", "down_bias"
    std::vector<std::uint32_t> weights;  // of Program::weights, one per iteration
  };
  std::vector<Field> fields;
  std::vector<Stage> body;
};

struct Stage {
  std::variant<EmbeddingStage, LinearStage, RopeAnglesStage, QkvStage, AttentionStage, NormStage,
               RopeStage, KvStoreStage, GatedStage, BinaryStage, UnaryStage, CopyStage, LoopStage,
               MapStage, CallStage>
      op;
  ir::Origin origin;    // for the comment at the call; untrusted text
  std::string comment;  // shapes, made by the compiler
};

/// An input or output of a plain graph as the caller sees it.
struct Port {
  std::string name;  // as the model spells it; untrusted text
  ir::ElementType element = ir::ElementType::kF32;
  Sizes dims;
  std::uint32_t buffer = 0;

  std::uint64_t bytes() const;  // at the bounds of open dims
  /// For these sizes of the open dims, by name.
  std::vector<std::int64_t> dims_at(const std::map<std::string, std::int64_t>& sizes) const;
  std::uint64_t bytes(const std::map<std::string, std::int64_t>& sizes) const;
};

struct Program {
  std::vector<PackedWeight> weights;  // in execution order, layer by layer
  std::vector<Buffer> buffers;
  std::vector<Stage> forward;         // of a plain graph: all stages
  std::vector<Port> inputs, outputs;  // of a plain graph
  std::vector<OpenDimPtr> open_dims;  // of a plain graph, in the order of its inputs
  // Decoders only.
  std::vector<Stage> head;  // of one row or several; reads `row`, writes `logits`
  BufferId hidden;          // final rows of a chunk: forward's result
  BufferId row;             // rows of `hidden` the head is asked for; no storage of its own
  BufferId logits;          // not in scratch: the caller's

  std::uint32_t layers = 0;  // of the cache
  AttentionShape attention;  // the same in all layers
  std::uint64_t hidden_width = 0, vocabulary = 0;
  std::uint64_t positions_max = 0;  // rows of the smallest position table; 0: no such limit

  bool is_plain() const { return layers == 0; }
};

struct LowerOptions {
  /// Tokens of context: rows of position tables after them are not stored. 0: all are.
  std::uint64_t context = 0;
  /// Workers that need scratch memory of their own (plain graphs).
  std::uint32_t threads_max = 1;
  DimRanges open_dims = {};  // ranges of the symbols in the shapes of a plain graph's inputs
};

/// Lowers a decoder. Matrices are named by their roles and have the formats that their operators
/// carry; kUnset: f32. kUnsupported with one diagnostic for each node that cannot be computed token
/// by token, all at once; kBadInput for weights of impossible shapes.
Result<Program> lower(const ir::Graph& graph, const LowerOptions& options);

/// Lowers a plain graph. `inputs` are the graph's inputs before any pass, because passes drop those
/// that nothing reads. Linear layers become kernel stages. kUnsupported, all at once, for operators
/// without a loop nest and for shapes that are neither numbers nor follow from the open dims.
Result<Program> lower_plain(const ir::Graph& graph, const std::vector<ir::Value>& inputs,
                            const LowerOptions& options = {});

/// Buffers a stage reads and writes (not those inside a loop's body).
struct Access {
  std::vector<BufferId> reads, writes;
};
Access access(const Stage& stage);
/// Rows of a linear stage of a plain graph, whose buffers hold all of them.
Size rows_of(const Program& program, const LinearStage& stage);
/// Whether any of the stages, or of a loop's body, is a loop nest.
bool has_nests(const std::vector<Stage>& stages);
/// Replaces the buffers that a stage reads, then those that it writes; absent ones are passed too.
using BufferMap = std::function<BufferId(BufferId)>;
void replace_buffers(Stage& stage, const BufferMap& read, const BufferMap& written);

}  // namespace llmc::plan
