#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/plan/kv_format.h"
#include "compiler/plan/memory.h"
#include "compiler/plan/partition.h"
#include "compiler/plan/program.h"
#include "compiler/plan/shard.h"
#include "compiler/support/result.h"
#include "compiler/target/target.h"
#include "llmc/model.h"

/// Memory plan of an emitted model, computed before compilation.
namespace llmc::plan {

/// Maximum values of the options. kMaxContext is the largest position for which the kernels' sine
/// and cosine are accurate (llmc/math.h).
inline constexpr std::uint32_t kMaxContext = 1u << 22, kMaxBlock = 1u << 16, kMaxChunk = 4096,
                               kMaxThreads = 256, kMaxSequences = 1u << 16, kMaxBatch = kMaxChunk,
                               kMaxPool = 1u << 30, kMaxInFlight = LLMC_MAX_IN_FLIGHT;

/// How the features of an encoder are computed from sound. Recorded in plan.json.
struct SoundFeatures {
  std::uint32_t rate = 16000;  // samples per second
  bool normalized = false;     // samples are scaled to mean 0 and variance 1
  std::uint32_t mels = 80;     // bands of Whisper's spectrogram (llmc_log_mel); 0: not Whisper's
};

/// How an image is resized to the size of the encoder's input. Recorded in plan.json.
struct ImageResize {
  enum class Fit : std::uint8_t { kUnknown, kExact, kShortestEdge };
  static constexpr int kMaxSide = 1 << 15, kFilters = 6;
  Fit fit = Fit::kUnknown;
  int width = 0, height = 0;            // in pixels; kShortestEdge: width is the shortest edge
  int filter = 0;                       // number of the filter in Pillow
  int crop_width = 0, crop_height = 0;  // size of the center crop after resizing; 0: no crop
  std::string unknown_key;              // configuration key that is not supported, if kUnknown
};

/// Input of the media encoder in a decoder's library (entry kEncodeMedia). A byte of an image
/// becomes (byte * rescale - mean) / deviation, with a mean and a deviation for each color. For
/// sound, see PlanOptions::sound. Recorded in plan.json.
struct MediaInput {
  enum class Kind : std::uint8_t { kImage, kSound };
  Kind kind = Kind::kImage;
  std::int32_t token = -1;  // id that marks an image or a sound in a prompt; -1: unknown
  bool known = false;       // whether the model's files define the fields below; else unused
  double rescale = 1.0 / 255;
  std::array<double, 3> mean{0, 0, 0}, deviation{1, 1, 1};
  ImageResize resize;

