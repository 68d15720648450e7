#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "compiler/driver/chat_files.h"
#include "compiler/driver/control_tokens.h"
#include "compiler/support/counted.h"
#include "tools/llmc/accelerator_text.h"
#include "tools/llmc/beams.h"
#include "tools/llmc/function_text.h"
#include "tools/llmc/huge_page_options.h"
#include "tools/llmc/numbers.h"
#include "tools/llmc/run_generation.h"
#include "tools/llmc/run_prompts.h"
#include "tools/llmc/run_sources.h"
#include "tools/llmc/text.h"

namespace llmc::cli {
namespace {

/// Number of tokens that must be generated to recover the time of copying weights to huge pages.
constexpr std::int32_t kTokensWorthCopying = 96;

/// Prints a note about control tokens in `text` that are read as plain text.
void note_control_tokens(const hosted::Tokenizer& tokenizer, const std::string& text,
                         const Globals& globals) {
  if (globals.quiet) return;
  const auto ids = tokenizer.encode(text, {.add_prefix = false, .parse_special = false});
  const std::string names = driver::spelled_control_tokens(tokenizer, text, ids);
  if (names.empty()) return;
  remark(globals,
         fmt::format("the prompt spells control tokens ({}), which are read as plain text; "
                     "--special reads them as tokens",
                     names));
}

/// Prints a note if no text was generated.
void note_empty(const RunResult& result, const RunCommand& command, bool has_template,
                const hosted::Tokenizer* tokenizer, const Globals& globals) {
  const bool blank = tokenizer == nullptr
                         ? result.ids.empty()
                         : result.text.find_first_not_of(" \t\r\n") == result.text.npos;
  if (result.stopped != hosted::Stopped::kStopToken || !blank) return;
  const std::string name = tokenizer == nullptr
                               ? fmt::to_string(result.stop_token)
                               : printable(std::string(tokenizer->name_of(result.stop_token)), 40);
  std::string text = fmt::format(
      "no text was generated: {} with the stop token {}",
      result.ids.empty() ? "the model stopped immediately"
                         : "the model stopped after " + counted(result.ids.size(), "blank token"),
      name);
  if (has_template && !command.chat)
    text += "\nhint: the model has a chat template: use --chat for an answer to the prompt";
  remark(globals, text);
}

/// Returns the reason why the text ended, for the closing note.
std::string stop_reason(const RunResult& result, std::uint32_t context, bool grammar) {
  if (result.stopped == hosted::Stopped::kStopToken) return "ended with a stop token";
  if (result.stopped == hosted::Stopped::kStopText) return "ended with a stop text";
  std::string partial;
  if (grammar && !result.complete.value_or(false))
    partial =
        fmt::format(", and the grammar's text {} incomplete", result.complete ? "is" : "may be");
  if (result.stopped == hosted::Stopped::kContext)
    return fmt::format("stopped: the context of {} is full{}", counted(context, "token"), partial);
  if (result.stopped == hosted::Stopped::kComplete) return "the grammar's text is complete";
  return "stopped at -n" + partial + (partial.empty() ? "" : "; use a larger -n");
}

/// Returns the text of an option, or the content of the file that is given instead.
Result<std::string> text_of(const std::optional<std::string>& text,
                            const std::optional<std::string>& file) {
  if (!file) return text.value_or("");
  return read_prompt(*file);
}

/// Returns the last line of the output with --json.
Json summary(const RunResult& result, const RunPrompts& prompts, const RunCommand& command,
             const exec::ModelFacts& model, const hosted::Tokenizer* tokenizer, bool grammar,
             double prompt_rate, double rate) {
  Json json{{"done", true},
            {"prompt_ids", prompts.text},
            {"ids", result.ids},
            {"text", result.text},
            {"logits_hash", result.hash},
            {"stopped", stop_name(result.stopped)},
            {"target", model.target},
            {"prompt_tokens_per_second", prompt_rate},
            {"tokens_per_second", rate},
            {"seed", command.sampling.sampling.seed}};
  for (const BeamText& beam : result.beams) {
    Json entry{{"ids", beam.ids}, {"score", beam.score}};
    if (tokenizer != nullptr) entry["text"] = beam.text;
    json["beams"].push_back(std::move(entry));
  }
  if (!result.beams.empty()) {
    json.erase("logits_hash");
    json.erase("seed");
  }
  if (grammar) json["complete"] = result.complete ? Json(*result.complete) : Json();
  if (const std::uint32_t tokens = compiled_in(prompts, model); tokens > 0)
    json["system_prompt_tokens"] = tokens;
  if (command.logprobs > 0)
    json["logprobs"] = logprobs_json(result.ids, result.logprobs, tokenizer);
  if (result.tokens_per_pass > 0) json["tokens_per_pass"] = result.tokens_per_pass;
  if (result.device) json["accelerator"] = device_json(*result.device);
  return json;
}

/// With -v, prints what an accelerator computed.
void note_device(const std::optional<exec::DeviceUse>& device, const Globals& globals) {
  if (globals.verbose > 0 && device) note(globals, device_text(*device));
}

/// Generates and prints a text for each of several sources.
Result<int> run_sources(const RunCommand& command, const exec::NativeModel& native,
                        const RunPrompts& prompts, const hosted::Tokenizer* tokenizer,
                        const RunStops& stops, const std::string& shown_prompt,
                        const Globals& globals) {
  const exec::ModelFacts& model = native.model();
  LLMC_TRY(const auto results, generate_each(command, native, prompts, tokenizer, stops));
  std::size_t generated = 0;
  Json texts = Json::array();
  for (const RunResult& result : results) {
    generated += result.ids.size();
    if (globals.json) {
      texts.push_back({{"ids", result.ids},
                       {"logits_hash", result.hash},
                       {"stopped", stop_name(result.stopped)}});
      if (tokenizer != nullptr) texts.back()["text"] = result.text;
      continue;
    }
    if (tokenizer != nullptr && !command.hide_prompt && !command.chat) print_text(shown_prompt);
    if (tokenizer != nullptr) print_text(result.text);
    if (tokenizer == nullptr) print(fmt::format("{}", fmt::join(result.ids, ",")));
    print("\n");
  }
  const double seconds = results.front().generation_seconds;
  const double rate = seconds > 0 ? static_cast<double>(generated) / seconds : 0;
  const auto& device = results.front().device;
  if (globals.json) {
    Json json{{"done", true},
              {"prompt_ids", prompts.text},
              {"texts", std::move(texts)},
              {"target", model.target},
              {"prompt_seconds", results.front().prompt_seconds},
              {"tokens_per_second", rate},
              {"seed", command.sampling.sampling.seed}};
    if (device) json["accelerator"] = device_json(*device);
    print_json_line(json);
    return 0;
  }
  flush_stdout();
  note_device(device, globals);
  note(globals,
       fmt::format("{} sources: {:.2f} s to encode them and the prompts; generated: {}, "
                   "{:.0f} tokens/s; {}{}",
                   results.size(), results.front().prompt_seconds, counted(generated, "token"),
                   rate, model.target, seed_text(command.sampling)));
  return 0;
}

/// Checks the options before any file is read.
Status check_run_options(const RunCommand& command, bool on_ranks) {
  if (!command.ids && !command.prompt && !command.file && !command.source.given()) {
    return usage_error(
        "a prompt is required: --prompt, --file or --ids",
        "use -p '' for an empty prompt; an encoder-decoder takes --source or --audio");
  }
  if (command.ids) {  // report invalid ids before compilation
    if (auto ids = parse_numbers(*command.ids, "--ids"); !ids.ok()) return std::move(ids).error();
  }
  if (!command.images.files.empty() && (command.beams.on() || command.guidance.on()))
    return usage_error(
        fmt::format("{} does not take images", command.beams.on() ? "--beams" : "--cfg-scale"),
        "leave out --image");
  LLMC_RETURN_IF_ERROR(check_image_options(command.images));
  if (on_ranks && (command.beams.on() || command.context.shift))
    return usage_error(
        fmt::format("{} does not run on ranks", command.beams.on() ? "--beams" : "--context-shift"),
        "leave it out");
  LLMC_RETURN_IF_ERROR(check_sources(command));
  const char* const without_lookup = command.beams.on()           ? "--beams"
                                     : command.guidance.on()      ? "--cfg-scale"
                                     : command.logprobs > 0       ? "--logprobs"
                                     : command.source.count() > 1 ? "several sources"
                                     : on_ranks                   ? "ranks"
                                                                  : nullptr;
  if (command.lookup.on() && without_lookup != nullptr)
    return usage_error(
        fmt::format("{} does not work with {}", command.lookup.name(), without_lookup),
        "leave out one of them");
  const bool states = !command.load_state.empty() || !command.save_state.empty();
  if (states && (command.guidance.on() || command.source.count() > 1))
    return usage_error(fmt::format("--load-state and --save-state do not take {}",
                                   command.guidance.on() ? "--cfg-scale" : "several sources"),
                       "leave them out");
  LLMC_RETURN_IF_ERROR(check_output_file("--save-state", command.save_state));
  return check_guidance(command.guidance);
}

/// Moves the files of --audio and --source-features to the files of --image, for a decoder with a
/// sound encoder, whose sounds are part of the prompt.
void take_sounds(RunCommand& command) {
  for (auto* const files : {&command.source.audio, &command.source.features}) {
    command.images.files.insert(command.images.files.end(), files->begin(), files->end());
    files->clear();
  }
}

/// Returns the stop tokens and texts of the model and of --stop, with --chat also those of the
/// template.
RunStops stops_of(const RunCommand& command, const hosted::ChatDescription& description,
                  const std::optional<hosted::ChatFormat>& format) {
  RunStops stops{.ids = description.stop_ids,
                 .texts = command.stop_texts,
                 .suppressed = description.suppressed_ids,
                 .suppressed_first = description.suppressed_first_ids};
  if (!format) return stops;
  stops.ids.assign(format->stop_ids().begin(), format->stop_ids().end());
  if (command.chat && !command.ignore_eos)
    stops.texts.insert(stops.texts.end(), format->stop_texts().begin(), format->stop_texts().end());
  return stops;
}

/// Reads the tokenizer. `by_ids`: all prompts are given as ids, so the tokenizer is optional and
/// only used to print text.
Result<std::unique_ptr<hosted::Tokenizer>> tokenizer_of(const RunCommand& command, bool by_ids) {
  const char* const hint = by_ids ? "--stop and --cfg-negative-prompt need a tokenizer"
                           : command.source.given()
                               ? "or give token ids with --source-ids and --ids"
                               : "or give token ids by --ids";
  auto loaded =
      load_tokenizer(command.model.model, hint, by_ids ? Wanted::kTokenizerAlone : Wanted::kModel);
  const bool needed = !by_ids || command.guidance.on() || !command.stop_texts.empty();
  if (!loaded.ok() && !needed) return std::unique_ptr<hosted::Tokenizer>();
  return loaded;
}

/// Returns the format of conversations, without its template unless --chat is given; nullopt
/// without a tokenizer.
Result<std::optional<hosted::ChatFormat>> format_of(const RunCommand& command,
                                                    hosted::ChatDescription description,
                                                    const hosted::Tokenizer* tokenizer) {
  constexpr const char* kHint = "remove --chat to continue the prompt without a template";
  if (command.chat && !description.has_template()) {
    LLMC_RETURN_IF_ERROR(check_decoder(command.model.model));
    return usage_error(printable(command.model.model) + " has no chat template", kHint);
  }
  if (tokenizer == nullptr) return std::optional<hosted::ChatFormat>();
  if (!command.chat) {
    description.jinja.clear();
    description.user.clear();
  }
  LLMC_TRY(auto format,
           chat_format(std::move(description), *tokenizer, command.model.model, kHint));
  return std::optional(std::move(format));
}

/// Facts about a run, other than its result, that print_result() prints.
struct RunFacts {
  const RunPrompts& prompts;
  const exec::ModelFacts& model;
  const hosted::Tokenizer* tokenizer;
  bool has_template, has_grammar;
};

/// Prints what generate() or search_beams() has not printed: the summary and notes.
void print_result(const RunResult& result, const RunCommand& command, const RunFacts& facts,
                  const Globals& globals) {
  const std::size_t given = facts.prompts.text.size(), generated = result.ids.size();
  const double prompt_rate = static_cast<double>(given) / result.prompt_seconds;
  const double rate = result.generation_seconds > 0
                          ? static_cast<double>(generated) / result.generation_seconds
                          : 0;
  if (globals.json) {
    print_json_line(summary(result, facts.prompts, command, facts.model, facts.tokenizer,
                            facts.has_grammar, prompt_rate, rate));
    return note_empty(result, command, facts.has_template, facts.tokenizer, globals);
  }
  if (facts.tokenizer == nullptr) {
    std::string line;
    for (const std::int32_t id : result.ids)
      line += fmt::format("{}{}", line.empty() ? "" : ",", id);
    print(line);
  }
  print("\n");
  print(logprobs_text(result.ids, result.logprobs, facts.tokenizer));
  flush_stdout();  // keep the order with notes if both streams have the same destination
  note_empty(result, command, facts.has_template, facts.tokenizer, globals);
  note_device(result.device, globals);
  note(globals,
       fmt::format("prompt: {}{}, {:.0f} tokens/s; generated: {}, {:.0f} tokens/s{}; {}; {}{}",
                   counted(given, "token"),
                   after_compiled_in(compiled_in(facts.prompts, facts.model)), prompt_rate,
                   counted(generated, "token"), rate,
                   lookup_text(result.tokens_per_pass, command.lookup.name()),
                   stop_reason(result, facts.model.ctx, facts.has_grammar), facts.model.target,
                   result.beams.empty() ? seed_text(command.sampling) : std::string()));
}

Result<int> run(RunCommand& command, const Globals& globals) {
  const bool by_ids = (command.ids || command.source.is_ids() || command.source.is_features()) &&
                      !command.prompt && !command.file && !command.source.is_text();
  LLMC_RETURN_IF_ERROR(check_run_options(command, globals.ranks != nullptr));
  LLMC_TRY(auto prompt, text_of(command.prompt, command.file));
  if (globals.ranks != nullptr) prompt = exec::broadcast_text(*globals.ranks, std::move(prompt));
  LLMC_TRY(const auto negative, text_of(command.guidance.prompt, command.guidance.file));
  LLMC_RETURN_IF_ERROR(compile_options(command.model));
  LLMC_RETURN_IF_ERROR(apply(command.system_prompt, command.model.compile));
  LLMC_TRY(command.model.compile.dims, parse_dims(command.dims));
  LLMC_TRY(const auto source, grammar_source(command.grammar));
  LLMC_RETURN_IF_ERROR(check_context(command.context, source.given(), command.guidance.on()));
  LLMC_TRY(const auto tokenizer, tokenizer_of(command, by_ids));
  LLMC_TRY(const auto description, driver::chat_of(command.model.model));
  apply_recommended(description.sampling, command.sampling, globals);
  note_idle_sampling(command.sampling, globals);
  LLMC_TRY(const auto format, format_of(command, description, tokenizer.get()));
  if (tokenizer && !by_ids && !command.special && !command.chat && command.images.files.empty()) {
    note_control_tokens(*tokenizer, prompt, globals);
    if (command.guidance.on()) note_control_tokens(*tokenizer, negative, globals);
  }
  command.model.huge_pages.few_tokens = command.count >= 0 && command.count < kTokensWorthCopying;
  LLMC_TRY(const auto native, load(command.model, globals));
  const exec::ModelFacts& model = native->model();
  if (native->bundle_facts().media.is_sound()) take_sounds(command);
  LLMC_RETURN_IF_ERROR(check_guidance(command.guidance, model));
  LLMC_RETURN_IF_ERROR(check_lookup(command.lookup, model, command.sampling.sampling, globals));
  LLMC_TRY(const auto prompts, run_prompts(command,
                                           {.prompt = prompt,
                                            .negative = negative,
                                            .start_ids = description.start_ids,
                                            .tokenizer = tokenizer.get(),
                                            .format = command.chat ? &*format : nullptr},
                                           *native));
  LLMC_TRY(const auto grammar,
           grammar_for(command.grammar, source, command.model, model, tokenizer.get(), globals));
  LLMC_RETURN_IF_ERROR(check_context(command.context, grammar.has_value(), command.guidance.on()));
  if (command.beams.on() && grammar)
    return usage_error("--beams does not follow the bundle's grammar", "add --no-grammar");
  if (prompts.sources.size() > 1 && grammar)
    return usage_error("a grammar takes a single source", "add --no-grammar");

  const std::string shown_prompt = by_ids && tokenizer ? tokenizer->decode(prompts.text) : prompt;
  const RunStops stops = stops_of(command, description, format);
  if (prompts.sources.size() > 1)
    return run_sources(command, *native, prompts, tokenizer.get(), stops, shown_prompt, globals);
  const RunOutput output = output_of(command, globals, tokenizer.get(), shown_prompt);
  auto generated =
      command.beams.on()
          ? search_beams(command, *native, prompts, tokenizer.get(), stops, output)
          : generate(command, *native, prompts, tokenizer.get(), stops, grammar, output, globals);
  if (!generated.ok() && output.end_line) output.end_line();
  LLMC_TRY(const RunResult result, std::move(generated));
  if (!finish_stdout()) return 0;  // run_program() reports the failure
  print_result(result, command,
               {.prompts = prompts,
                .model = model,
                .tokenizer = tokenizer.get(),
                .has_template = description.has_template(),
                .has_grammar = grammar.has_value()},
               globals);
  return 0;
}

}  // namespace

Action add_run(CLI::App& app, const Globals& globals) {
  auto command = std::make_shared<RunCommand>();
  add_model_options(app, command->model, ModelUse::kRun);
  add_system_prompt_options(app, command->system_prompt);
  for (const char* const name : {"--system-prompt", "--system-prompt-tokens"})
    command->model.fixed.push_back(app.get_option(name));
  auto* prompt = app.add_option("-p,--prompt", command->prompt, "Prompt text")->type_name("TEXT");
  auto* file = app.add_option("-f,--file", command->file, "File with the prompt, -: standard input")
                   ->type_name("FILE");
  auto* ids =
      app.add_option("--ids", command->ids, "Prompt as token ids, such as 1,2,3")->type_name("IDS");
  add_source_options(app, command->source);
  add_feature_options(app, command->source);
  add_image_options(app, command->images);
  command->model.fixed.push_back(add_dims(app, command->dims));
  prompt->excludes(file)->excludes(ids);
  file->excludes(ids);
  auto* chat = app.add_flag("--chat", command->chat,
                            "Answer the prompt with the model's chat template; prints only the "
                            "answer");
  chat->excludes(ids);
  add_predict(app, command->count,
              "Maximum tokens to generate, -1: no limit, -2: until the context is full, 0: only "
              "prefill the prompt (default: 128)");
  add_stop_texts(app, "--stop,--reverse-prompt", command->stop_texts);
  add_context_options(app, command->context);
  add_threads(app, command->threads);
  add_cores(app, command->cores);
  add_huge_pages(app, command->model.huge_pages.when);
  add_sampling_options(app, command->sampling);
  add_guidance_options(app, command->guidance);
  add_grammar_options(app, command->grammar);
  add_no_grammar(app, command->grammar);
  add_whole_number(app, "--logprobs", command->logprobs, 0, 1000,
                   "Number of most probable tokens to print for each position (default: 0)");
  add_beam_options(app, command->beams);
  add_lookup_option(app, command->lookup);
  const auto add_state = [&](const char* name, std::string& file, const char* text) {
    app.add_option(name, file, text)->type_name("FILE")->excludes(command->beams.option);
  };
  add_state("--load-state", command->load_state,
            "Continue the text whose tokens and cache are in this file");
  add_state("--save-state", command->save_state,
            "Write the tokens and the cache of the text to this file; of a model on several ranks, "
            "FILE.0, FILE.1 …");
  app.add_flag("--ignore-eos", command->ignore_eos, "Continue after stop tokens");
  app.add_flag("--special", command->special,
               "Parse control tokens in the prompt as tokens, as --chat does")
      ->excludes(chat);
  app.add_flag("--no-display-prompt", command->hide_prompt, "Do not print the prompt");
  app.add_flag("--no-cache", command->model.no_cache, "Do not use the cache of compiled models");
  return [command, &globals]() -> Result<int> {
    make_room_for_guide(command->guidance, command->model.compile);
    make_room_for_beams(command->beams, command->model.compile);
    LLMC_RETURN_IF_ERROR(prepare_lookup(command->lookup, command->model.compile));
    make_room_for_sources(command->source, command->model.compile);
    return run(*command, globals);
  };
}

}  // namespace llmc::cli
