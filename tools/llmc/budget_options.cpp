#include "tools/llmc/budget_options.h"

#include <fmt/format.h>

#include <ranges>

#include "compiler/calibrate/choice.h"
#include "compiler/plan/weight_formats.h"
#include "compiler/support/name_list.h"
#include "compiler/support/parse_number.h"
#include "tools/llmc/calibrate_options.h"
#include "tools/llmc/numbers.h"

namespace llmc::cli {

std::vector<CLI::Option*> add_budget(CLI::App& app, BudgetOptions& options, bool lists) {
  const std::string formats =
      name_list(calibrate::kChoices | std::views::transform(plan::weight_format_name), " or ");
  options.fit_option =
      app.add_option(
             "--fit", options.fit,
             fmt::format("{}: choose {} for each matrix so that all weights fit",
                         lists ? "Sizes such as 12MiB,14MiB" : "Size such as 12MiB", formats))
          ->type_name(lists ? "LIST" : "SIZE");
  options.max_kl_option =
      app.add_option("--max-kl", options.max_kl,
                     fmt::format("Mean KL divergence in nats, such as {}: choose {} for each "
                                 "matrix so that rounding the weights causes at most that",
                                 lists ? "0.01,0.02" : "0.02", formats))
          ->type_name(lists ? "LIST" : "X");
  return {options.fit_option, options.max_kl_option};
}

Result<std::uint64_t> parse_fit(const std::string& text) {
  if (text.empty()) return usage_error("--fit is empty", "give a size, such as 12MiB");
  return parse_bytes(text, "--fit");
}

Result<double> parse_max_kl(const std::string& text) {
  const auto nats = parse_number<double>(text);
  if (nats && *nats > 0 && *nats <= 100) return *nats;
  return usage_error(
      fmt::format("--max-kl takes a number above 0 and up to 100, not '{}'", printable(text, 40)),
      "give a mean KL divergence in nats, such as 0.02");
}

driver::CalibrationText measuring_text(const driver::CompileOptions& compile) {
  return compile.calibration ? *compile.calibration : own_calibration_text(compile);
}

Status apply_budget(const BudgetOptions& options, driver::CompileOptions& compile) {
  if (!options.has_fit() && !options.has_max_kl()) return ok_status();
  if (options.has_fit() && options.has_max_kl())
    return usage_error("--fit and --max-kl cannot be combined", "leave out one of them");
  const char* const name = options.has_fit() ? "--fit" : "--max-kl";
  if (compile.quant_given)
    return usage_error(fmt::format("{} chooses the formats that --quant sets", name),
                       "leave out one of them");
  driver::WeightBudget budget;
  if (!options.has_fit()) {
    LLMC_TRY(budget.max_kl, parse_max_kl(options.max_kl));
  } else {
    LLMC_TRY(budget.bytes, parse_fit(options.fit));
  }
  budget.text = measuring_text(compile);
  compile.budget = std::move(budget);
  return ok_status();
}

std::string format_text(const BudgetOptions& options, const std::string& quant) {
  if (options.has_fit()) return "fit " + options.fit;
  return options.has_max_kl() ? "max-kl " + options.max_kl : quant;
}

}  // namespace llmc::cli