  bool is_sound() const { return kind == Kind::kSound; }
};

/// The formats that --fit or --max-kl chose (driver/budget.h).
struct BudgetReport {
  std::uint64_t bytes = 0;          // limit of --fit in bytes; 0: --max-kl was given
  double max_kl = 0;                // limit of --max-kl in nats per token
  std::uint64_t weights_bytes = 0;  // size of the model's packed weights
  double estimated_kl = 0;          // sum of the KL divergences of single rounded matrices, in nats
  double measured_kl = 0;    // KL divergence with all matrices but no activations rounded, in nats
  std::uint32_t tokens = 0;  // length of the text on which both are measured
  bool own_text = false;     // whether the model generated the text
  /// Matrices that have the same format: one, or the same matrix of successive layers.
  struct Matrices {
    std::string role, origin;                        // origin: untrusted text
    std::int64_t first_layer = -1, last_layer = -1;  // -1: outside the layers
    std::string format;
    std::uint64_t bytes = 0;
    double share = 0;  // fraction of estimated_kl, 0 to 1
  };
  std::vector<Matrices> matrices;
};

struct PlanOptions {
  const target::Target* target = nullptr;
  std::string name;  // a valid C identifier (emit/names.h)
  /// What the graph computes. Of the other options, only threads_max, open_dims and, for kEncode,
  /// kv change the plan of a plain graph; all are stored in it.
  ir::EntryKind entry = ir::EntryKind::kForward;
  std::uint32_t ctx = 2048, block = 32, chunk = 32, threads_max = 8;
  bool chunk_given = false;  // whether the user set `chunk`; else it is limited to ctx or batch
  /// Maximum number of sequences in a session, and maximum number of sequences decoded per step.
  /// The latter is also the maximum number of rows per head call.
  std::uint32_t sequences = 1, batch = 1;
  /// Number of KV blocks shared by all sequences; 0: enough for a full context of each sequence.
  std::uint32_t pool = 0;
  KvFormats kv = {};        // formats of the KV cache, and of what kEncode stores
  bool contiguous = false;  // one block holds a whole context; `block` is ignored
  /// Whether the user set `ctx`. If so, a shorter position table in the model is an error.
  /// Otherwise the context is the smaller of `ctx` and `trained_ctx`, but at least `ctx_needed` and
  /// at most the length of the table.
  bool ctx_given = false;
  std::uint32_t trained_ctx = 0;  // context of the model's training in tokens; 0: unknown
  std::uint32_t ctx_needed = 0;   // minimum context in tokens; 0: no minimum
  /// Encoder-decoder: limits of the number of tokens or frames of a source.
  std::uint32_t source_min = 1, source_max = 512;
  std::uint32_t sources = 1;       // encoder-decoder: number of sources in a session
  std::uint32_t source_vocab = 0;  // number of ids of a source; 0: a source is features
  SoundFeatures sound = {};
  MediaInput media = {};
  DimRanges open_dims = {};  // plain graph: ranges of symbols in the input shapes
  /// Decoder: the accelerator that computes regions of the forward pass; nullptr: none.
  /// `in_flight`: maximum number of prompt chunks in flight with a device.
  const target::Device* device = nullptr;
  std::uint32_t in_flight = 2;
  ShardOption shard = {};         // decoder: the shard to compile
  std::uint64_t source_hash = 0;  // shard: hash of model files and of options that change results
  bool embed_weights = true;
  /// Recorded in plan.json for `llmc run` on a bundle; all may be empty.
  std::string tokenizer_file, tokenizer_kind, prompt_template;
  std::string tokenizer_refused;       // why the model's tokenizer is not used; empty if it is used
  std::int64_t bos_id = -1;            // first id of every prompt; -1: unknown
  std::vector<std::int64_t> stop_ids;  // end-of-text ids
  std::vector<std::int32_t> start_ids;  // encoder-decoder: first ids of every text; may be empty
  std::uint64_t vocabulary_hash = 0;    // llmc_model.vocabulary_hash; 0: no tokenizer
  /// Kind of the compiled-in grammar, "gbnf" or "json-schema", and the size of its tables in bytes;
  /// 0: no grammar.
  std::string grammar_kind;
  std::uint64_t grammar_bytes = 0;
  /// Prompt with which all sequences begin, as token ids; its KV data is computed at compile time.
  /// `prompt_source` is its file, for messages.
  std::vector<std::int32_t> prompt;
  std::string prompt_source;
  /// Recorded in plan.json for `llmc verify` on a bundle: the requested weight format, and the
  /// golden hashes stored with the model for this format.
  std::string quant;
  std::optional<BudgetReport> budget;
  std::string calibration;  // text with which weights were calibrated (driver/calibration.h)
  bool requantize = false;  // --requantize
  std::map<std::string, std::string> golden;
};

/// Read-only data of the prompt: its KV blocks, then the final hidden row of its last token,
/// f32[hidden].
struct PromptPlan {
  std::uint32_t tokens = 0, blocks = 0;       // 0: no prompt
  std::uint64_t blocks_bytes = 0, bytes = 0;  // size of the blocks; total size, a multiple of 64
  std::uint64_t hash = 0;                     // xxh64 of the data; 0: not computed yet
};

/// The KV cache. Sizes are in bytes.
struct KvPlan {
  std::uint32_t block = 0, blocks = 0;  // tokens per block; blocks in the pool
  /// Sizes of one layer of a block, of a block, and of the pool.
  std::uint64_t layer_bytes = 0, block_bytes = 0, bytes = 0;

  /// Returns the bytes of one token in a block.
  std::uint64_t token_bytes() const { return block == 0 ? 0 : block_bytes / block; }
};

struct Plan {
  PlanOptions options;
  Program program;  // weights have their offsets
  MemoryPlan memory;
  std::optional<Partition> partition = {};  // if options.device is set
  /// Decoder: hash of the program before it is cut and partitioned, and of its encoder. Shards that
  /// balance memory also add the size of the cache.
  std::uint64_t program_hash = 0;
  KvPlan kv;
  PromptPlan prompt;
  /// Encoder-decoder: the plan of the entry kEncode, from a source (token ids or features) to its
  /// keys and values, and the size in bytes of the state of one source, for all layers.
  /// Otherwise nullptr and 0.
  std::shared_ptr<const Plan> encoder;
  std::uint64_t source_bytes = 0;
  /// Decoder: the plan of the entry kEncodeMedia, or nullptr. At most one of `encoder` and
  /// `media_encoder` is set.
  std::shared_ptr<const Plan> media_encoder;
  std::uint64_t state_bytes = 0;  // decoder: recurrent states of a sequence; a multiple of 64

