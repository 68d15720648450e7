#pragma once

#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/driver/bundle_writer.h"
#include "compiler/driver/calibration.h"
#include "compiler/driver/compile.h"
#include "compiler/driver/source.h"

/// Runs passes and planning: everything before weights are encoded.
namespace llmc::driver {

/// Measures the durations of consecutive phases.
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

/// A model and its plans.
struct Prepared {
  importer::ImportedModel model;
  BundleContent content;
  std::vector<plan::Plan> plans;  // one per target
};

/// Returns the plan options that follow from `options` alone; those that depend on the target or
/// the model are not set. Fails with kUsage if the bundle's name or the accelerator is invalid, or
/// if shards are combined with a system prompt or an accelerator.
Result<plan::PlanOptions> plan_options(const CompileOptions& options);

/// Runs the passes and makes one plan per target. For a decoder, also reads the tokenizer and the
/// chat description, chooses formats (options.budget), calibrates, and builds the tables of the
/// grammar. Fails like compile_model().
Result<Prepared> prepare(const CompileOptions& options, Source source,
                         std::span<const std::string> targets, Purpose purpose,
                         const Progress& progress, PhaseClock& clock);
/// Assigns weight formats to the graph of stages of a decoder and plans it for options.target.
Result<Prepared> prepare_stages(const ir::Graph& stages, const CompileOptions& options);

/// Runs the passes on a plain graph and plans it as kRun. Its shapes must be fixed or have ranges
/// (options.open_dims). `quant`: the format of the matrices; kUnset keeps their format in the
/// model.
Result<plan::Plan> plan_graph(const ir::Graph& graph, plan::PlanOptions options,
                              passes::QuantScheme quant = {});

}  // namespace llmc::driver
