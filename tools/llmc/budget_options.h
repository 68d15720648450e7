#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "compiler/driver/compile_options.h"
#include "tools/llmc/cli.h"

namespace llmc::cli {

/// --fit and --max-kl: budgets for which the formats of matrices are chosen.
struct BudgetOptions {
  CLI::Option *fit_option = nullptr, *max_kl_option = nullptr;
  std::string fit, max_kl;

  bool has_fit() const { return fit_option != nullptr && fit_option->count() > 0; }
  bool has_max_kl() const { return max_kl_option != nullptr && max_kl_option->count() > 0; }
};

/// Adds the options and returns them. `lists`: whether their values are lists of budgets.
std::vector<CLI::Option*> add_budget(CLI::App& app, BudgetOptions& options, bool lists);

/// Parse the values of --fit and --max-kl. Fail with kUsage for other text.
Result<std::uint64_t> parse_fit(const std::string& text);
Result<double> parse_max_kl(const std::string& text);

/// Returns the text on which formats are measured: that of --calibrate or, without the option, a
/// text that the model generates. Call it after all options of `compile` except the budget are set.
driver::CalibrationText measuring_text(const driver::CompileOptions& compile);

/// Sets compile.budget if one of the options is given. Fails with kUsage for an invalid value, if
/// both options are given, or if --quant is also given.
Status apply_budget(const BudgetOptions& options, driver::CompileOptions& compile);

/// Returns "fit 12MiB", "max-kl 0.02", or `quant` without a budget.
std::string format_text(const BudgetOptions& options, const std::string& quant);

}  // namespace llmc::cli
