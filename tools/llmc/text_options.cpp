#include "tools/llmc/text_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/driver/bundle_files.h"
#include "compiler/driver/control_tokens.h"
#include "compiler/driver/trained_context.h"
#include "compiler/support/counted.h"
#include "tools/llmc/calibrate_options.h"
#include "tools/llmc/numbers.h"
#include "tools/llmc/text.h"

namespace llmc::cli {

void add_text_options(CLI::App& app, TextOptions& options, ModelOptions& model) {
  auto* file = app.add_option("-f,--text,--file", options.file, "Text file, -: standard input")
                   ->type_name("FILE");
  auto* ids = app.add_option("--ids", options.ids, "Token ids instead of a text, such as 1,2,3")
                  ->type_name("IDS");
  file->excludes(ids);
  add_parse_special(app, model.parse_special, "--text and the file of --calibrate");
  add_token_count(app, "--window", options.size, 2, plan::kMaxContext,
                  "Window size in tokens (default: --ctx if given, else 512, at most the model's "
                  "context)");
  CLI::Option* const stride = add_token_count(
      app, "--ppl-stride", options.stride, 1, plan::kMaxContext,
      "Distance in tokens between the starts of overlapping windows, whose last TOKENS "
      "tokens are counted (default: no overlap)");
  app.add_option("--count", options.counted,
                 "Counted tokens of a window: the second half, or all (default: "
                 "half)")
      ->check(CLI::IsMember({"half", "all"}))
      ->type_name("WHICH")
      ->excludes(stride);
  add_whole_number(app, "--chunks", options.chunks, 1, INT32_MAX,
                   "Maximum number of windows (default: all)");
  app.add_flag("--no-bos", options.no_bos, "No BOS token at the start of windows");
  add_source_options(app, options.source);
}

Result<evaluate::MeasuredText> measured_text(const TextOptions& options, const ModelOptions& model,
                                             const Globals& globals) {
  if (!options.file && !options.ids)
    return usage_error("--text or --ids is required", "give the text to measure");
  evaluate::MeasuredText text;
  text.windows = {.size = options.size, .stride = options.stride, .max_windows = options.chunks};
  if (options.counted == "all") text.windows.scored = evaluate::ScoredTokens::kAll;
  if (options.ids) {
    if (model.parse_special && !has_file(model.calibrate))
      return no_text_to_parse("--text or --calibrate FILE");
    LLMC_TRY(text.tokens, parse_numbers(*options.ids, "--ids"));
    text.bad_token = ErrorKind::kUsage;
    std::unique_ptr<hosted::Tokenizer> tokenizer;
    if (options.source.is_text()) {
      LLMC_TRY(tokenizer, load_tokenizer(model.model, "or give token ids by --source-ids"));
    }
    LLMC_TRY(text.source, encoder_input(options.source, tokenizer.get()));
    return text;
  }
  LLMC_TRY(const auto tokenizer, load_tokenizer(model.model, "or give token ids by --ids"));
  LLMC_TRY(const std::string content, read_text(*options.file));
  text.file = *options.file == "-" ? "standard input" : *options.file;
  if (content.empty())
    return file_failure(ErrorKind::kBadInput, text.file, "is empty", "give a text to measure");
  std::error_code unknown;
  if (has_file(model.calibrate) &&
      std::filesystem::equivalent(model.calibrate, *options.file, unknown))
    remark(globals,
           "the text that is measured is that of --calibrate, for which weights are "
           "rounded; measure on another to see what it brings");
  text.tokens =
      tokenizer->encode(content, {.add_prefix = false, .parse_special = model.parse_special});
  if (!model.parse_special && !globals.quiet) {
    const std::string names = driver::spelled_control_tokens(*tokenizer, content, text.tokens);
    if (!names.empty())
      remark(globals, fmt::format("the text spells control tokens ({}), which are read as plain "
                                  "text; --parse-special reads them as tokens",
                                  names));
  }
  LLMC_TRY(text.source, encoder_input(options.source, tokenizer.get()));
  if (!options.no_bos) text.windows.bos = tokenizer->bos().value_or(-1);
  return text;
}

Status fit_context(const ModelOptions& model, std::uint32_t steps, evaluate::MeasuredText& text,
                   driver::CompileOptions& compile, const Globals& globals) {
  evaluate::WindowOptions& windows = text.windows;
  const bool bundle = driver::looks_like_bundle(model.model);
  std::uint32_t trained = 0, context = compile.ctx;
  if (bundle) {
    LLMC_TRY(const driver::BundleFacts facts, driver::read_bundle(model.model));
    trained = facts.trained_ctx;
    context = facts.ctx;
  } else {
    LLMC_TRY(trained, driver::trained_context(model.model));
  }
  const bool follows = compile.ctx_given && windows.size == 0;
  if (follows) windows.size = compile.ctx;
  if (bundle && compile.ctx_given) {
    remark(globals,
           fmt::format("--ctx {} cannot change the context of a bundle and is used as the window "
                       "size: use --window {}",
                       compile.ctx, windows.size));
  }
  // Additional context for a stride or for steps does not change the default window.
  const std::uint32_t added = windows.stride / 2;  // tokens that a stride adds to each window
  const std::uint32_t room = trained > added ? trained - added : trained;
  const std::uint32_t usual =
      trained == 0 ? evaluate::kDefaultWindow : std::min(evaluate::kDefaultWindow, room);
  const bool is_short = trained != 0 && usual < evaluate::kDefaultWindow;
  if (windows.size == 0 && !bundle && (windows.stride > 0 || (steps > 0 && is_short)))
    windows.size = usual;
  if (windows.size == 0 && trained != 0 && steps > 0) compile.ctx_needed = usual / 2 + steps;
  // The default window of a model that is compiled now is limited to its context and to the trained
  // context.
  if (windows.size == 0 && !bundle) return ok_status();
  const std::uint64_t width = evaluate::window_width(windows, context);
  if (!bundle) {
    const auto needed = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(std::max(width, (width + 1) / 2 + steps), plan::kMaxContext));
    if (follows) compile.ctx = needed;
    compile.ctx_needed = needed;
  }
  if (trained != 0 && width > trained &&
      evaluate::Windows::cut(text.tokens, windows, bundle ? context : plan::kMaxContext).ok()) {
    note(globals, "llmc: warning: " + plan::beyond_training("a window", width, trained).message);
  }
  return ok_status();
}

