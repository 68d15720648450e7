#include "tools/llmc/budget_options.h"

#include <fmt/format.h>

#include <charconv>

#include "tools/llmc/calibrate_options.h"
#include "tools/llmc/plan_text.h"

namespace llmc::cli {

std::vector<CLI::Option*> add_budget(CLI::App& app, BudgetOptions& options, bool lists) {
  const std::string of = lists ? "Budgets of bytes, such as 12MB,14MB: each" : "Budget: the";
  return {app.add_option("--fit", options.fit,
                         of + " format of each matrix, q4, q6 or q8, is chosen so that all "
                              "weights have at most these bytes, such as 12MiB")
              ->type_name(lists ? "LIST" : "SIZE"),
          app.add_option("--max-kl", options.max_kl,
                         "The same for the mean KL divergence in nats that rounding the weights "
                         "causes, such as 0.02")
              ->type_name(lists ? "LIST" : "X")};
}

Result<std::uint64_t> parse_fit(const std::string& text) {
  if (text.empty()) return usage_error("--fit is empty", "give a size, such as 12MiB");
  return parse_bytes(text, "--fit");
}

Result<double> parse_max_kl(const std::string& text) {
  double nats = 0;
  const char* const end = text.data() + text.size();
  const auto [next, error] = std::from_chars(text.data(), end, nats);
  if (error == std::errc{} && next == end && nats > 0 && nats <= 100) return nats;
  return usage_error(
      fmt::format("--max-kl takes a number above 0 and up to 100, not '{}'", printable(text, 40)),
      "give a mean KL divergence in nats, such as 0.02");
}

driver::CalibrationText measuring_text(const driver::CompileOptions& compile) {
  return compile.calibration ? *compile.calibration : own_calibration_text(compile);
}

Status apply_budget(const BudgetOptions& options, driver::CompileOptions& compile) {
  if (options.fit.empty() && options.max_kl.empty()) return ok_status();
  if (!options.fit.empty() && !options.max_kl.empty())
    return usage_error("--fit and --max-kl cannot be combined", "leave out one of them");
  const char* const name = options.fit.empty() ? "--max-kl" : "--fit";
  if (compile.quant_given)
    return usage_error(fmt::format("{} chooses the formats that --quant sets", name),
                       "leave out one of them");
  driver::WeightBudget budget;
  if (options.fit.empty()) {
    LLMC_TRY(budget.max_kl, parse_max_kl(options.max_kl));
  } else {
    LLMC_TRY(budget.bytes, parse_fit(options.fit));
  }
  budget.text = measuring_text(compile);
  compile.budget = std::move(budget);
  return ok_status();
}

std::string format_text(const BudgetOptions& options, const std::string& quant) {
  if (!options.fit.empty()) return "fit " + options.fit;
  return options.max_kl.empty() ? quant : "max-kl " + options.max_kl;
}

}  // namespace llmc::cli
