#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compiler/exec/native.h"
#include "runtime/hosted/chat/description.h"
#include "tools/llmc/chat_format.h"
#include "tools/llmc/context_options.h"
#include "tools/llmc/grammar_options.h"
#include "tools/llmc/guidance.h"
#include "tools/llmc/image_options.h"
#include "tools/llmc/logprobs_text.h"
#include "tools/llmc/lookup.h"
#include "tools/llmc/options.h"
#include "tools/llmc/sampling_options.h"
#include "tools/llmc/source_options.h"
#include "tools/llmc/system_prompt_options.h"

/// Generation of one text with a loaded model, for `run`.
namespace llmc::cli {

/// Options of a beam search (llmc_beam_options).
struct BeamOptions {
  CLI::Option* option = nullptr;
  std::uint32_t beams = 1;
  float length_penalty = 1;
  int stopping = 0;  // LLMC_BEAMS_…

  bool on() const { return option->count() > 0; }
};

struct RunCommand {
  ModelOptions model;
  BeamOptions beams;
  SystemPromptOptions system_prompt;
  GuidanceOptions guidance;
  std::optional<std::string> prompt, file, ids;  // at most one of them
  SourceOptions source;
  std::int32_t count = 128;  // -1, -2: no limit, see add_predict()
  std::uint32_t threads = 0;
  std::uint32_t cores = LLMC_CORES_OF_TARGET;
  SamplingOptions sampling;
  GrammarOptions grammar;
  ContextOptions context;
  LookupOptions lookup;
  ImageOptions images;
  std::vector<std::string> stop_texts, dims;
  std::string load_state, save_state;  // files; empty: none
  std::uint32_t logprobs = 0;
  bool ignore_eos = false;
  bool special = false;
  bool hide_prompt = false;
  bool chat = false;
};

struct RunPrompts {
  std::vector<std::int32_t> text, negative;
  std::vector<exec::EncoderInput> sources;  // of an encoder-decoder
  std::vector<PromptImage> images;          // rows that replace tokens of `text`
  std::size_t beginning = 0;                // tokens of `text` before the user's text, such as BOS
  bool begins_empty = false;                // the session begins without the compiled-in prompt
};

/// Stop tokens and texts, and tokens that the model's files suppress.
struct RunStops {
  std::vector<std::int32_t> ids;
  std::vector<std::string> texts;
  std::vector<std::int32_t> suppressed, suppressed_first;  // at all positions; at the first one
};

/// A text of a beam search.
struct BeamText {
  std::vector<std::int32_t> ids;  // including the stop token, if it ends with one
  std::string text;
  float score = 0;
  bool stopped = false, stop_text = false;  // ends with a stop token; was cut at a stop text
};

struct RunResult {
  std::vector<BeamText> beams;  // of a beam search, best first
  std::vector<std::int32_t> ids;
  std::vector<TokenLogprobs> logprobs;  // with --logprobs, one for each id
  std::string text, hash;               // `hash`: LogitHash of all logits, with --json
  hosted::Stopped stopped = hosted::Stopped::kLength;
  std::int32_t stop_token = -1;  // with kStopToken
  // With a grammar: whether the grammar allows the text to end here; nullopt: unknown.
  std::optional<bool> complete;
  double prompt_seconds = 0, generation_seconds = 0;
  double tokens_per_pass = 0;             // with --lookup or --draft; 0: no passes
  std::optional<exec::DeviceUse> device;  // of a bundle with an accelerator
};

/// Receives the text while it is generated. Empty functions are not called.
struct RunOutput {
  std::function<void()> begin;  // after all checks, before the prompt is run
  // A token and the complete characters since the last call; `logprobs`: with --logprobs, else
  // nullptr. Returns false if they cannot be written, which ends generation.
  std::function<bool(std::int32_t id, const std::string& text, const TokenLogprobs* logprobs)>
      token;
  std::function<bool(const std::string& text)> rest;  // text withheld until the end
  std::function<void()> end_line;                     // ends the text's last line before an error
};

/// Returns an output that writes the text to standard output, as text or as JSON lines. Without
/// --json and without a tokenizer, it writes nothing.
RunOutput output_of(const RunCommand& command, const Globals& globals,
                    const hosted::Tokenizer* tokenizer, std::string shown_prompt);

/// Returns the number of compiled-in tokens before the text; 0 with `begins_empty`.
std::uint32_t compiled_in(const RunPrompts& prompts, const exec::ModelFacts& model);
/// Returns " after 12 compiled-in tokens" for messages; empty if there are none.
std::string after_compiled_in(std::uint32_t tokens);

/// Returns the sampling options, in which the tokens that are suppressed at the first position
/// (`first`) or at later positions are banned. With a grammar and --ignore-eos, stop tokens are
/// also banned, so that the text ends where the grammar ends.
SamplingOptions sampling_of(const RunCommand& command, const RunStops& stops, bool grammar,
                            bool first, std::uint32_t vocabulary);
/// Fails with kBadInput if the prompt does not fit the context.
Status check_length(const RunCommand& command, const RunPrompts& prompts,
                    const exec::ModelFacts& model);

/// Generates after `prompts.text`, constrained by `grammar` unless that is nullopt. `tokenizer` may
/// be nullptr; then the result has ids but no text. Fails with kBadInput if the prompt does not fit
/// the context.
Result<RunResult> generate(const RunCommand& command, const exec::NativeModel& native,
                           const RunPrompts& prompts, const hosted::Tokenizer* tokenizer,
                           const RunStops& stops, const std::optional<std::string>& grammar,
                           const RunOutput& output, const Globals& globals);

}  // namespace llmc::cli
