#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/driver/compile_options.h"
#include "compiler/driver/progress.h"
#include "compiler/driver/source.h"
#include "compiler/plan/plan.h"
#include "compiler/support/result.h"

/// From a model's path to a bundle on disk: import, passes, plan, emission, clang, archive.
namespace llmc::driver {

/// Times of the phases, in seconds.
struct PhaseTime {
  std::string phase;
  double seconds = 0;
};

struct Bundle {
  std::filesystem::path folder;
  std::string name;                // NAME of NAME.h and libNAME.a
  std::vector<std::string> files;  // relative to the folder, sorted
  plan::Plan plan;                 // with exact code_bytes
  std::vector<PhaseTime> times;
};

/// "q4", "q6", "q8", "f16", "f32".
std::optional<ir::WeightFormat> parse_weight_format(std::string_view text);
std::string_view format_name(ir::WeightFormat format);

/// Checks what can be told before a model is read: targets, flags for clang, the bundle's name and
/// the grammar. Errors: kUsage, kBadInput (grammar).
Status check_options(const CompileOptions& options, std::span<const std::string> targets);

/// Writes the bundle, whole or not at all. A system prompt's keys and values are computed by code
/// for this machine, whatever the target: the bits are the same. Errors: kBadInput (model, options,
/// output folder), kUnsupported (every operator no stage exists for, all at once), kOverBudget,
/// kToolchain.
Result<Bundle> compile_model(const CompileOptions& options, const Progress& progress = {});

/// The same for several targets: the bundle of targets[i] in folders[i]. `source`:
/// read_source(options); options.target and options.out_dir are not read. Weights are encoded once.
/// A failure leaves all folders as they were, except one while finished bundles are renamed.
Result<std::vector<Bundle>> compile_model(const CompileOptions& options, Source source,
                                          std::span<const std::string> targets,
                                          std::span<const std::filesystem::path> folders,
                                          const Progress& progress = {});

/// The bundle of a stage-level graph, as the passes deliver it, whose matrices have formats or get
/// those of options.quant: options.model is not read.
Result<Bundle> compile_stages(const ir::Graph& stages, const CompileOptions& options);

/// What compile_model would use, without reading a weight or running clang; code_bytes is an
/// estimate. kOverBudget when max_ram is set and not kept.
Result<plan::Plan> plan_model(const CompileOptions& options, const Progress& progress = {});
Result<std::vector<plan::Plan>> plan_model(const CompileOptions& options, Source source,
                                           std::span<const std::string> targets,
                                           const Progress& progress = {});

}  // namespace llmc::driver
