#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <optional>

#include "compiler/driver/logits.h"
#include "tools/llmc/context_options.h"
#include "tools/llmc/grammar_options.h"
#include "tools/llmc/guidance.h"
#include "tools/llmc/logprobs_text.h"
#include "tools/llmc/options.h"
#include "tools/llmc/sampling_options.h"
#include "tools/llmc/system_prompt_options.h"
#include "tools/llmc/text.h"

namespace llmc::cli {
namespace {

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
  std::uint32_t logprobs = 0;
  bool ignore_eos = false;
  bool special = false;
  bool hide_prompt = false;
};

constexpr std::int32_t kUntilFull = -2;  // of -n

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Generated {
  std::vector<std::int32_t> ids;
  std::vector<TokenLogprobs> logprobs;  // with --logprobs, one for each id
  std::string text, hash;
  const char* stopped = "length";  // "length", "stop" (a stop token), "context" or "grammar"
  std::optional<bool> complete;    // with a grammar: the text may end where it does
  double prompt_seconds = 0, generation_seconds = 0;
};

/// Where the run's text goes while it is made.
struct Output {
  std::function<void()> begin;  // nothing can be wrong with the prompt any more
  // Whole characters, as they come. False: they cannot be written, and no more are wanted.
  std::function<bool(const std::string&)> text;
};

struct Prompts {
  std::vector<std::int32_t> text, negative;
  std::size_t beginning = 0;  // tokens of `text` that nobody typed: its beginning token
};

/// The options, and with a grammar and --ignore-eos no token that ends a text: it goes on as long
/// as the grammar does.
SamplingOptions sampling_of(const RunCommand& command, const hosted::Tokenizer* tokenizer,
                            bool grammar) {
  SamplingOptions options = command.sampling;
  if (grammar && command.ignore_eos && tokenizer != nullptr) {
    for (const std::int32_t id : tokenizer->stop_ids())
      options.biases.push_back({id, -std::numeric_limits<float>::infinity()});
  }
  return options;
}

/// For messages: what stands before a prompt.
std::string behind(std::uint32_t compiled_in) {
  if (compiled_in == 0) return {};
  return fmt::format(" behind {} tokens that were compiled in", compiled_in);
}

/// Generates after `prompts.text`, a text of `grammar` unless that is nullopt.
Result<Generated> generate(const RunCommand& command, const driver::NativeModel& native,
                           const Prompts& prompts, const hosted::Tokenizer* tokenizer,
                           const std::optional<std::string>& grammar, const Output& output) {
  LLMC_TRY(const std::uint32_t threads, threads_for(command.threads, native.model().threads_max));
  const std::uint32_t compiled_in = native.model().prompt_tokens;
  const std::size_t longest = std::max(prompts.text.size(), prompts.negative.size());
  if (longest > native.model().ctx - compiled_in) {
    return Diagnostic{
        .kind = ErrorKind::kBadInput,
        .file = command.model.model,
        .message = fmt::format("the prompt's {} tokens do not fit the context of {}{}", longest,
                               native.model().ctx, behind(compiled_in)),
        .hint = "give a shorter prompt, or compile with a larger --ctx"};
  }
  driver::SessionOptions start_options{.threads = threads, .cores = command.cores};
  if (command.count != kUntilFull)
    apply(command.context, native.model(), prompts.beginning, prompts.text.size(), start_options);
  LLMC_TRY(auto session, native.start(start_options));
  LLMC_RETURN_IF_ERROR(use_sampling(sampling_of(command, tokenizer, grammar.has_value()), tokenizer,
                                    native.model().vocab, *session));
  // Before the prompt for what is wrong with it, behind the prompt for what is held to it.
  if (grammar) LLMC_RETURN_IF_ERROR(session->set_grammar(*grammar));
  if (output.begin) output.begin();

  Generated result;
  driver::LogitHash hash;  // of every logit vector the run produced
  GuidedText text(*session);
  if (command.guidance.on())
    LLMC_RETURN_IF_ERROR(text.guide_away_from(prompts.negative, command.guidance.scale));
  auto start = Clock::now();
  LLMC_RETURN_IF_ERROR(session->prefill(prompts.text));
  result.prompt_seconds = seconds_since(start);
  if (grammar) LLMC_RETURN_IF_ERROR(session->set_grammar(*grammar));
  // Whether the grammar's text can only end.
  const auto is_complete = [&]() -> Result<bool> {
    if (!grammar) return false;
    LLMC_TRY(const int state, session->text_state());
    result.complete = state != LLMC_TEXT_GOES_ON;
    return state == LLMC_TEXT_COMPLETE;
  };
  const auto add_logits = [&]() -> Status {
    LLMC_TRY(const std::span<const float> logits, session->logits());
    hash.add(logits);
    return ok_status();
  };
  LLMC_RETURN_IF_ERROR(add_logits());
  LLMC_TRY(bool ended, is_complete());  // a grammar may have the empty text only
  if (ended) result.stopped = "grammar";

  std::unique_ptr<hosted::StreamDecoder> decoder;
  // A grammar's text is all that the tokens stand for, a space at its start too.
  const bool at_start =
      tokenizer && !grammar && compiled_in == 0 && tokenizer->decode(prompts.text).empty();
  if (tokenizer) decoder = std::make_unique<hosted::StreamDecoder>(*tokenizer, at_start);
  start = Clock::now();
  const auto give = [&](const std::string& piece) {
    result.text += piece;
    return piece.empty() || !output.text || output.text(piece);
  };
  const std::size_t most = command.count < 0 ? SIZE_MAX : static_cast<std::size_t>(command.count);
  while (!ended && result.ids.size() < most) {
    LLMC_TRY(const std::int32_t token, session->sample());
    if (!command.ignore_eos && tokenizer && tokenizer->is_stop(token)) {
      result.stopped = "stop";
      break;
    }
    result.ids.push_back(token);
    if (command.logprobs > 0) {
      TokenLogprobs said;
      LLMC_TRY(said.chosen, session->logprob(token));
      LLMC_TRY(said.likeliest, session->candidates(LLMC_CANDIDATES_MODEL, command.logprobs));
      result.logprobs.push_back(std::move(said));
    }
    if (decoder && !give(decoder->add(token))) break;  // run() looks at stdout itself
    const bool last = result.ids.size() == most;
    if (last && !grammar) break;  // its successor is not wanted
    if (!has_room(start_options, native.model(), text.position())) {
      result.stopped = last ? "length" : "context";
      result.complete.reset();  // the cache has no room for the token that would tell
      break;
    }
    LLMC_RETURN_IF_ERROR(text.append(token));
    LLMC_TRY(ended, is_complete());
    if (ended) result.stopped = "grammar";
    if (!last && !ended) LLMC_RETURN_IF_ERROR(add_logits());
  }
  if (decoder) give(decoder->finish());
  result.generation_seconds = seconds_since(start);
  result.hash = hash.text();
  return result;
}

/// Ids of a text; of which option it is, for messages. Behind a prompt that was compiled in it has
/// no beginning token, and may be empty.
Result<std::vector<std::int32_t>> ids_of(const RunCommand& command, const std::string& text,
                                         const char* option, const driver::ModelFacts& model,
                                         const hosted::Tokenizer* tokenizer) {
  const std::uint32_t vocabulary = model.vocab;
  const bool first = model.prompt_tokens == 0;
  auto ids = tokenizer->encode(text, {.add_prefix = first, .parse_special = command.special});
  if (first && ids.empty()) {
    return usage_error("the prompt has no tokens and the model no beginning token",
                       fmt::format("give some text with {}", option));
  }
  for (const std::int32_t id : ids) {
    if (static_cast<std::uint32_t>(id) < vocabulary) continue;
    return Diagnostic{.kind = ErrorKind::kBadInput,
                      .file = command.model.model,
                      .message = fmt::format("the tokenizer gives id {}, the model knows {} tokens",
                                             id, vocabulary),
                      .hint = "the tokenizer belongs to another model"};
  }
  return ids;
}

/// The prompts' ids, that of the text from --ids or through the tokenizer like the other one.
Result<Prompts> prompt_ids(const RunCommand& command, const std::string& text,
                           const std::string& negative, const driver::ModelFacts& model,
                           const hosted::Tokenizer* tokenizer) {
  Prompts prompts;
  if (command.guidance.on()) {
    LLMC_TRY(prompts.negative,
             ids_of(command, negative, "--cfg-negative-prompt", model, tokenizer));
  }
  if (command.ids_option->count() > 0) {
    LLMC_TRY(prompts.text,
             parse_numbers(command.ids, "--ids", static_cast<std::int64_t>(model.vocab) - 1));
  } else {
    LLMC_TRY(prompts.text, ids_of(command, text, "-p, or ids with --ids", model, tokenizer));
    const bool begins = model.prompt_tokens == 0 && !prompts.text.empty();
    prompts.beginning = begins && tokenizer->bos() == prompts.text.front() ? 1 : 0;
  }
  return prompts;
}

/// What ended the text, for people.
std::string stop_reason(const Generated& result, std::uint32_t context, bool grammar) {
  if (result.stopped == std::string_view("stop")) return "ended with a stop token";
  std::string partial;
  if (grammar && !result.complete.value_or(false))
    partial =
        fmt::format(", and the grammar's text {} incomplete", result.complete ? "is" : "may be");
  if (result.stopped == std::string_view("context"))
    return fmt::format("stopped: the context of {} tokens is full{}", context, partial);
  if (result.stopped == std::string_view("grammar")) return "the grammar's text is complete";
  return "stopped at -n" + partial + (partial.empty() ? "" : ": a larger -n goes on");
}

/// An option's text, or the content of the file given instead.
Result<std::string> text_of(const std::string& text, const CLI::Option* file_option,
                            const std::string& file) {
  if (file_option->count() == 0) return text;
  return read_prompt(file);
}

int run(RunCommand& command, const Globals& globals) {
  const bool by_ids = command.ids_option->count() > 0;
  if (!by_ids && command.prompt_option->count() + command.file_option->count() == 0) {
    return fail(usage_error("a prompt is required: --prompt, --file or --ids",
                            "-p '' starts with an empty text"));
  }
  if (by_ids) {  // what can be told before anything is compiled
    if (const auto ids = parse_numbers(command.ids, "--ids"); !ids.ok()) return fail(ids.error());
  }
  if (const auto whole = check_guidance(command.guidance); !whole.ok()) return fail(whole.error());
  const auto prompt = text_of(command.prompt, command.file_option, command.file);
  if (!prompt.ok()) return fail(prompt.error());
  const auto negative =
      text_of(command.guidance.prompt, command.guidance.file_option, command.guidance.file);
  if (!negative.ok()) return fail(negative.error());
  // A run by ids needs no tokenizer, and uses one for the text if it is there.
  if (const auto checked = compile_options(command.model); !checked.ok())
    return fail(checked.error());
  if (const Status read = apply(command.system_prompt, command.model.compile); !read.ok())
    return fail(read.error());
  const auto source = grammar_source(command.grammar);
  if (!source.ok()) return fail(source.error());
  if (const auto able = check_context(command.context, source->given(), command.guidance.on());
      !able.ok())
    return fail(able.error());
  note_idle_sampling(command.sampling, globals);
  std::unique_ptr<hosted::Tokenizer> tokenizer;
  auto loaded = load_tokenizer(command.model.model, "without one, --ids takes token ids",
                               by_ids ? Wanted::kTokenizerAlone : Wanted::kModel);
  if (loaded.ok()) {
    tokenizer = std::move(*loaded);
  } else if (!by_ids || command.guidance.on()) {
    return fail(loaded.error());
  }
  const auto native = load(command.model, globals);
  if (!native.ok()) return fail(native.error());
  if (const auto able = check_guidance(command.guidance, (*native)->model()); !able.ok())
    return fail(able.error());
  const auto prompts = prompt_ids(command, *prompt, *negative, (*native)->model(), tokenizer.get());
  if (!prompts.ok()) return fail(prompts.error());
  const std::vector<std::int32_t>& ids = prompts->text;
  const auto grammar = grammar_for(command.grammar, *source, command.model, (*native)->model(),
                                   tokenizer.get(), globals);
  if (!grammar.ok()) return fail(grammar.error());
  if (const Status able =
          check_context(command.context, grammar->has_value(), command.guidance.on());
      !able.ok())
    return fail(able.error());

  Output output;
  if (!globals.json && tokenizer) {
    output.text = [](const std::string& text) {
      print_text(text);
      return finish_stdout();
    };
    if (!command.hide_prompt)
      output.begin = [&] { output.text(by_ids ? tokenizer->decode(ids) : *prompt); };
  }
  const auto result = generate(command, **native, *prompts, tokenizer.get(), *grammar, output);
  if (!result.ok()) return fail(result.error());
  if (!finish_stdout()) return 0;  // main() says so and has the exit code
  const double generated = static_cast<double>(result->ids.size());
  const double prompt_rate = static_cast<double>(ids.size()) / result->prompt_seconds;
  const double rate = result->generation_seconds > 0 ? generated / result->generation_seconds : 0;
  if (globals.json) {
    Json json{{"prompt_ids", ids},
              {"ids", result->ids},
              {"text", result->text},
              {"logits_hash", result->hash},
              {"stopped", result->stopped},
              {"target", (*native)->model().target},
              {"prompt_tokens_per_second", prompt_rate},
              {"tokens_per_second", rate}};
    json["seed"] = command.sampling.sampling.seed;
    if (*grammar) json["complete"] = result->complete ? Json(*result->complete) : Json();
    if (const std::uint32_t tokens = (*native)->model().prompt_tokens; tokens > 0)
      json["system_prompt_tokens"] = tokens;
    if (command.logprobs > 0)
      json["logprobs"] = logprobs_json(result->ids, result->logprobs, tokenizer.get());
    print_json(json);
    return 0;
  }
  if (!tokenizer) {
    std::string line;
    for (const std::int32_t id : result->ids)
      line += fmt::format("{}{}", line.empty() ? "" : ",", id);
    print(line);
  }
  print("\n");
  print(logprobs_text(result->ids, result->logprobs, tokenizer.get()));
  flush_stdout();  // before the note, where both go to one place
  const driver::ModelFacts& model = (*native)->model();
  note(globals,
       fmt::format(
           "prompt: {} tokens{}, {:.0f} tokens/s; generated: {} tokens, {:.0f} tokens/s; {}; {}{}",
           ids.size(), behind(model.prompt_tokens), prompt_rate, result->ids.size(), rate,
           stop_reason(*result, model.ctx, grammar->has_value()), model.target,
           seed_text(command.sampling)));
  return 0;
}

}  // namespace

