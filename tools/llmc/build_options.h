#pragma once

#include <span>

#include "compiler/driver/source.h"
#include "tools/llmc/function_text.h"
#include "tools/llmc/grammar_options.h"
#include "tools/llmc/options.h"
#include "tools/llmc/system_prompt_options.h"

namespace llmc::cli {

/// Options of `plan` and `compile`.
struct BuildOptions {
  ModelOptions model;
  FunctionOptions function;
  SystemPromptOptions system_prompt;
  GrammarOptions grammar;
  std::string weights = "embed", max_ram;
  std::string stages;  // number of shards, or "auto"; empty: the whole model
  CLI::Option* weights_option = nullptr;
};
void add_build_options(CLI::App& app, BuildOptions& options, ModelUse use);

/// Returns the options for the driver. Reads the grammar and the system prompt.
Result<driver::CompileOptions> driver_options(const BuildOptions& options);

/// Returns the shards that --stages asks for, or the whole model. With "auto" they are the smallest
/// number with which weights and arena of each fit `max_ram` bytes for each target. Fails with
/// kUsage for another text and for a function, and with kOverBudget if one layer alone does not
/// fit.
Result<std::vector<plan::ShardOption>> stages_of(const BuildOptions& options,
                                                 driver::CompileOptions compile,
                                                 const driver::Source& source,
                                                 std::span<const std::string> targets,
                                                 std::uint64_t max_ram, Progress& line);

/// Imports the model and prints notes about the chosen file of a folder and about options without
/// effect. `line` shows progress.
Result<driver::Source> import_source(const BuildOptions& options, driver::CompileOptions& compile,
                                     const Globals& globals, Progress& line);

/// Prints the plan's warnings, and notes if the context is the default since the model names none,
/// and if --quant was given but weights keep the model's codes.
void note_plan(const BuildOptions& options, const plan::Plan& plan, const Globals& globals);

/// Prints `list` as JSON: the object itself for a single target, an array for several.
void print_targets(const Json& list);

}  // namespace llmc::cli
