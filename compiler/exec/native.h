#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/driver/compile.h"
#include "compiler/driver/progress.h"
#include "compiler/support/result.h"
#include "llmc/llmc.h"
#include "runtime/hosted/dry_breakers.h"

/// Executable compiled models for `run`, `verify`, `bench` and `ppl`, with one interface for shared
/// libraries in this process (native_library.h) and programs under an emulator (native_runner.h).
namespace llmc::exec {

struct NativeOptions {
  driver::CompileOptions compile;  // out_dir and weights are unused; model may be a bundle
  bool use_cache = true;           // false: compile into a temporary folder, removed on unload
  std::uint64_t cache_limit_bytes = std::uint64_t{8} << 30;  // beyond it, remove oldest entries
  /// Command of an emulator, used for any target; empty: find_emulator chooses.
  std::string emulator = {};
};

struct SessionOptions {
  std::uint32_t threads = 1;
  std::uint32_t chunk = 0;  // maximum prompt tokens per call; 0: the model's
  std::uint32_t cores = LLMC_CORES_OF_TARGET;
  std::uint32_t begin = LLMC_BEGIN_PROMPT;
  std::uint32_t full_context = LLMC_FULL_STATUS;  // LLMC_FULL_…
  std::uint32_t keep_first = 0;  // with LLMC_FULL_SLIDE, tokens at the start that are kept
};

/// Target and sizes of a model, from llmc_model.
struct ModelInfo {
  std::string target;
  std::uint32_t vocab = 0, layers = 0, ctx = 0, chunk = 0, kv_block = 0, threads_max = 0;
  std::uint32_t sequences = 0, batch = 0;
  std::uint32_t grammar_bytes = 0;  // tables of the compiled-in grammar; 0: none
  std::uint32_t prompt_tokens = 0;  // of the compiled-in prompt
};

/// A compiled model, loaded or ready to start. Owns its temporary files.
class NativeModel {
 public:
  virtual ~NativeModel() = default;

  virtual const std::string& name() const = 0;
  virtual const std::filesystem::path& bundle() const = 0;  // folder with NAME.h, NAME.plan.json, …
  virtual const ModelInfo& model() const = 0;
  virtual bool from_cache() const = 0;
  /// The emulator's command; empty if the code runs in this process.
  virtual const std::string& emulator() const = 0;

  /// A session with its own workers and arena. The model must outlive it. Errors of the library are
  /// kBadInput or kUnsupported and leave the session unchanged; kToolchain if the emulator ends,
  /// after which all calls fail.
  class Session {
   public:
    virtual ~Session() = default;
    /// Appends and runs `tokens`. kBadInput if they do not fit a context that does not slide, or if
    /// a token is outside the vocabulary.
    Status prefill(std::span<const std::int32_t> tokens);
    /// Logits after the last token; empty before any token. Valid until the next call.
    virtual Result<std::span<const float>> logits() = 0;
    /// Logits after token `row` of the last chunk; empty outside it.
    virtual Result<std::span<const float>> logits_at(std::uint32_t row) = 0;
    /// Logits after `rows` tokens from `row` on, concatenated, with one pass over the weights.
    /// `rows` is at most ModelInfo::batch.
    virtual Result<std::span<const float>> logits_rows(std::uint32_t row, std::uint32_t rows) = 0;
    /// Sets the sampling options; greedy by default.
    virtual Status set_sampling(const llmc_sampling& sampling) = 0;
    /// Sets biases that are added to logits (llmc_set_logit_bias).
    virtual Status set_logit_bias(std::vector<llmc_logit_bias> biases) = 0;
    /// Sets the sequence breakers of the DRY sampler (llmc_set_dry_breakers).
    virtual Status set_dry_breakers(hosted::DryBreakers breakers) = 0;
    /// Constrains the text from here on by the grammar of these tables (llmc_set_grammar); without
    /// tables, by the compiled-in grammar. kBadInput if they are damaged or of another vocabulary.
    virtual Status set_grammar(std::string_view tables) = 0;
    /// LLMC_GRAMMAR_… (llmc_text_state).
    virtual Result<int> text_state() = 0;
    /// The `n` most probable next tokens and their probabilities (llmc_candidates).
    virtual Result<std::vector<llmc_candidate>> candidates(int which, std::uint32_t n) = 0;
    /// Natural logarithm of a token's probability (llmc_logprob).
    virtual Result<float> logprob(std::int32_t token) = 0;
    /// Samples the next token.
    virtual Result<std::int32_t> sample() = 0;
    /// Samples a token and runs it.
    virtual Result<std::int32_t> step() = 0;
    /// Keeps the first `tokens` tokens.
    virtual Status rewind(std::uint32_t tokens) = 0;
    /// Restores the state of a new session.
    virtual Status reset() = 0;
    virtual std::uint32_t position() const = 0;
    /// Saves and loads the selected sequence's tokens and cache (llmc_state_save). kUnsupported
    /// under an emulator; kBadInput, without changes, for an invalid state or another model's.
    virtual Result<std::string> save_state();
    virtual Status load_state(std::string_view state);

    /// Sequences as in llmc.h; all other functions use the selected one.
    virtual Status select(std::uint32_t sequence) = 0;
    virtual Result<std::uint32_t> fork(std::uint32_t from) = 0;
    virtual Status release(std::uint32_t sequence) = 0;
    /// Sets the sequence with the negative prompt for classifier-free guidance (llmc_set_guidance).
    virtual Status set_guidance(std::uint32_t guide, float scale) = 0;
    virtual Status append_batch(std::span<const std::uint32_t> sequences,
                                std::span<const std::int32_t> tokens) = 0;
    virtual Result<std::vector<std::int32_t>> step_batch(
        std::span<const std::uint32_t> sequences) = 0;

   protected:
    Session(const ModelInfo& model, const SessionOptions& options, std::filesystem::path path)
        : context_(model.ctx),
          vocabulary_(model.vocab),
          slides_(options.full_context == LLMC_FULL_SLIDE),
          path_(std::move(path)) {}
    /// Runs checked tokens.
    virtual Status run(std::span<const std::int32_t> tokens) = 0;
    /// An error of the library; `detail`: its log, untrusted text, or the status text.
    Diagnostic refused(llmc_status status, const std::string& detail) const;

    const std::uint32_t context_, vocabulary_;
    const bool slides_;
    const std::filesystem::path path_;  // given by the user, for messages
  };
  /// Starts a session. kUsage if the library was compiled for fewer threads, kUnsupported if the
  /// CPU lacks features of the target.
  Result<std::unique_ptr<Session>> start(const SessionOptions& options) const;
  Result<std::unique_ptr<Session>> start(std::uint32_t threads) const {
    return start(SessionOptions{.threads = threads});
  }

 protected:
  /// Starts a session; the number of threads is valid.
  virtual Result<std::unique_ptr<Session>> start_session(const SessionOptions& options) const = 0;
};

/// Compiles `options.compile.model` for its target unless it is cached (key: contents of the model,
/// options, this llmc), links it and loads it or starts its runner. Bundles are only linked. Errors
/// of find_emulator if this machine cannot run the target.
Result<std::unique_ptr<NativeModel>> load_native(const NativeOptions& options,
                                                 const driver::Progress& progress = {});

}  // namespace llmc::exec
