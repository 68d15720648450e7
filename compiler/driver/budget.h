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

/// Chooses the format of each matrix of a decoder for a limit on the bytes of weights (--fit) or on
/// the KL divergence (--max-kl). Design: docs/decisions/0018-budgets.md.
namespace llmc::driver {

/// Maximum number of layer ranges of a loop that have separate formats. Each range is a function in
/// the emitted code.
inline constexpr std::size_t kMaxLayerRanges = 8;

/// Input of fit_formats().
struct FitInput {
  const CompileOptions& options;  // `budget` must be set
  const importer::ImportedModel& model;
  const hosted::Tokenizer* tokenizer = nullptr;
  std::string refused;        // why the model's tokenizer was rejected, or empty
  plan::PlanOptions planned;  // `target` is not set
  std::string target;         // name of any target; sizes of weights do not depend on it
};

/// A graph with the chosen formats, and estimates of their loss.
struct FittedGraph {
  ir::Graph stages;
  plan::BudgetReport report;
  std::map<const ir::Constant*, double> shares;  // fraction of the estimated loss, by matrix
};

/// Chooses formats for `stages`, the graph after the passes with kQ8. Splits loops where formats
/// differ. Caches the measured losses in the cache folder, if there is one. Fails with kOverBudget
/// if no formats meet the budget. Fails with kUnsupported if the interpreter cannot run the model,
/// or if no matrix has a format to choose. Also fails like Measurements and plan::make_plan().
Result<FittedGraph> fit_formats(const ir::Graph& stages, const FitInput& input,
                                const Progress& progress);

/// Sets PackedWeight::loss_share of the plans' matrices.
void use_shares(const std::map<const ir::Constant*, double>& shares,
                std::vector<plan::Plan>& plans);

/// Returns a string that identifies the budget and its text, for cache keys, such as "fit=12582912"
/// or "max-kl=0.02,measured=text-0123456789abcdef". A text that the model generates is omitted.
/// Requires options.budget.
std::string budget_key(const CompileOptions& options);

}  // namespace llmc::driver
