#include <fmt/format.h>

#include <memory>

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
  bool no_bos = false;
};

int ppl(const PplCommand& command, const Globals& globals) {
  const auto native = native_options(command.model);
  if (!native.ok()) return fail(native.error());
  driver::PerplexityOptions options;
  options.native = *native;
  options.threads =
      command.threads > 0 ? command.threads : default_threads(native->compile.threads_max);
  options.window = command.window;
  if (!command.ids.empty()) {
    auto ids = parse_numbers(command.ids, "--ids");
    if (!ids.ok()) return fail(ids.error());
    options.tokens = std::move(*ids);
  } else {
    const auto tokenizer = load_tokenizer(command.model.model);
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
  if (globals.json) {
    print_json(Json{{"perplexity", report->perplexity},
                    {"mean_nll", report->mean_nll},
                    {"standard_error", report->standard_error},
                    {"predicted", report->predicted},
                    {"window", options.window},
                    {"bos", options.bos},
                    {"quant", command.model.quant},
                    {"target", options.native.compile.target},
                    {"seconds", report->seconds}});
    return 0;
  }
  print(fmt::format("{:.4f}\n", report->perplexity));
  note(globals,
       fmt::format("perplexity of {} tokens, windows of {}{}, {}: mean {:.5f} +- {:.5f} nats; "
                   "{:.1f} tokens/s",
                   report->predicted, options.window,
                   options.bos >= 0 ? " with the beginning token in front" : "",
                   command.model.quant, report->mean_nll, report->standard_error,
                   static_cast<double>(report->predicted) / report->seconds));
  return 0;
}

}  // namespace

Action add_ppl(CLI::App& app, const Globals& globals) {
  auto command = std::make_shared<PplCommand>();
  add_model_options(app, command->model);
  auto* file = app.add_option("-f,--file", command->file, "Text file, - for standard input");
  auto* ids = app.add_option("--ids", command->ids, "Token ids instead of a text");
  app.add_option("--window", command->window, "Tokens of a window; windows do not overlap")
      ->check(CLI::Range(2, 1 << 30))
      ->capture_default_str();
  app.add_option("-t,--threads", command->threads, "Threads (default: all cores)");
  app.add_flag("--no-bos", command->no_bos, "No beginning token before a window");
  file->excludes(ids);
  app.callback([file, ids] {
    if (file->count() + ids->count() == 0) throw CLI::RequiredError("--file or --ids");
  });
  return [command, &globals] { return ppl(*command, globals); };
}

}  // namespace llmc::cli
