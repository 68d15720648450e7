#pragma once

#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/driver/bundle_writer.h"
#include "compiler/driver/compile.h"
#include "compiler/driver/source.h"

/// Passes and plans: all that is known before a weight is encoded.
namespace llmc::driver {

/// Measures consecutive phases.
class PhaseClock {
 public:
  explicit PhaseClock(std::vector<PhaseTime>& times) : times_(times) {}
  void finish(std::string phase) {
    const auto now = std::chrono::steady_clock::now();
    times_.push_back({std::move(phase), std::chrono::duration<double>(now - started_).count()});
    started_ = now;
  }

 private:
  std::vector<PhaseTime>& times_;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

/// A model with its plans.
struct Prepared {
  importer::ImportedModel model;
  BundleContent content;
  std::vector<plan::Plan> plans;  // one per target
};

/// Checks the options that do not depend on the target, and returns them for a plan.
Result<plan::PlanOptions> plan_options(const CompileOptions& options);

/// Reads what belongs to the bundle, runs the passes and plans for each of `targets`. Errors as
/// compile_model.
Result<Prepared> prepare(const CompileOptions& options, Source source,
                         std::span<const std::string> targets, const Progress& progress,
                         PhaseClock& clock);
/// The same of a stage-level graph, which is a decoder's.
Result<Prepared> prepare_stages(const ir::Graph& stages, const CompileOptions& options);

/// Passes and plan of a plain graph whose shapes are fixed or have ranges (options.open_dims).
/// `inputs`: of the function's signature, those that became constants among them. `quant`: format
/// of the matrices; kUnset: as the model has them.
Result<plan::Plan> plan_graph(const ir::Graph& graph, const std::vector<ir::Value>& inputs,
                              const plan::PlanOptions& options,
                              ir::WeightFormat quant = ir::WeightFormat::kUnset);

}  // namespace llmc::driver