  std::uint64_t weights_bytes = 0;  // packed weights; the encoder's follow those of the decoder
  /// Decoder: weights in bytes that a step reads, which are all except those of encoders and of
  /// unused table rows and experts.
  std::uint64_t weights_per_token_bytes = 0;
  std::uint64_t parameters = 0;            // decoder: number of elements in the model's weights
  std::uint64_t parameters_per_token = 0;  // of these, elements that a step reads
  /// Required RAM in bytes: session, KV cache, scratch, …. Weights are excluded, because they can
  /// be in flash or a mapped file.
  std::uint64_t arena_bytes = 0;
  std::uint64_t code_bytes = 0;  // text and tables of the archive, without weights; 0: unknown
  bool code_is_estimate = true;

  /// Returns the maximum number of prompt chunks in flight.
  std::uint32_t in_flight() const { return partition ? options.in_flight : 1; }
  /// Returns the plan of the plain graph in a decoder's library, or nullptr if there is none. Its
  /// weights follow those of the decoder, and its arena is in scratch.
  const Plan* function() const { return encoder ? encoder.get() : media_encoder.get(); }
};

/// Returns the context in tokens that the options determine. A position table of the model may
/// reduce it.
std::uint32_t context_of(const PlanOptions& options);

/// The plans of a decoder's other entries; at most one is set.
struct EncoderPlans {
  std::shared_ptr<const Plan> source = nullptr;  // kEncode
  std::shared_ptr<const Plan> media = nullptr;   // kEncodeMedia
};

/// Plans the graph of an entry after the passes. Fails like lower(), cut_shard(), partition() and
/// plan_memory(). A decoder also fails with
/// - kUsage if an option is out of range, the context that the user set exceeds the model's
///   position table, a contiguous cache has a prompt, or the arena does not fit an address space;
/// - kBadInput if the prompt fills the whole context or contains a token outside the vocabulary, a
///   model with recurrent states has a prompt, the vocabulary or the hidden size is 2^31 or more,
///   or the width of the media encoder's rows is not that of the embedding;
/// - kUnsupported if there is an encoder but no cross-attention, a media encoder but no embedding
///   that its rows can replace, or a media encoder in a shard.
Result<Plan> make_plan(const ir::Graph& graph, const PlanOptions& options,
                       EncoderPlans encoders = {});
/// Returns the number of rows that the media encoder computes in a call.
Size image_rows(const Plan& media_encoder);
/// Returns the number of features of one frame that the encoder reads; 0 if it reads token ids.
std::uint64_t source_width(const Plan& encoder);
/// Returns the unit of a source's size: "tokens" for a source_width() of 0, "samples" for 1,
/// "frames" for more.
std::string_view source_unit(std::uint64_t width);
/// Returns whether the features of a frame are adjacent: f32[…, frames, width]. Returns false if
/// the number of frames is fixed.
bool frames_first(const Plan& encoder);
/// Returns the number of rows of keys that the encoder computes for a source.
const Size& source_rows(const Plan& encoder);
/// Returns the offset in bytes of the encoder's arena in scratch; the token ids of a source are
/// before it.
std::uint64_t encoder_arena_offset(const Plan& encoder);

/// Fails with kOverBudget if the plan needs more RAM than `max_ram` bytes (0: no limit). The hint
/// names the options that reduce it.
Status check_budget(const Plan& plan, std::uint64_t max_ram);

/// A warning about options that are valid but probably unintended: a message and a suggestion.
struct Warning {
  std::string message, hint;
};
/// Returns the warning that a context of `tokens` tokens exceeds the `trained_ctx` tokens of
/// training. `what` names it in the message: "a context" or "a window".
Warning beyond_training(std::string_view what, std::uint64_t tokens, std::uint32_t trained_ctx);
/// Returns the warnings about the plan's context, sources and pool; none for a plain graph.
std::vector<Warning> warnings(const Plan& plan);

/// Returns the content of NAME.plan.json: sizes, offsets and hashes. `weights_hash` is the xxh64 of
/// the weights as 16 hexadecimal digits, or empty before they are written. The text depends only on
/// the arguments.
std::string to_json(const Plan& plan, std::string_view weights_hash);

/// Version of the kernels' arithmetic. Stored hashes of logits (driver/golden.h) are compared only
/// with code of the same version.
inline constexpr std::string_view kNumericsVersion = "2";

}  // namespace llmc::plan
