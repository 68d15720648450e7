#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/driver/grammar_source.h"
#include "compiler/ir/op.h"
#include "compiler/onnx/model.h"
#include "compiler/plan/plan.h"
#include "compiler/target/target.h"
#include "passes/quant_scheme.h"

namespace llmc::driver {

/// Maximum size of embedded weights in bytes; larger weights need WeightsStorage::kFile. With
/// default flags, a larger read-only section cannot be linked on every target.
inline constexpr std::uint64_t kMaxEmbeddedBytes = 1900ull << 20;

enum class WeightsStorage : std::uint8_t { kEmbed, kFile };

/// The prompt with which all sequences begin: a text or token ids. If the model has a chat
/// template, the text is the system message; otherwise it is the first text of every sequence.
struct SystemPrompt {
  std::string text;
  std::vector<std::int32_t> ids;
  std::string source;  // file name, for messages
};

/// A text that calibrates quantized matrices (--calibrate) or measures formats (--fit, --max-kl).
struct CalibrationText {
  std::string source;          // file name, for messages; "self": the model generates the text
  std::string text;            // content of the file
  bool builtin = false;        // use builtin_text() (builtin_text.h); `text` is unused
  bool parse_special = false;  // whether names of control tokens in the text become these tokens
  /// If set, the model generates the text, and `text` is unused. Returns at least `tokens` token
  /// ids, which depend only on the model and the arguments. `bos`: the id with which texts begin,
  /// or -1.
  std::function<Result<std::vector<std::int32_t>>(std::int32_t bos, std::uint32_t tokens)> write;
};

/// The limit of --fit or --max-kl, for which the format of each matrix is chosen: the bytes of all
/// weights, or the KL divergence that rounding them causes.
struct WeightBudget {
  std::uint64_t bytes = 0;  // of all weights; 0: the limit is `max_kl`
  double max_kl = 0;        // mean KL divergence from the model, in nats
  CalibrationText text;     // on which the divergence is measured
};

struct CompileOptions {
  std::filesystem::path model;    // folder of a model, or one .onnx file
  std::filesystem::path out_dir;  // the bundle's folder; created, or replaced if it is a bundle
  std::string target = "avx2";    // name or alias in compiler/target
  std::uint32_t opt_level = target::kMaxOptLevel;  // 1, 2 or 3 (compiler/target)
  passes::QuantScheme quant = passes::kQ4Mixed;    // its format is not kUnset
  bool requantize = false;  // whether matrices with integer codes are also rounded to `quant`
  /// Plain graphs: whether `quant` applies. If not, matrices keep the format that they have in the
  /// model.
  bool quant_given = false;
  /// Encoder-decoder: maximum number of tokens, samples or frames of a source; 0: a default.
  std::uint32_t source_max = 0;
  /// Encoder-decoder: number of sources in a session; 1: all sequences attend to the same one.
  std::uint32_t sources = 1;
  /// Default maximum number of tokens, of sound samples, and of frames with several features.
  static constexpr std::uint32_t kDefaultSource = 512, kDefaultSamples = 480000,
                                 kDefaultFrames = 3000;
  /// Context in tokens, > 0. If `ctx_given` is false, this is an upper limit: the context is also
  /// limited by the length that the model was trained for (trained_context.h) and by its position
  /// table.
  std::uint32_t ctx = 2048;
  bool ctx_given = false;
  /// Minimum context in tokens if `ctx_given` is false, even if the model was trained for fewer
  /// tokens; 0: no minimum.
  std::uint32_t ctx_needed = 0;
  std::uint32_t block = 32;  // tokens per KV block, a multiple of Target::token_group
  KvFormats kv = {};         // KV cache formats
  /// Tokens per prefill chunk; 0: the default of the target, limited to the context or `batch`.
  std::uint32_t chunk = 0;
  /// Maximum number of threads of a step; each has scratch memory in the arena.
  std::uint32_t threads_max = 8;
  std::uint32_t sequences = 1;  // maximum number of sequences in a session
  std::uint32_t batch = 1;      // maximum number of sequences decoded per step
  /// Number of KV blocks that all sequences share; 0: enough for a full context of every sequence.
  std::uint32_t pool = 0;
  bool contiguous = false;  // one KV block per context
  /// Decoders: name of the accelerator that computes regions of a prompt's forward pass (target/
  /// device.h); empty: none. `in_flight`: maximum number of chunks in flight.
  std::string accelerate;
  std::uint32_t in_flight = 2;
  plan::ShardOption shard;  // decoders: which of several shards; count 0: the whole model
  std::string name;         // a C identifier; empty: derived from the path of the model
  WeightsStorage weights = WeightsStorage::kEmbed;
  GrammarSource grammar;            // the grammar to compile in as NAME_grammar, if any
  std::uint64_t max_ram = 0;        // maximum arena size in bytes, without weights; 0: no limit
  std::string cc;                   // path of clang++; empty: LLMC_CC, clang++-19 or clang++
  std::vector<std::string> cflags;  // appended to the compiler arguments for the model's source
  importer::ImportOptions import;
  importer::ModelReader reader;  // copies of the options share the data that it has read
  bool function = false;         // compile the graph as a function even if it is a decoder
  plan::DimRanges dims;          // functions, media encoders: sizes or ranges of the symbolic dims
  /// Decoders: the prompt whose keys and values are computed at compile time and stored in the
  /// library.
  std::optional<SystemPrompt> system_prompt;
  std::optional<WeightBudget> budget;          // decoders: chooses formats in place of `quant`
  std::optional<CalibrationText> calibration;  // decoders; nullopt: round without calibration
  bool want_ir = false;  // whether `on_pass` gets the graph's text; otherwise it is empty
  /// Called after each pass with its name and its duration in seconds.
  std::function<void(std::string_view pass, double seconds, const std::string& ir_text)> on_pass;
  /// Called, if `want_ir`, with other dumps of a compilation and their file names, such as
  /// "partition-avx2.txt".
  std::function<void(const std::string& file, const std::string& text)> on_text;
  /// Called with the graph after all passes, before planning.
  std::function<void(const ir::Graph& stages)> on_stages;
};

}  // namespace llmc::driver
