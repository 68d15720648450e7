#include <fmt/format.h>

#include <memory>

#include "compiler/driver/bundle_files.h"
#include "compiler/evaluate/perplexity.h"
#include "tools/llmc/options.h"
#include "tools/llmc/plan_text.h"
#include "tools/llmc/text_options.h"

namespace llmc::cli {
namespace {

struct PplCommand {
  ModelOptions model;
  TextOptions text;
  std::uint32_t threads = 0;
  bool kl = false;
};

std::string with_error(const char* name, evaluate::Estimate e, int digits, const char* unit = "") {
  return fmt::format("{:<22}{:.{}f} +- {:.{}f}{}\n", name, e.value, digits, e.error, digits, unit);
}

std::string divergence_text(const evaluate::Divergence& d) {
  const auto row = [](const char* name, double value) {
    return fmt::format("{:<22}{:.6f}\n", name, value);
  };
  return with_error("perplexity of f32", d.base_perplexity, 4) + with_error("ratio", d.ratio, 5) +
         with_error("KL divergence, mean", d.kl, 6, " nats") + row("  median", d.median) +
         row("  90 %", d.p90) + row("  99 %", d.p99) + row("  99.9 %", d.p999) +
         row("  max", d.largest) +
         with_error("same top token", {d.same_top.value * 100, d.same_top.error * 100}, 3, " %");
}

Result<int> ppl(const PplCommand& command, const Globals& globals) {
  LLMC_TRY(const auto native, native_options(command.model, globals));
  LLMC_TRY(auto text, measured_text(command.text, command.model, globals));
  evaluate::PerplexityOptions options{.native = native,
                                      .threads = command.threads,
                                      .text = std::move(text),
                                      .divergence = command.kl};
  LLMC_RETURN_IF_ERROR(
      fit_context(command.model, 0, options.text, options.native.compile, globals));
  Progress line(globals);
  LLMC_TRY(const auto report, evaluate::measure_perplexity(options, progress_of(line)));
  line.clear();
  const bool bundle = driver::looks_like_bundle(command.model.model);
  const std::string format =
      bundle ? report.quant : format_text(command.model.budget, command.model.quant);
  if (native.compile.quant_given)
    note_kept_codes(globals, report.rounding, format, native.compile.requantize);
  const std::int32_t bos = options.text.windows.bos;
  const auto& divergence = report.divergence;
  if (globals.json) {
    Json json{{"perplexity", report.perplexity.value},
              {"perplexity_standard_error", report.perplexity.error},
              {"mean_nll", report.mean_loss.value},
              {"standard_error", report.mean_loss.error},
              {"quant", format},
              {"kv", report.kv},
              {"target", report.target}};
    json.update(windows_json(command.text, report, bos));
    json["seconds"] = report.seconds;
    if (divergence) json["kl"] = cli::to_json(*divergence);
    print_json(json);
    return 0;
  }
  print(with_error("perplexity", report.perplexity, 4) +
        (divergence ? divergence_text(*divergence) : std::string()));
  note(globals, fmt::format("{}, kv {}: {}; {:.1f} tokens/s", format, report.kv,
                            windows_text(command.text, report, bos),
                            static_cast<double>(report.predicted) / report.seconds));
  return 0;
}

}  // namespace

Action add_ppl(CLI::App& app, const Globals& globals) {
  auto command = std::make_shared<PplCommand>();
  add_model_options(app, command->model, ModelUse::kMeasure);
  add_text_options(app, command->text, command->model);
  app.add_flag("--kl,--kl-divergence", command->kl,
               "KL divergence of the distributions from those of f32 weights and cache");
  add_threads(app, command->threads);
  return [command, &globals] { return ppl(*command, globals); };
}

}  // namespace llmc::cli
