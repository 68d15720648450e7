#include "tools/llmc/verify_function.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/evaluate/verify_plain.h"
#include "compiler/plan/weight_formats.h"
#include "compiler/support/name_list.h"

namespace llmc::cli {
namespace {

Json plain_json(const evaluate::VerifyPlainReport& report) {
  Json outputs = Json::array();
  for (const auto& output : report.outputs)
    outputs.push_back(Json{{"name", printable(output.largest.name)},
                           {"ok", output.ok},
                           {"largest_difference", output.largest.difference},
                           {"largest_expected", output.largest.largest},
                           {"relative_error", output.relative_error},
                           {"problem", output.largest.problem}});
  return Json{{"ok", report.ok()},
              {"kind", "function"},
              {"outputs", std::move(outputs)},
              {"relative_error_allowed", report.relative_error_allowed},
              {"hash", report.hash},
              {"threads", report.threads},
              {"same_bits", report.threads > 1 ? Json(report.same_bits) : Json(nullptr)}};
}

/// Returns the hint for outputs that differ by more than rounding to the format may change them.
std::string rounding_hint(const evaluate::VerifyPlainReport& report) {
  const bool zeros = std::ranges::any_of(report.outputs, [](const auto& output) {
    return !output.ok && output.largest.all_zeros && ir::is_float(output.largest.element);
  });
  if (zeros)
    return "an output is all zeros: quantized layers take rows without elements of 2^-96 or more "
           "for zeros (docs/numerics.md); --quant f32 and f16 do not";
  const auto limit = [](ir::WeightFormat format) {
    return plan::weight_format_info(format).max_relative_rms;
  };
  std::vector<std::string> finer;
  for (const ir::WeightFormat format :
       {ir::WeightFormat::kQ6, ir::WeightFormat::kQ8, ir::WeightFormat::kF16})
    if (limit(format) < limit(report.rounding.coarsest()))
      finer.emplace_back(plan::weight_format_name(format));
  const std::string less =
      finer.empty() ? "" : fmt::format("--quant {} rounds less; ", name_list(finer, " or "));
  return less + "--quant f32 shows what rounding does not explain";
}

}  // namespace

Result<int> verify_function(const CLI::App& app, const ModelOptions& model,
                            const exec::NativeOptions& native, driver::Source source,
                            std::uint32_t threads, TableFormat format, const Globals& globals) {
  for (const char* const name : {"--ids", "--steps", "--model", "--golden", "--require-golden",
                                 "--update", "--no-reference"}) {
    if (app.get_option(name)->count() > 0)
      return usage_error(fmt::format("{} does not apply to a function, which is run once on "
                                     "pseudorandom inputs",
                                     name),
                         "remove the option");
  }
  if (app.get_option("--short")->count() > 0)
    remark(globals, "--short has no effect on a function, which is run once");
  note_without_effect(model, globals);
  Progress line(globals);
  LLMC_TRY(const auto report,
           evaluate::verify_plain(
               {.compile = native.compile, .emulator = native.emulator, .threads = threads},
               std::move(source), progress_of(line)));
  line.clear();
  if (globals.json || format == TableFormat::kJson) {
    print_json(plain_json(report));
  } else {
    Table table(format, {{"output", Column::Align::kLeft},
                         {"largest |d|"},
                         {"of"},
                         {"relative error"},
                         {"result", Column::Align::kLeft}});
    for (const auto& output : report.outputs)
      table.add({printable(output.largest.name, 60),
                 fmt::format("{:.2e}", output.largest.difference),
                 fmt::format("{:.3g}", output.largest.largest),
                 fmt::format("{:.2e}", output.relative_error), output.ok ? "ok" : "MISMATCH"});
    print(table.text());
    flush_stdout();
    std::string about = fmt::format("bits of all outputs: {}", report.hash);
    if (report.threads > 1)
      about += fmt::format("; {} on {} threads", report.same_bits ? "the same" : "OTHERS",
                           report.threads);
    if (report.relative_error_allowed > 0)
      about += fmt::format("\nlimit of the relative error: {} for rounding to {}",
                           report.relative_error_allowed,
                           plan::weight_format_name(report.rounding.coarsest()));
    note(globals, about);
  }
  if (report.ok()) return 0;
  const bool rounded = report.same_bits && report.relative_error_allowed > 0;
  Diagnostic d{.kind = ErrorKind::kMismatch, .file = model.model};
  d.message = !report.same_bits ? "results on several threads differ from those on one"
              : rounded         ? "outputs differ from the reference by more than the limit for "
                                  "rounding to the format"
                                : "native code differs from the reference";
  d.hint =
      rounded ? rounding_hint(report) : "compare with --target generic, and report the difference";
  return d;
}

}  // namespace llmc::cli
