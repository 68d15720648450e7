#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <ranges>
#include <string_view>

#include "compiler/driver/bundle_files.h"
#include "compiler/evaluate/verify.h"
#include "compiler/plan/weight_formats.h"
#include "compiler/support/counted.h"
#include "compiler/support/name_list.h"
#include "tools/llmc/accelerator_text.h"
#include "tools/llmc/function_text.h"
#include "tools/llmc/numbers.h"
#include "tools/llmc/options.h"
#include "tools/llmc/table.h"
#include "tools/llmc/verify_function.h"

namespace llmc::cli {
namespace {

struct VerifyCommand {
  ModelOptions model;
  FunctionOptions function;
  std::string reference_model, golden;
  std::optional<std::string> ids;
  std::uint32_t steps = 8;
  std::uint32_t threads = 1;
  CLI::Option* require_option = nullptr;
  bool require_golden = false;
  bool update = false;
  bool only_short = false;
  bool no_reference = false;
  TableFormat format = TableFormat::kText;
};

/// Returns a line that explains the difference from the reference; empty if activations are not
/// quantized.
std::string rounding_text(const plan::Rounding& rounding) {
  if (!rounding.rounds_activations) return {};
  const std::string formats =
      name_list(rounding.formats | std::views::transform(plan::weight_format_name), ", ");
  std::string what = formats.empty() ? "activations to 8 bits" : "the weights to " + formats;
  if (rounding.kept > 0)
    what += formats.empty() ? " (weights keep the model's codes)"
                            : " (except those that keep the model's codes)";
  return fmt::format(
      "the difference is due to rounding {}; with --quant=f32 only a bug in the code could "
      "differ\n",
      what);
}

/// Returns whether this runs in a CI system: CI=true, which GitHub, GitLab and others set, or CI=1.
bool in_ci() {
  const char* const value = std::getenv("CI");
  return value != nullptr && (value == std::string_view("true") || value == std::string_view("1"));
}

Json to_json(const evaluate::VerifyRun& run) {
  Json points = Json::array();
  for (const evaluate::VerifyPoint& p : run.points) {
    Json point{{"phase", p.phase}, {"position", p.position}};
    if (run.reference) {
      point["max_difference"] = p.max_difference;
      point["kl"] = p.kl;
    }
    point["native_token"] = p.native_token;
    point["reference_token"] = p.reference_token;
    points.push_back(std::move(point));
  }
  Json json{{"run", run.name},
            {"prompt_tokens", run.prompt_tokens},
            {"steps", run.steps},
            {"kv_blocks", run.kv_blocks},
            {"chunk", run.chunk},
            {"chunks", run.chunks},
            {"reference", run.reference},
            {"points", points},
            {"hash", run.hash},
            {"golden_key", run.golden_key}};
  json["golden_hash"] = run.golden_hash ? Json(*run.golden_hash) : Json(nullptr);
  if (run.other_chunk != 0) {
    json["other_chunk"] = run.other_chunk;
    json["other_chunk_same_bits"] = run.chunks_ok();
  }
  return json;
}

Json to_json(const evaluate::VerifyReport& report) {
  const evaluate::VerifyRun& first = report.runs.front();
  Json runs = Json::array();
  for (const evaluate::VerifyRun& run : report.runs) runs.push_back(to_json(run));
  Json result{{"ok", report.ok()}, {"reference", first.reference}};
  if (first.reference) {
    result["max_difference"] = report.max_difference;
    result["relative_difference"] = report.relative_difference;
    if (report.relative_difference_allowed > 0)
      result["relative_difference_allowed"] = report.relative_difference_allowed;
    result["mean_kl"] = report.mean_kl;
    result["max_kl"] = report.max_kl;
    result["max_kl_allowed"] = report.max_kl_allowed;
    result["greedy_agreement"] = report.greedy_agreement;
  }
  if (report.image)
    result["image"] = {{"ok", report.image->rows.ok},
                       {"relative_error", report.image->rows.relative_error},
                       {"relative_error_allowed", report.image->relative_error_allowed},
                       {"hash", report.image->hash}};
  if (report.device) result["accelerator"] = device_json(*report.device);
  result["hash"] = first.hash;  // also in `runs`
  result["golden_key"] = first.golden_key;
  result["golden_hash"] = first.golden_hash ? Json(*first.golden_hash) : Json(nullptr);
  result["golden_file"] = report.golden_file.string();
  result["golden_numerics"] = report.golden_numerics;
  result["golden_required"] = report.golden_required;
  result["golden_updated"] = report.golden_updated;
  result["numerics"] = report.numerics;
  result["not_run"] = report.not_run;
  result["runs"] = std::move(runs);
  return result;
}

/// Prints the table of points. In CSV, the tokens of the native code and of the reference have
/// separate columns.
void print_points(const evaluate::VerifyReport& report, TableFormat format) {
  using Align = Column::Align;
  const bool csv = format == TableFormat::kCsv;
  std::vector<Column> columns{{"run", Align::kLeft}, {"phase", Align::kLeft},
                              {"position"},          {"largest |d|"},
                              {"KL, nats"},          {"greedy", Align::kLeft}};
  if (csv) columns.push_back({"reference greedy"});
  Table table(format, columns);
  for (const evaluate::VerifyRun& run : report.runs) {
    if (!run.reference) continue;
    for (const evaluate::VerifyPoint& p : run.points) {
      std::vector<std::string> cells{run.name,
                                     p.phase,
                                     fmt::to_string(p.position),
                                     fmt::format("{:.3e}", p.max_difference),
                                     fmt::format("{:.3e}", p.kl),
                                     fmt::to_string(p.native_token)};
      if (csv)
        cells.push_back(fmt::to_string(p.reference_token));
      else if (p.native_token != p.reference_token)
        cells.back() += fmt::format(", reference {}", p.reference_token);
      table.add(std::move(cells));
    }
  }
  print(table.text());
}

/// Returns the extent of a run: "long: 200 prompt tokens in 3 chunks (forward passes of at most 128
/// tokens) and 4 steps, in 7 KV blocks: reference, hash, …".
std::string coverage_text(const evaluate::VerifyRun& run) {
  std::string text =
      fmt::format("{}: {} in {} (forward passes of at most {} tokens) and {}, in {}: {}", run.name,
                  counted(run.prompt_tokens, "prompt token"), counted(run.chunks, "chunk"),
                  run.chunk, counted(run.steps, "step"), counted(run.kv_blocks, "KV block"),
                  run.reference ? "reference, hash" : "hash");
  if (run.other_chunk != 0)
    text += fmt::format(", {} bits in chunks of {}", run.chunks_ok() ? "the same" : "OTHER",
                        run.other_chunk);
  return text;
}

std::string hash_text(const evaluate::VerifyReport& report, const evaluate::VerifyRun& run) {
  const std::string start = fmt::format("golden {}: ", run.golden_key);
  if (report.golden_updated) {
    return fmt::format("{}written {} to {}\n", start, run.hash, report.golden_file.string());
  } else if (run.golden_differs()) {
    return fmt::format("{}MISMATCH: {}, stored {}\n", start, run.hash,
                       printable(*run.golden_hash, 40));
  } else if (run.golden_hash) {
    return fmt::format("{}equal: {}\n", start, run.hash);
  }
  return fmt::format("{}{}: hash {}\n", start, report.golden_required ? "MISSING" : "none stored",
                     run.hash);
}

/// Returns the result of all points and hashes.
std::string summary_text(const evaluate::VerifyReport& report) {
  std::string text;
  if (report.runs.front().reference) {
    text = fmt::format(
        "reference: {}: mean KL {:.1e} nats (limit {:.0e}), largest {:.1e}; largest difference of "
        "a logit {:.1e}, {:.1e} of the largest logit{}; greedy agreement {:.0f} %\n",
        report.reference_ok ? "ok" : "MISMATCH", report.mean_kl, report.max_kl_allowed,
        report.max_kl, report.max_difference, report.relative_difference,
        report.relative_difference_allowed == 0
            ? ""
            : fmt::format(" (limit {:.0e})", report.relative_difference_allowed),
        100 * report.greedy_agreement);
    text += rounding_text(report.rounding);
  }
  if (report.image) {
    const evaluate::VerifyImage& image = *report.image;
    text += fmt::format("{} encoder: {}: relative error {:.1e}{}, bits {}\n",
                        image.is_sound ? "audio" : "image", image.rows.ok ? "ok" : "MISMATCH",
                        image.rows.relative_error,
                        image.relative_error_allowed == 0
                            ? ""
                            : fmt::format(" (limit {:.0e})", image.relative_error_allowed),
                        image.hash);
  }
  if (report.device) text += device_text(*report.device) + "\n";
  for (const evaluate::VerifyRun& run : report.runs) text += coverage_text(run) + "\n";
  for (const evaluate::VerifyRun& run : report.runs) text += hash_text(report, run);
  return text;
}

/// Prints the result. If verification failed, ignores --quiet.
void print_report(const evaluate::VerifyReport& report, TableFormat format,
                  const Globals& globals) {
  if (report.runs.front().reference || format != TableFormat::kText) print_points(report, format);
  Globals beside = globals;
  beside.quiet = globals.quiet && report.ok();
  flush_stdout();  // keep the order with notes if both streams have the same destination
  print_beside_table(format, beside, summary_text(report));
}

/// Returns a text about stored hashes of another numerics version; empty if the version is equal.
std::string version_reason(const evaluate::VerifyReport& report, bool bundle) {
  if (report.golden_numerics == report.numerics) return {};
  return fmt::format("the stored hash has numerics version {}, but {} has {}",
                     printable(report.golden_numerics, 20), bundle ? "the bundle" : "this llmc",
                     printable(report.numerics, 20));
}

/// Returns a hint: how to replace stored hashes after an intended change.
std::string rewrite_hint(const VerifyCommand& command, bool bundle) {
  if (!bundle || !command.golden.empty()) return "rewrite the stored hashes by --update";
  return "compile the model again, because the bundle has its hashes, or store them in a file by "
         "--golden FILE --update";
}

/// Returns the error of a report that is not ok: its first failure.
Diagnostic failure_of(const evaluate::VerifyReport& report, const VerifyCommand& command,
                      bool bundle) {
  Diagnostic d{.kind = ErrorKind::kMismatch, .file = command.model.model};
  const auto missing = std::ranges::find_if(
      report.runs, [](const evaluate::VerifyRun& run) { return !run.golden_hash; });
  if (!report.reference_ok) {
    d.message = "native code differs from the reference by more than the format's limit";
    d.hint = "compare with --quant=f32, which has only rounding differences";
  } else if (!report.image_ok()) {
    d.message = "the rows of the encoder differ from the reference by more than the limit";
    d.hint = "compare with --quant=f32, which has only rounding differences";
  } else if (!report.chunks_ok()) {
    const evaluate::VerifyRun& run = *std::ranges::find_if(
        report.runs, [](const evaluate::VerifyRun& r) { return !r.chunks_ok(); });
    d.message = fmt::format("logits differ between prompts in chunks of {} and of {} tokens",
                            run.other_chunk, run.chunk);
    d.hint = "this is a bug in llmc; please report it with the model";
  } else if (std::ranges::any_of(report.runs, &evaluate::VerifyRun::golden_differs)) {
    const std::string reason = version_reason(report, bundle);
    d.message = reason.empty() ? "the hash of the logits differs from the stored hash" : reason;
    d.hint = (reason.empty() ? "if the change is intended, " : "if the new version is intended, ") +
             rewrite_hint(command, bundle);
    if (bundle && reason.empty())
      d.hint +=
          "; a --cflag such as -ffast-math can change results: compile "
          "the bundle without it";
  } else {
    d.message = fmt::format("{} has no hash for {}, which is required",
                            printable(report.golden_file.string()), missing->golden_key);
    d.hint = bundle && command.golden.empty() ? "store it by --golden FILE --update, "
                                              : "store it by --update, ";
    d.hint += missing->name == "long" ? "or skip the run by --short or its hash by "
                                        "--no-require-golden"
                                      : "or skip it by --no-require-golden";
  }
  return d;
}

Result<int> verify(const VerifyCommand& command, const CLI::App& app, const Globals& globals) {
  LLMC_TRY(auto native, native_options(command.model, globals));
  native.compile.import.on_warning = warn_once(globals);
  LLMC_TRY(auto plain, function_to_run(command.function, native.compile));
  if (plain)
    return verify_function(app, command.model, native, *std::move(plain), command.threads,
                           command.format, globals);
  evaluate::VerifyOptions options;
  options.native = native;
  options.threads = command.threads;
  options.steps = command.steps;
  options.golden = command.golden;
  options.reference_model = command.reference_model;
  options.require_golden = command.require_option->count() > 0 ? command.require_golden
                                                               : !command.golden.empty() || in_ci();
  options.update = command.update;
  options.long_run = !command.only_short;
  options.reference = !command.no_reference;
  if (command.ids) {
    LLMC_TRY(options.prompt, parse_numbers(*command.ids, "--ids"));
  }
  const bool bundle = driver::looks_like_bundle(command.model.model);
  Progress line(globals);
  LLMC_TRY(const auto report, evaluate::verify_model(options, progress_of(line)));
  line.clear();
  if (globals.json || command.format == TableFormat::kJson) {
    print_json(to_json(report));
  } else {
    print_report(report, command.format, globals);
    if (!report.not_run.empty()) remark(globals, report.not_run);
    if (bundle && options.reference && command.reference_model.empty())
      remark(globals, "a bundle has no graph: give --model MODEL to compare with the reference");
  }
  if (!report.ok()) return failure_of(report, command, bundle);
  return 0;
}

}  // namespace

Action add_verify(CLI::App& app, const Globals& globals) {
  auto command = std::make_shared<VerifyCommand>();
  add_model_options(app, command->model, ModelUse::kVerify);
  add_function_options(app, command->function);
  app.add_option("--ids", command->ids, "Prompt as token ids (default: a fixed sequence)")
      ->type_name("IDS");
  add_token_count(app, "-n,--steps", command->steps, 0, plan::kMaxContext,
                  "Greedy steps after the prompt (default: 8)");
  add_whole_number(
      app, "-t,--threads", command->threads, 1, plan::kMaxThreads,
      "Number of threads (default: 1); plain graphs: of a second run, which must be bit-identical");
  app.add_option("--model", command->reference_model,
                 "Original model of a bundle, for the reference")
      ->type_name("MODEL");
  app.add_option("--golden", command->golden,
                 "File with hashes (default: MODEL/golden-hashes.json, or the bundle's)")
      ->type_name("FILE");
  command->require_option =
      app.add_flag("--require-golden,!--no-require-golden", command->require_golden,
                   "Failure if no hash is stored (default: with --golden, and with CI=true in the "
                   "environment)");
  app.add_flag("--update", command->update, "Rewrite the stored hashes instead of comparing");
  app.add_flag("--short", command->only_short, "Only the short prompt of one KV block");
  add_table_format(app, command->format);
  app.add_flag("--no-reference", command->no_reference,
               "Only the stored hash, not the interpreter");
  return [command, &app, &globals] { return verify(*command, app, globals); };
}

}  // namespace llmc::cli