Action add_run(CLI::App& app, const Globals& globals) {
  auto command = std::make_shared<RunCommand>();
  add_model_options(app, command->model, ModelUse::kRun);
  add_system_prompt_options(app, command->system_prompt);
  command->model.fixed.push_back(command->system_prompt.file_option);
  command->model.fixed.push_back(command->system_prompt.tokens_option);
  auto* prompt =
      app.add_option("-p,--prompt", command->prompt, "Text to go on from")->type_name("TEXT");
  auto* file =
      app.add_option("-f,--file", command->file, "The prompt from a file, - for standard input")
          ->type_name("FILE");
  auto* ids = app.add_option("--ids", command->ids, "The prompt as token ids, such as 1,2,3")
                  ->type_name("IDS");
  prompt->excludes(file)->excludes(ids);
  file->excludes(ids);
  command->prompt_option = prompt;
  command->file_option = file;
  command->ids_option = ids;
  add_predict(app, command->count,
              "Most tokens to generate, -1: until the text ends or the context is full, -2: the "
              "same even with --context-shift, 0: run the prompt alone (default: 128)");
  add_context_options(app, command->context);
  add_threads(app, command->threads);
  add_cores(app, command->cores);
  add_sampling_options(app, command->sampling);
  add_guidance_options(app, command->guidance);
  add_grammar_options(app, command->grammar);
  add_no_grammar(app, command->grammar);
  add_whole_number(app, "--logprobs", command->logprobs, 0, 1000,
                   "Print the probabilities of the N likeliest tokens at each place (default: 0)");
  app.add_flag("--ignore-eos", command->ignore_eos, "Go on after a stop token");
  app.add_flag("--special", command->special,
               "Take control tokens spelled in the prompt as tokens");
  app.add_flag("--no-display-prompt", command->hide_prompt, "Print the generated text alone");
  app.add_flag("--no-cache", command->model.no_cache, "Compile anew and keep nothing");
  return [command, &globals] {
    make_room_for_guide(command->guidance, command->model.compile);
    return run(*command, globals);
  };
}

}  // namespace llmc::cli
