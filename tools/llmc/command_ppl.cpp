#include <fmt/format.h>

#include <memory>

#include "compiler/driver/bundle_files.h"
#include "compiler/driver/perplexity.h"
#include "tools/llmc/options.h"
#include "tools/llmc/text.h"

namespace llmc::cli {
namespace {

struct PplCommand {
  ModelOptions model;
  std::string file;
  std::string ids;
  std::uint32_t window = 256;
  std::uint32_t threads = 0;
  CLI::Option *file_option = nullptr, *ids_option = nullptr;
  bool no_bos = false;
};

int ppl(const PplCommand& command, const Globals& globals) {
  if (command.file_option->count() + command.ids_option->count() == 0)
    return fail(usage_error("--file or --ids is required", "they give the text to measure"));
  const auto native = native_options(command.model);
  if (!native.ok()) return fail(native.error());
  driver::PerplexityOptions options;
  options.native = *native;
  options.threads = command.threads;
  options.window = command.window;
  if (command.ids_option->count() > 0) {
    auto ids = parse_numbers(command.ids, "--ids");
    if (!ids.ok()) return fail(ids.error());
    options.tokens = std::move(*ids);
    options.bad_token = ErrorKind::kUsage;
  } else {
    const auto tokenizer =
        load_tokenizer(command.model.model, "without one, --ids takes token ids");
    if (!tokenizer.ok()) return fail(tokenizer.error());
    const auto text = read_text(command.file);
    if (!text.ok()) return fail(text.error());
    options.tokens = (*tokenizer)->encode(*text, {.add_prefix = false, .parse_special = false});
    if (!command.no_bos) options.bos = (*tokenizer)->bos().value_or(-1);
  }
  Progress line(globals);
  const auto report = driver::measure_perplexity(options, progress_of(line));
  line.clear();
  if (!report.ok()) return fail(report.error());
  // What a bundle was compiled with is not known here.
  const bool bundle = driver::looks_like_bundle(command.model.model);
  const std::string quant = bundle ? "" : command.model.quant;
  if (globals.json) {
    print_json(Json{{"perplexity", report->perplexity},
                    {"mean_nll", report->mean_nll},
                    {"standard_error", report->standard_error},
                    {"predicted", report->predicted},
                    {"window", options.window},
                    {"bos", options.bos},
                    {"quant", quant.empty() ? Json(nullptr) : Json(quant)},
                    {"target", report->target},
                    {"seconds", report->seconds}});
    return 0;
  }
  print(fmt::format("{:.4f}\n", report->perplexity));
  note(globals,
       fmt::format("perplexity of {} tokens, windows of {}{}, {}: mean {:.5f} +- {:.5f} nats; "
                   "{:.1f} tokens/s",
                   report->predicted, options.window,
                   options.bos >= 0 ? " with the beginning token in front" : "",
                   quant.empty() ? "a bundle for " + report->target : quant, report->mean_nll,
                   report->standard_error,
                   static_cast<double>(report->predicted) / report->seconds));
  return 0;
}

}  // namespace

Action add_ppl(CLI::App& app, const Globals& globals) {
  auto command = std::make_shared<PplCommand>();
  add_model_options(app, command->model, ModelUse::kRun);
  auto* file = app.add_option("-f,--file", command->file, "Text file, - for standard input")
                   ->type_name("FILE");
  auto* ids = app.add_option("--ids", command->ids, "Token ids instead of a text, such as 1,2,3")
                  ->type_name("IDS");
  command->file_option = file;
  command->ids_option = ids;
  add_whole_number(app, "--window", command->window, 2, plan::kMaxContext,
                   "Tokens of a window; windows do not overlap (default: 256)");
  add_threads(app, command->threads);
  app.add_flag("--no-bos", command->no_bos, "No beginning token before a window");
  file->excludes(ids);
  return [command, &globals] { return ppl(*command, globals); };
}

}  // namespace llmc::cli
