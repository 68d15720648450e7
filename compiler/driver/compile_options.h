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

namespace llmc::driver {

/// Maximum size of embedded weights; larger weights are stored in a file. A larger read-only
/// section does not link with default flags on every target.
inline constexpr std::uint64_t kMaxEmbeddedBytes = 1900ull << 20;

enum class WeightsStorage : std::uint8_t { kEmbed, kFile };

/// The prefix of all sequences: a text or token ids. If the model has a chat template, the text is
/// the system message; otherwise it is the beginning of every text.
struct SystemPrompt {
  std::string text;
  std::vector<std::int32_t> ids;
  std::string source;  // file name, for messages
};

struct CompileOptions {
  std::filesystem::path model;    // folder with a split model, or one .onnx file
  std::filesystem::path out_dir;  // the bundle's folder: created, or replaces an earlier bundle
  std::string target = "avx2";    // name or alias in compiler/target
  std::uint32_t opt_level = target::kMaxOptLevel;  // 1, 2 or 3 (compiler/target)
  ir::WeightFormat quant = ir::WeightFormat::kQ4;  // kQ4, kQ6, kQ8, kF16 or kF32
  /// Plain graphs: whether `quant` applies. If not, matrices keep their format in the model.
  bool quant_given = false;
  /// Context in tokens, > 0. Unless `ctx_given` is set, this is an upper limit: the context is also
  /// limited by the length that the model was trained for (trained_context.h) and by its position
  /// table.
  std::uint32_t ctx = 2048;
  bool ctx_given = false;
  /// Minimum context in tokens unless `ctx_given` is set, even if the model was trained for fewer
  /// tokens; 0: no minimum.
  std::uint32_t ctx_needed = 0;
  std::uint32_t block = 32;       // tokens per KV block, a multiple of 8
  KvFormats kv = {};              // KV cache formats
  std::uint32_t chunk = 0;        // tokens per prefill chunk; 0: the default of the target
  std::uint32_t threads_max = 8;  // number of workers with scratch memory in the arena
  std::uint32_t sequences = 1;    // maximum number of sequences in a session
  std::uint32_t batch = 1;        // maximum number of sequences decoded per step
  std::uint32_t pool =
      0;  // KV blocks shared by all sequences; 0: enough for a full context of each
  bool contiguous = false;  // one KV block per context
  std::string name;         // a C identifier; empty: derived from the model's path
  WeightsStorage weights = WeightsStorage::kEmbed;
  GrammarSource grammar;            // compiled in as NAME_grammar, if given
  std::uint64_t max_ram = 0;        // bytes; 0: no limit. Weights in flash do not count.
  std::string cc;                   // clang++ executable; empty: LLMC_CC, clang++-19 or clang++
  std::vector<std::string> cflags;  // appended to the compiler arguments for the model's source
  importer::ImportOptions import;
  importer::ModelReader reader;  // shares the data that it has read with copies of the options
  bool function = false;         // compile a decoder's graph as a function too
  plan::DimRanges dims;          // functions: sizes of symbolic dims
  std::optional<SystemPrompt>
      system_prompt;  // decoders: computed at compile time, read-only in the library
  /// Called after each pass with its name, its duration in seconds and, if `want_ir` is set, the
  /// graph's text.
  bool want_ir = false;
  std::function<void(std::string_view pass, double seconds, const std::string& ir_text)> on_pass;
  /// Called with the graph after all passes, before planning.
  std::function<void(const ir::Graph& stages)> on_stages;
};

}  // namespace llmc::driver
