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
};
void add_build_options(CLI::App& app, BuildOptions& options, ModelUse use);

/// Returns the options for the driver. Reads the grammar and the system prompt.
Result<driver::CompileOptions> driver_options(const BuildOptions& options);

/// Returns the shards that --stages requests; without it, the whole model. With "auto", returns the
/// smallest number of shards for which weights and arena of each shard fit into `max_ram` bytes for
/// each target. Fails with kUsage for an invalid value, for a function, and for "auto" without
/// `max_ram`. Fails with kOverBudget if no cut fits.
Result<std::vector<plan::ShardOption>> stages_of(const BuildOptions& options,
                                                 driver::CompileOptions compile,
                                                 const driver::Source& source,
                                                 std::span<const std::string> targets,
                                                 std::uint64_t max_ram, Progress& line);

/// Imports the model and prints notes about the chosen file of a folder and about options without
/// effect. `line` shows progress.
Result<driver::Source> import_source(const BuildOptions& options, driver::CompileOptions& compile,
                                     const Globals& globals, Progress& line);

/// Prints the plan's warnings, and notes: if the context is the default because the model's files
/// do not state one, if there is no tokenizer, and about effects of --quant and --requantize.
void note_plan(const BuildOptions& options, const plan::Plan& plan, const Globals& globals);

/// Prints `list`, one object per target, as JSON: an object for a single target, else an array.
void print_targets(const Json& list);

}  // namespace llmc::cli
