#include <unistd.h>

#include <memory>

#include "compiler/driver/bundle_files.h"
#include "compiler/driver/chat_files.h"
#include "compiler/support/file.h"
#include "tools/llmc/chat_loop.h"
#include "tools/llmc/context_options.h"
#include "tools/llmc/grammar_options.h"
#include "tools/llmc/sampling_options.h"
#include "tools/llmc/text.h"

namespace llmc::cli {
namespace {

constexpr std::uint64_t kMaxTemplateBytes = std::uint64_t{1} << 20;

struct ChatCommand {
  ModelOptions model;
  SamplingOptions sampling;
  GrammarOptions grammar;
  std::uint32_t threads = 0;
  std::uint32_t cores = LLMC_CORES_OF_TARGET;
  std::int32_t count = -1;  // -1, -2: no limit, see add_predict
  std::string system;
  CLI::Option* system_option = nullptr;
  std::string template_file;
  std::vector<std::string> stop_texts;
  bool no_template = false;
  bool forgets_oldest = false;
};

Result<hosted::ChatFormat> make_format(const ChatCommand& command,
                                       const hosted::Tokenizer& tokenizer, std::string& why) {
  LLMC_TRY(hosted::ChatDescription description, driver::chat_of(command.model.model));
  if (!command.template_file.empty()) {
    LLMC_TRY(description.jinja, read_file(command.template_file, kMaxTemplateBytes));
    description.source = command.template_file;
    description.add_prefix = false;
    if (description.jinja.empty()) {
      return usage_error(printable(command.template_file) + " is empty",
                         "--no-template does without a template");
    }
  }
  if (command.no_template) {
    description.jinja.clear();
    description.user.clear();
    why = "--no-template: what you type is continued";
  } else if (!description.has_template()) {
    why = "the model has no chat template: what you type is continued; an empty line goes on";
  }
  auto format = hosted::ChatFormat::create(std::move(description), tokenizer);
  if (format.ok()) return *std::move(format);
  return Diagnostic{.kind = ErrorKind::kUnsupported,
                    .file = command.model.model,
                    .message = printable(format.failure().message, 1000),
                    .hint =
                        "--chat-template-file takes another template, --no-template does "
                        "without: what you type is continued"};
}

/// What was compiled into a bundle for conversations to begin with.
struct CompiledPrompt {
  std::string message;              // the system message, or empty
  std::vector<std::int32_t> begun;  // its tokens, as the cache has them
};

/// Ids that were compiled in without a text stay in front of every conversation: not `begun`.
Result<CompiledPrompt> compiled_prompt(const driver::NativeModel& native) {
  CompiledPrompt prompt;
  if (native.model().prompt_tokens == 0) return prompt;
  LLMC_TRY(const driver::BundleFacts facts, driver::read_bundle(native.bundle()));
  LLMC_TRY(hosted::ChatDescription description, driver::chat_of(native.bundle()));
  if (facts.prompt.size() != native.model().prompt_tokens) {
    return Diagnostic{.kind = ErrorKind::kBadInput,
                      .file = native.bundle().string(),
                      .node = {},
                      .op = {},
                      .message =
                          "damaged bundle: its plan.json has another system prompt than its "
                          "library",
                      .hint = "compile the model again"};
  }
  if (!description.system_message.empty()) prompt = {description.system_message, facts.prompt};
  return prompt;
}

int chat(const ChatCommand& command, const Globals& globals) {
  if (command.count == 0) {
    return fail(usage_error("-n 0 would leave every answer empty",
                            "-n -1, the default, is no limit: answers end by themselves"));
  }
  if (const auto checked = compile_options(command.model); !checked.ok())
    return fail(checked.error());
  const auto source = grammar_source(command.grammar);
  if (!source.ok()) return fail(source.error());
  const auto tokenizer = load_tokenizer(command.model.model, "");
  if (!tokenizer.ok()) return fail(tokenizer.error());
  ChatSettings settings;
  const auto format = make_format(command, **tokenizer, settings.no_template);
  if (!format.ok()) return fail(format.error());
  const auto native = load(command.model, globals);
  if (!native.ok()) return fail(native.error());
  const driver::ModelFacts& model = (*native)->model();
  const auto threads = threads_for(command.threads, model.threads_max);
  if (!threads.ok()) return fail(threads.error());
  const auto session = (*native)->start({.threads = *threads, .cores = command.cores});
  if (!session.ok()) return fail(session.error());
  if (const Status set = use_sampling(command.sampling, tokenizer->get(), model.vocab, **session);
      !set.ok())
    return fail(set.error());

  auto grammar =
      grammar_for(command.grammar, *source, command.model, model, tokenizer->get(), globals);
  if (!grammar.ok()) return fail(grammar.error());
  const auto compiled = compiled_prompt(**native);
  if (!compiled.ok()) return fail(compiled.error());
  NativeSequence sequence(**session, model, *std::move(grammar));
  hosted::Conversation conversation(sequence, *format, compiled->begun);
  conversation.set_system(command.system_option->count() > 0 ? command.system : compiled->message);
  note_idle_sampling(command.sampling, globals);
  if (command.sampling.drawn_seed)
    note(globals, "seed " + std::to_string(command.sampling.sampling.seed));
  settings.model = (*native)->name();
  settings.target = model.target;
  settings.max_tokens = command.count > 0 ? static_cast<std::size_t>(command.count) : 0;
  settings.stop_texts = command.stop_texts;
  settings.forgets_oldest = command.forgets_oldest;
  std::optional<Interrupts> interrupts;
  std::unique_ptr<LineReader> lines;
  if (::isatty(STDIN_FILENO) == 1) {
    interrupts.emplace();
    lines = ::isatty(STDOUT_FILENO) == 1 ? line_editor(*interrupts) : plain_reader(&*interrupts);
  } else {
    lines = plain_reader(nullptr);
  }
  return ChatLoop(std::move(settings), globals, conversation, *format, sequence, *lines,
                  interrupts ? &*interrupts : nullptr)
      .run();
}

}  // namespace

Action add_chat(CLI::App& app, const Globals& globals) {
  auto command = std::make_shared<ChatCommand>();
  add_model_options(app, command->model, ModelUse::kRun);
  command->system_option =
      app.add_option("--system", command->system,
                     "System prompt; also as -sys (default: what was compiled in)")
          ->type_name("TEXT");
  add_predict(app, command->count,
              "Most tokens of an answer, -1: until it ends or the context is full (default: -1)");
  app.add_option("-r,--reverse-prompt", command->stop_texts,
                 "A text that ends an answer; may be repeated")
      ->allow_extra_args(false)
      ->type_name("TEXT");
  app.add_flag("--context-shift,!--no-context-shift", command->forgets_oldest,
               "When the context is full, forget the oldest messages and go on (default: end the "
               "answer there)");
  auto* file = app.add_option("--chat-template-file", command->template_file,
                              "A Jinja template in place of the model's")
                   ->type_name("FILE");
  app.add_flag("--no-template", command->no_template, "Continue the text as it is typed")
      ->excludes(file);
  add_threads(app, command->threads);
  add_cores(app, command->cores);
  add_sampling_options(app, command->sampling);
  add_grammar_options(app, command->grammar);
  add_no_grammar(app, command->grammar);
  app.add_flag("--no-cache", command->model.no_cache, "Compile anew and keep nothing");
  return [command, &globals] { return chat(*command, globals); };
}

}  // namespace llmc::cli
