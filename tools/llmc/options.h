#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "compiler/exec/native.h"
#include "compiler/plan/plan.h"
#include "tools/llmc/budget_options.h"
#include "tools/llmc/cli.h"

/// Options shared by several commands.
namespace llmc::cli {

/// How a command uses MODEL, which determines the options of the command.
enum class ModelUse : std::uint8_t {
  kPlan,     // a model or a bundle; clang is not needed
  kCompile,  // a model
  kVerify,   // a model or a bundle, compiled and run
  kRun,      // a model or a bundle
  kMeasure,  // a model or a bundle; --ctx also sets the window of a text
  kCompare,  // a model, compiled in each of a list of formats
};

/// Options of compilation.
struct ModelOptions {
  std::string model;
  std::string target;  // plan and compile: a comma-separated list. Empty: the default
  std::string quant = "q4m";
  std::string kv;  // empty: the default for the weight format
  std::string opt_level = "3";
  driver::CompileOptions compile;
  std::string calibrate = "none";
  bool parse_special = false;  // in the files of --calibrate and --text
  BudgetOptions budget;
  bool no_cache = false;
  std::string emulator;
  std::string opencl_device;
  exec::HugePageOptions huge_pages = {};
  ModelUse use = ModelUse::kRun;
  std::vector<CLI::Option*> fixed;  // options that cannot change a bundle
  /// Options without effect on functions (docs/functions.md). Commands that compile functions add
  /// options of their own.
  std::vector<const CLI::Option*> decoder_only;
  CLI::Option* quant_option = nullptr;  // nullptr if the command takes a list of formats
  CLI::Option* ctx_option = nullptr;
};

/// Warns on stderr, unless --quiet, about given options without effect on a graph that is compiled
/// as a function.
void note_without_effect(const ModelOptions& options, const Globals& globals);

/// Adds MODEL and the options of compilation.
void add_model_options(CLI::App& app, ModelOptions& options, ModelUse use);
/// Check of an option whose value may not be empty: returns the error text, or nothing.
std::string refuse_empty(const std::string& value);
/// Fails with kUsage if `model` is a compiled bundle, for commands that need the original model.
Status refuse_bundle(const std::string& model);
/// Returns the name of the target with this name or alias; for an empty name, the best target for
/// this machine. Fails with kUsage for an unknown name.
Result<std::string> checked_target(const std::string& name);
/// A target and a printable reason for it: "given as haswell".
struct ChosenTarget {
  std::string name, reason;
};
/// Returns the targets of --target without duplicates, for `plan` and `compile`; by default the
/// portable one for this machine's architecture. Fails with kUsage for an unknown or empty name.
Result<std::vector<ChosenTarget>> chosen_targets(const ModelOptions& options);
/// Returns the first line of a plan's output: "target      avx2 (given)".
std::string target_line(const target::Target& target, const ChosenTarget& chosen);
/// Prints a note about the chosen file of a folder with several models.
void note_model_file(const Globals& globals, const std::string& model);
/// Parses the value of --quant. Fails with kUsage for other text.
Result<passes::QuantScheme> parse_quant(const std::string& name);
/// Parses the value of --opt-level, "1", "2" or "3". Fails with kUsage for other text.
Result<std::uint32_t> parse_opt_level(const std::string& text);
CLI::Option* add_opt_level(CLI::App& app, std::string& level);
/// Returns the options for the driver. Fails with kUsage for an invalid target, format or level,
/// for a bundle if a model is required, and for options that cannot change a bundle.
Result<driver::CompileOptions> compile_options(const ModelOptions& options);
/// Like compile_options(), for commands that execute code. Also calls note_model_file(), so call it
/// only once.
Result<exec::NativeOptions> native_options(const ModelOptions& options, const Globals& globals);
/// Adds --emulator, for commands that execute code.
CLI::Option* add_emulator(CLI::App& app, std::string& emulator);

/// Adds -t. Without the option `threads` is not changed; 0 selects the default of threads_for().
CLI::Option* add_threads(CLI::App& app, std::uint32_t& threads);

/// Adds --cores even|uneven, which sets llmc_config::cores. Without the option, `cores` is not
/// changed.
CLI::Option* add_cores(CLI::App& app, std::uint32_t& cores);

/// Returns the number of threads: `requested`, or if that is 0 the number of usable cores, at most
/// `max`. Fails with kUsage if `requested` is larger than `max`.
Result<std::uint32_t> threads_for(std::uint32_t requested, std::uint32_t max);

/// Returns a function that shows the driver's progress in `line`, which must outlive it.
driver::Progress progress_of(Progress& line);

/// Loads a bundle or a model, which is compiled if necessary.
Result<std::unique_ptr<exec::NativeModel>> load(const ModelOptions& options,
                                                const Globals& globals);

}  // namespace llmc::cli
