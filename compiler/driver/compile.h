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

/// Compiles a model to a bundle on disk: import, passes, plan, source generation, clang, archive.
namespace llmc::driver {

/// Duration of one phase in seconds.
struct PhaseTime {
  std::string phase;
  double seconds = 0;
};

struct Bundle {
  std::filesystem::path folder;
  std::string name;                // NAME of NAME.h and libNAME.a
  std::vector<std::string> files;  // relative to the folder, sorted
  plan::Plan plan;                 // with exact code_bytes
  std::vector<PhaseTime> times;    // phases shared by several bundles are in the first one only
};

/// Checks these options, which do not depend on the model: targets, compiler flags, the bundle's
/// name, the accelerator, combinations with shards, and the grammar. Fails with kUsage, or like
/// parse_grammar().
Status check_options(const CompileOptions& options, std::span<const std::string> targets);

/// Compiles options.model, a decoder, and writes its bundle atomically. The keys and values of a
/// system prompt are computed on the host, because their values are the same for every target.
/// Fails with kUsage or kBadInput (model, options, output folder), kUnsupported (not a decoder, or
/// one diagnostic for each operator without a stage), kOverBudget or kToolchain.
Result<Bundle> compile_model(const CompileOptions& options, const Progress& progress = {});

/// Compiles a model for several targets and writes the bundle of targets[i] to folders[i]. `source`
/// must be the result of read_source(options). Ignores options.target and options.out_dir. Weights
/// are encoded once. On failure all folders are unchanged, unless the failure occurs while finished
/// bundles are renamed.
Result<std::vector<Bundle>> compile_model(const CompileOptions& options, Source source,
                                          std::span<const std::string> targets,
                                          std::span<const std::filesystem::path> folders,
                                          const Progress& progress = {});

/// Writes the bundle of a graph of stages of a decoder, the output of the passes. Matrices
/// without a format get options.quant. Reads no files of options.model.
Result<Bundle> compile_stages(const ir::Graph& stages, const CompileOptions& options);

/// Returns the plan that compile_model() would use, without encoding weights or running clang. Its
/// code_bytes is an estimate. With options.budget, runs the model in the interpreter to choose
/// formats. Fails like compile_model(). The second function plans `source`, the result of
/// read_source(options), for each of `targets`.
Result<plan::Plan> plan_model(const CompileOptions& options, const Progress& progress = {});
Result<std::vector<plan::Plan>> plan_model(const CompileOptions& options, Source source,
                                           std::span<const std::string> targets,
                                           const Progress& progress = {});

}  // namespace llmc::driver
