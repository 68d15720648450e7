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

/// Compiled code that can be executed: what `run`, `verify`, `bench` and `ppl` use. A target of
/// this machine is a shared library in this process (native_library.h), any other a program under
/// an emulator (native_runner.h); who uses it need not know which.
namespace llmc::exec {

struct NativeOptions {
  driver::CompileOptions
      compile;            // out_dir and weights are not used; model may also be a bundle's folder
  bool use_cache = true;  // false: compile into a temporary folder that goes away on unload
  std::uint64_t cache_limit_bytes = std::uint64_t{8} << 30;  // oldest entries go beyond it
  /// Command that runs the code, also of this machine; empty: as find_emulator says.
  std::string emulator = {};
};

struct SessionOptions {
  std::uint32_t threads = 1;
  std::uint32_t chunk = 0;  // tokens of a prompt run at once; 0: the model's
  std::uint32_t cores = LLMC_CORES_OF_TARGET;
  std::uint32_t begin = LLMC_BEGIN_PROMPT;
  std::uint32_t full_context = LLMC_FULL_STATUS;  // LLMC_FULL_…
  std::uint32_t keep_first = 0;                   // with LLMC_FULL_SLIDE, tokens that stay for good
};

/// The numbers of llmc_model that its users need.
struct ModelFacts {
  std::string target;
  std::uint32_t vocab = 0, layers = 0, ctx = 0, chunk = 0, kv_block = 0, threads_max = 0;
  std::uint32_t sequences = 0, batch = 0;
  std::uint32_t grammar_bytes = 0;  // tables of the grammar that was compiled in; 0: there is none
  std::uint32_t prompt_tokens = 0;  // that were compiled into it
};

/// A compiled model, loaded or ready to start. Holds its files while it lives.
class NativeModel {
 public:
  virtual ~NativeModel() = default;

  virtual const std::string& name() const = 0;
  virtual const std::filesystem::path& bundle() const = 0;  // folder with NAME.h, NAME.plan.json, …
  virtual const ModelFacts& model() const = 0;
  virtual bool from_cache() const = 0;
  /// The emulator's command; empty when the code runs in this process.
  virtual const std::string& emulator() const = 0;

  /// A sequence with workers and an arena of its own. The model must outlive it. Errors: what the
  /// library refuses is kBadInput or kUnsupported and leaves the session as it was; kToolchain when
  /// an emulator ends, and everything fails from then on.
  class Session {
   public:
    virtual ~Session() = default;
    /// Runs `tokens` after what the session holds. kBadInput when the context is full, and does not
    /// slide, or a token is outside the vocabulary.
    Status prefill(std::span<const std::int32_t> tokens);
    /// After the last token; empty when nothing was run. Valid until the next call.
    virtual Result<std::span<const float>> logits() = 0;
    /// After token `row` of the last chunk that was run; empty outside it.
    virtual Result<std::span<const float>> logits_at(std::uint32_t row) = 0;
    /// After `rows` of them from `row` on, one behind the other, with one pass over the weights; at
    /// most ModelFacts::batch.
    virtual Result<std::span<const float>> logits_rows(std::uint32_t row, std::uint32_t rows) = 0;
    /// How tokens are chosen from now on; greedy at first.
    virtual Status set_sampling(const llmc_sampling& sampling) = 0;
    /// What is added to logits from now on (llmc_set_logit_bias).
    virtual Status set_logit_bias(std::vector<llmc_logit_bias> biases) = 0;
    /// What dry sees no repetition over (llmc_set_dry_breakers).
    virtual Status set_dry_breakers(hosted::DryBreakers breakers) = 0;
    /// Holds what follows here to the grammar of these tables (llmc_set_grammar), or with none to
    /// the one that was compiled in. kBadInput when they are damaged or of another vocabulary.
    virtual Status set_grammar(std::string_view tables) = 0;
    /// LLMC_GRAMMAR_… (llmc_text_state).
    virtual Result<int> text_state() = 0;
    /// The `n` likeliest next tokens and their probabilities (llmc_candidates).
    virtual Result<std::vector<llmc_candidate>> candidates(int which, std::uint32_t n) = 0;
    /// ln of the probability that the model gives to a token (llmc_logprob).
    virtual Result<float> logprob(std::int32_t token) = 0;
    /// The token that is chosen after the last one.
    virtual Result<std::int32_t> sample() = 0;
    /// Chooses a token and runs it.
    virtual Result<std::int32_t> step() = 0;
    /// Keeps the first `tokens` tokens.
    virtual Status rewind(std::uint32_t tokens) = 0;
    /// Back to what the session began with.
    virtual Status reset() = 0;
    virtual std::uint32_t position() const = 0;
    /// The selected sequence's tokens and cache as bytes (llmc_state_save), and back. kUnsupported
    /// under an emulator; what is no such state, or another model's, is kBadInput and changes
    /// nothing.
    virtual Result<std::string> save_state();
    virtual Status load_state(std::string_view state);

    /// Several sequences, as llmc.h has them; everything else is about the selected one.
    virtual Status select(std::uint32_t sequence) = 0;
    virtual Result<std::uint32_t> fork(std::uint32_t from) = 0;
    virtual Status release(std::uint32_t sequence) = 0;
    /// Another sequence that the selected one's choices move away from (llmc_set_guidance).
    virtual Status set_guidance(std::uint32_t guide, float scale) = 0;
    virtual Status append_batch(std::span<const std::uint32_t> sequences,
                                std::span<const std::int32_t> tokens) = 0;
    virtual Result<std::vector<std::int32_t>> step_batch(
        std::span<const std::uint32_t> sequences) = 0;

   protected:
    Session(const ModelFacts& model, const SessionOptions& options, std::filesystem::path path)
        : context_(model.ctx),
          vocabulary_(model.vocab),
          slides_(options.full_context == LLMC_FULL_SLIDE),
          path_(std::move(path)) {}
    /// Tokens that were checked.
    virtual Status run(std::span<const std::int32_t> tokens) = 0;
    /// An error of the library; `detail` is what it logged, untrusted text, or its status' text.
    Diagnostic refused(llmc_status status, const std::string& detail) const;

    const std::uint32_t context_, vocabulary_;
    const bool slides_;
    const std::filesystem::path path_;  // as the user gave it, for messages
  };
  /// kUsage when the library was compiled for fewer threads, kUnsupported when the CPU lacks the
  /// target's features.
  Result<std::unique_ptr<Session>> start(const SessionOptions& options) const;
  Result<std::unique_ptr<Session>> start(std::uint32_t threads) const {
    return start(SessionOptions{.threads = threads});
  }

 protected:
  /// With a number of threads that was checked.
  virtual Result<std::unique_ptr<Session>> start_session(const SessionOptions& options) const = 0;
};

/// Compiles `options.compile.model` for its target unless the cache holds it (key: contents of the
/// model, options, this llmc), links it and loads it or starts its runner. A folder that is a
/// bundle is linked as it is. Errors of find_emulator when this machine cannot run the target.
Result<std::unique_ptr<NativeModel>> load_native(const NativeOptions& options,
                                                 const driver::Progress& progress = {});

}  // namespace llmc::exec
