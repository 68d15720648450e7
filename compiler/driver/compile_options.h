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

/// Weights above this go into a file: one read-only section no longer links with default flags on
/// every target.
inline constexpr std::uint64_t kMaxEmbeddedBytes = 1900ull << 20;

enum class WeightsStorage : std::uint8_t { kEmbed, kFile };

/// What sequences begin with: a text or, in its place, token ids. Of a model with a chat template
/// the text is the system message, else what every text begins with.
struct SystemPrompt {
  std::string text;
  std::vector<std::int32_t> ids;
  std::string source;  // the file, for messages
};

struct CompileOptions {
  std::filesystem::path model;    // folder of split blocks or one .onnx file
  std::filesystem::path out_dir;  // the bundle's folder: created, or an earlier bundle replaced
  std::string target = "avx2";    // name or alias in compiler/target
  std::uint32_t opt_level = target::kMaxOptLevel;  // 1, 2 or 3 (compiler/target)
  ir::WeightFormat quant = ir::WeightFormat::kQ4;  // kQ4, kQ6, kQ8, kF16 or kF32
  /// Plain graphs: whether `quant` applies. If not they keep the formats that the model has.
  bool quant_given = false;
  /// Tokens of context, > 0. Unless `ctx_given` it is an upper limit: the context is no longer than
  /// the model was trained for (trained_context.h) and ends where its position table does.
  std::uint32_t ctx = 2048;
  bool ctx_given = false;
  /// Tokens that need room unless `ctx_given`, however few the model was trained for; 0: none.
  std::uint32_t ctx_needed = 0;
  std::uint32_t block = 32;       // tokens of a KV block, a multiple of 8
  KvFormats kv = {};              // what keys and values are kept in
  std::uint32_t chunk = 0;        // tokens of a prefill chunk; 0: the target's
  std::uint32_t threads_max = 8;  // worker slots the arena has scratch for
  std::uint32_t sequences = 1;    // maximum number in a session
  std::uint32_t batch = 1;        // maximum number stepped together
  std::uint32_t pool = 0;         // blocks for all of them; 0: all they can need
  bool contiguous = false;        // one block for a whole context
  std::string name;               // a C identifier; empty: made from the model's path
  WeightsStorage weights = WeightsStorage::kEmbed;
  GrammarSource grammar;            // compiled in as NAME_grammar, if given
  std::uint64_t max_ram = 0;        // bytes; 0: no limit. Weights that stay in flash do not count.
  std::string cc;                   // clang++ to use; empty: LLMC_CC, clang++-19, clang++
  std::vector<std::string> cflags;  // appended to clang's arguments for the model's source
  importer::ImportOptions import;
  importer::ModelReader reader;  // copies of the options share what it has read
  bool function = false;         // compile a decoder's graph as a function too (function.h)
  plan::DimRanges dims;          // functions: sizes of symbolic dims
  std::optional<SystemPrompt> system_prompt;  // decoders: computed now, read-only in the library
  /// Called after each pass with its name, time and the graph's text when `want_ir`.
  bool want_ir = false;
  std::function<void(std::string_view pass, double seconds, const std::string& ir_text)> on_pass;
  /// Called with the graph after all passes, before it is planned.
  std::function<void(const ir::Graph& stages)> on_stages;
};

}  // namespace llmc::driver