std::string windows_text(const TextOptions& options, const evaluate::PerplexityReport& report,
                         std::int32_t bos) {
  std::string text =
      fmt::format("{} of {}{}", counted(report.windows, "window"), counted(report.window, "token"),
                  bos >= 0 ? " with a BOS token" : "");
  if (options.stride > 0) {
    text += fmt::format(", {} apart, the last {} of each", counted(options.stride, "token"),
                        options.stride);
  } else {
    text += options.counted == "all" ? ", all tokens" : ", the second half of each";
  }
  return text + fmt::format(" counted: {}", counted(report.predicted, "token"));
}

Json windows_json(const TextOptions& options, const evaluate::PerplexityReport& report,
                  std::int32_t bos) {
  return Json{{"window", report.window},
              {"windows", report.windows},
              {"stride", options.stride > 0 ? Json(options.stride) : Json(nullptr)},
              {"counted", options.stride > 0 ? "stride" : options.counted},
              {"bos", bos >= 0 ? Json(bos) : Json(nullptr)},
              {"predicted", report.predicted}};
}

Json to_json(const evaluate::Estimate& estimate) {
  return Json{{"value", estimate.value}, {"standard_error", estimate.error}};
}

Json to_json(const evaluate::Divergence& d) {
  return Json{{"base_perplexity", to_json(d.base_perplexity)},
              {"perplexity_ratio", to_json(d.ratio)},
              {"mean", to_json(d.kl)},
              {"median", d.median},
              {"p90", d.p90},
              {"p99", d.p99},
              {"p99_9", d.p999},
              {"max", d.largest},
              {"same_top", to_json(d.same_top)}};
}

}  // namespace llmc::cli
