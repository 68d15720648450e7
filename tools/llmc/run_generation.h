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
#include "tools/llmc/logprobs_text.h"
#include "tools/llmc/options.h"
#include "tools/llmc/sampling_options.h"
#include "tools/llmc/system_prompt_options.h"

/// Generation of one text: what `run` does once the model is loaded.
namespace llmc::cli {

struct RunCommand {
  ModelOptions model;
  SystemPromptOptions system_prompt;
  GuidanceOptions guidance;
  CLI::Option *prompt_option = nullptr, *file_option = nullptr, *ids_option = nullptr;
  std::string prompt;
  std::string file;
  std::string ids;
  std::int32_t count = 128;  // -1, -2: no limit, see add_predict
  std::uint32_t threads = 0;
  std::uint32_t cores = LLMC_CORES_OF_TARGET;
  SamplingOptions sampling;
  GrammarOptions grammar;
  ContextOptions context;
  std::vector<std::string> stop_texts;
  std::uint32_t logprobs = 0;
  bool ignore_eos = false;
  bool special = false;
  bool hide_prompt = false;
  bool chat = false;
};

struct RunPrompts {
  std::vector<std::int32_t> text, negative;
  std::size_t beginning = 0;  // tokens of `text` that nobody typed: its beginning token
  bool begins_empty = false;  // without the prompt that was compiled in
};

/// What ends a text besides its length.
struct RunStops {
  std::vector<std::int32_t> ids;
  std::vector<std::string> texts;
};

struct RunResult {
  std::vector<std::int32_t> ids;
  std::vector<TokenLogprobs> logprobs;  // with --logprobs, one for each id
  std::string text, hash;
  // "length", "stop" (a stop token), "stop_text", "context" or "grammar"
  const char* stopped = "length";
  std::int32_t stop_token = -1;  // with "stop"
  std::optional<bool> complete;  // with a grammar: the text may end where it does
  double prompt_seconds = 0, generation_seconds = 0;
};

/// Receives the text while it is generated. What is empty is not called.
struct RunOutput {
  std::function<void()> begin;  // before the prompt is run: nothing can be wrong with it any more
  // A token and the whole characters that can be shown since; `said` with --logprobs, else nullptr.
  // False: they cannot be written, and generation ends.
  std::function<bool(std::int32_t id, const std::string& text, const TokenLogprobs* said)> token;
  std::function<bool(const std::string& text)> rest;  // what was withheld until the end
};

/// The tokens that were compiled in and that a text follows: none with `begins_empty`.
std::uint32_t compiled_in(const RunPrompts& prompts, const exec::ModelInfo& model);
/// For messages: " after 12 tokens that were compiled in", or nothing.
std::string after_compiled_in(std::uint32_t tokens);

/// Generates after `prompts.text`, a text of `grammar` unless that is nullopt. `tokenizer` may be
/// null: there is no text then.
Result<RunResult> generate(const RunCommand& command, const exec::NativeModel& native,
                           const RunPrompts& prompts, const hosted::Tokenizer* tokenizer,
                           const RunStops& stops, const std::optional<std::string>& grammar,
                           const RunOutput& output);

}  // namespace llmc::cli
