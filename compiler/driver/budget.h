#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/driver/compile_options.h"
#include "compiler/driver/progress.h"
#include "compiler/onnx/model.h"
#include "compiler/plan/plan.h"
#include "runtime/hosted/tokenizer.h"

/// Chooses the format of each matrix of a decoder for a budget of bytes or of divergence (--fit,
/// --max-kl): docs/decisions/0018-budgets.md.
namespace llmc::driver {

/// Maximum number of ranges of a loop's layers with formats of their own. Each is a function of the
/// emitted code.
inline constexpr std::size_t kMaxLayerRanges = 8;

/// What formats are chosen for.
struct FitInput {
  const CompileOptions& options;  // with a budget
  const importer::ImportedModel& model;
  const hosted::Tokenizer* tokenizer = nullptr;
  std::string refused;        // why the model's tokenizer is not used
  plan::PlanOptions planned;  // without a target
  std::string target;         // any; sizes of weights do not depend on it
};

/// A graph with formats, and what is known about them.
struct FittedGraph {
  ir::Graph stages;
  plan::BudgetReport report;
  std::map<const ir::Constant*, double> shares;  // of the estimated loss, by matrix
};

/// Chooses formats for `stages`, the graph after the passes with kQ8. Splits loops where formats
/// differ. Keeps what was measured in the cache folder, if there is one. Fails
/// with kOverBudget if no formats fit, with kUnsupported if the model cannot be measured, and like
/// plan::make_plan().
Result<FittedGraph> fit_formats(const ir::Graph& stages, const FitInput& input,
                                const Progress& progress);

/// Records shares of the loss in the plans' weights.
void use_shares(const std::map<const ir::Constant*, double>& shares,
                std::vector<plan::Plan>& plans);

/// Returns, for example, "fit=12582912" or "max-kl=0.02,measured=text-0123456789abcdef": it changes
/// with everything that the budget says. Requires options.budget.
std::string budget_key(const CompileOptions& options);

}  // namespace llmc::driver
