#include <unistd.h>

#include <memory>
#include <optional>

#include "compiler/driver/chat_files.h"
#include "compiler/support/file.h"
#include "tools/llmc/chat_format.h"
#include "tools/llmc/chat_loop.h"
#include "tools/llmc/config_file.h"
#include "tools/llmc/context_options.h"
#include "tools/llmc/grammar_options.h"
#include "tools/llmc/huge_page_options.h"
#include "tools/llmc/sampling_options.h"
#include "tools/llmc/text.h"

namespace llmc::cli {
namespace {

constexpr std::uint64_t kMaxTemplateBytes = std::uint64_t{1} << 20;

struct ChatCommand {
  ModelOptions model;
  SamplingOptions sampling;
  GrammarOptions grammar;
  LookupOptions lookup;
  std::uint32_t threads = 0;
  std::uint32_t cores = LLMC_CORES_OF_TARGET;
  std::int32_t count = -1;  // -1, -2: no limit, see add_predict()
  std::string config;
  std::optional<std::string> prompt, system;
  std::string template_file;
  std::vector<std::string> stop_texts;
  bool no_template = false;
  bool forgets_oldest = false;
};

/// Returns the format of the conversation. Sets `why` to the reason why there is no template, so
/// that texts are continued; leaves it empty if there is one.
Result<hosted::ChatFormat> make_format(const ChatCommand& command,
                                       hosted::ChatDescription description,
                                       const hosted::Tokenizer& tokenizer, std::string& why) {
  if (!command.template_file.empty()) {
    LLMC_TRY(description.jinja, read_file(command.template_file, kMaxTemplateBytes));
    description.source = command.template_file;
    description.add_prefix = false;
    if (description.jinja.empty()) {
      return usage_error(printable(command.template_file) + " is empty",
                         "use --no-template to continue texts without a template");
    }
  }
  if (command.no_template) {
    description.jinja.clear();
    description.user.clear();
    why = "--no-template: your input is continued";
  } else if (!description.has_template()) {
    why =
        command.prompt
            ? "the model has no chat template: the prompt is continued"
            : "the model has no chat template: your input is continued; an empty line continues it "
              "further";
  }
  if (!why.empty() && command.system)
    why += "; the text of --system goes before it as it is, with nothing between them";
  return chat_format(std::move(description), tokenizer, command.model.model,
                     "give another template by --chat-template-file, or continue texts without one "
                     "by --no-template");
}

Result<int> chat(CLI::App& app, ChatCommand& command, const Globals& globals) {
  if (!command.config.empty()) LLMC_RETURN_IF_ERROR(apply_config_file(app, command.config));
  LLMC_RETURN_IF_ERROR(prepare_lookup(command.lookup, command.model.compile));
  if (command.count == 0) {
    return usage_error("-n 0: answers would be empty", "use -n -1, the default, for no limit");
  }
  LLMC_RETURN_IF_ERROR(compile_options(command.model));
  LLMC_TRY(const auto source, grammar_source(command.grammar));
  LLMC_TRY(const auto tokenizer, load_tokenizer(command.model.model, ""));
  ChatSettings settings;
  LLMC_TRY(const auto description, driver::chat_of(command.model.model));
  apply_recommended(description.sampling, command.sampling, globals);
  LLMC_TRY(const auto format, make_format(command, description, *tokenizer, settings.no_template));
  LLMC_TRY(const auto native, load(command.model, globals));
  const exec::ModelFacts& model = native->model();
  LLMC_RETURN_IF_ERROR(check_lookup(command.lookup, model, command.sampling.sampling, globals));
  LLMC_TRY(const auto threads, threads_for(command.threads, model.threads_max));
  LLMC_TRY(const auto session, native->start({.threads = threads, .cores = command.cores}));
  LLMC_RETURN_IF_ERROR(use_sampling(command.sampling, tokenizer.get(), model.vocab, *session));

  LLMC_TRY(auto grammar,
           grammar_for(command.grammar, source, command.model, model, tokenizer.get(), globals));
  LLMC_TRY(const auto compiled, compiled_prompt(*native));
  const auto stop_ids = format.stop_ids();
  LLMC_TRY(const auto drafts,
           DraftModel::load(command.lookup.draft_model, command.model, *native,
                            {.threads = threads, .cores = command.cores}, command.sampling,
                            tokenizer.get(), command.lookup.tokens, globals));
  NativeSequence sequence(
      *session, model, std::move(grammar),
      {*session, model, command.lookup, {stop_ids.begin(), stop_ids.end()}, drafts.get()});
  hosted::Conversation conversation(sequence, format, compiled.begun);
  conversation.set_system(command.system.value_or(compiled.message));
  note_idle_sampling(command.sampling, globals);
  if (const std::string seed = seed_text(command.sampling); !seed.empty())
    remark(globals, seed.substr(seed.find("seed")));
  settings.model = native->name();
  settings.target = model.target;
  settings.max_tokens = command.count > 0 ? static_cast<std::size_t>(command.count) : 0;
  settings.stop_texts = command.stop_texts;
  settings.forgets_oldest = command.forgets_oldest;
  settings.lookup = command.lookup.name();
  settings.other_tokenizer = other_tokenizer_hint(command.model.model);
  std::optional<Interrupts> interrupts;
  std::unique_ptr<LineReader> lines;
  if (!command.prompt && ::isatty(STDIN_FILENO) == 1) {
    interrupts.emplace();
    lines = ::isatty(STDOUT_FILENO) == 1 ? line_editor(*interrupts) : plain_reader(&*interrupts);
  } else {
    lines = plain_reader(nullptr);
  }
  ChatLoop loop(std::move(settings), globals, conversation, format, sequence, *lines,
                interrupts ? &*interrupts : nullptr);
  return command.prompt ? loop.run_once(*command.prompt) : loop.run();
}

}  // namespace

Action add_chat(CLI::App& app, const Globals& globals) {
  auto command = std::make_shared<ChatCommand>();
  add_model_options(app, command->model, ModelUse::kRun);
  app.add_option("-p,--prompt", command->prompt,
                 "Single message to answer (default: read messages from standard input)")
      ->type_name("TEXT");
  app.add_option("--system", command->system,
                 "System prompt, alias -sys (default: the compiled-in one)")
      ->type_name("TEXT");
  add_predict(app, command->count, "Maximum tokens of an answer, -1: no limit (default: -1)");
  add_stop_texts(app, "--stop,--reverse-prompt", command->stop_texts);
  app.add_flag("--context-shift,!--no-context-shift", command->forgets_oldest,
               "Drop the oldest messages when the context is full (default: end the answer)");
  auto* file = app.add_option("--chat-template-file", command->template_file,
                              "Jinja chat template (default: the model's)")
                   ->type_name("FILE");
  app.add_flag("--no-template", command->no_template,
               "Continue messages as plain text, without a chat template")
      ->excludes(file);
  add_threads(app, command->threads);
  add_cores(app, command->cores);
  add_huge_pages(app, command->model.huge_pages.when);
  add_sampling_options(app, command->sampling);
  add_grammar_options(app, command->grammar);
  add_no_grammar(app, command->grammar);
  add_lookup_option(app, command->lookup);
  app.add_option("--config", command->config,
                 "JSON file with options, such as {\"system\": \"Be brief.\", \"temp\": 0.5}; the "
                 "command line overrides it")
      ->type_name("FILE");
  app.add_flag("--no-cache", command->model.no_cache, "Do not use the cache of compiled models");
  return [command, &app, &globals] { return chat(app, *command, globals); };
}

}  // namespace llmc::cli
