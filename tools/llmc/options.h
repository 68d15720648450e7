#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "compiler/exec/native.h"
#include "compiler/plan/plan.h"
#include "tools/llmc/cli.h"

/// Options that several commands share, spelled and explained once.
namespace llmc::driver {
struct Source;
}  // namespace llmc::driver

namespace llmc::cli {

/// What a command does with MODEL, and so which options it has.
enum class ModelUse : std::uint8_t {
  kPlan,     // a model or a bundle; clang is not needed
  kCompile,  // a model
  kVerify,   // a model or a bundle, compiled and run
  kRun,      // a model or a bundle
  kMeasure,  // the same; the windows of a text follow the context
  kCompare,  // a model, in formats that the command lists
};

/// What decides how a model is compiled.
struct ModelOptions {
  std::string model;
  std::string target;  // of plan and compile: several with commas. Empty: the default
  std::string quant = "q4";
  std::string kv;  // empty: what is usual beside the weights' format
  std::string opt_level = "3";
  driver::CompileOptions compile;
  bool no_cache = false;
  std::string emulator;
  ModelUse use = ModelUse::kRun;
  std::vector<CLI::Option*> fixed;  // options that are settled in a bundle
  /// Options that change nothing in a function of a graph (docs/functions.md). Commands that
  /// compile functions add theirs.
  std::vector<const CLI::Option*> decoder_only;
  CLI::Option* quant_option = nullptr;  // absent where formats are a list
  CLI::Option* ctx_option = nullptr;
};

/// Warns on stderr about options that were given although the graph is compiled as a function,
/// where they have no effect. Silent with --quiet.
void note_without_effect(const ModelOptions& options, const Globals& globals);

/// Adds MODEL and the options of compilation.
void add_model_options(CLI::App& app, ModelOptions& options, ModelUse use);
/// kUsage when `model` is a compiled bundle, for commands that need what it was made from.
Status refuse_bundle(const std::string& model);
/// The target of that name or alias; of an empty name the best that runs here. kUsage for another.
Result<std::string> checked_target(const std::string& name);
/// A target to compile for and where the choice comes from, for people: "given as haswell".
struct ChosenTarget {
  std::string name, reason;
};
/// Those that --target lists, each once; without it the portable one of this machine's
/// architecture. For `plan` and `compile`; kUsage for an unknown name.
Result<std::vector<ChosenTarget>> chosen_targets(const ModelOptions& options);
/// "target      avx2 (given)", a line above a plan's.
std::string target_line(const target::Target& target, const ChosenTarget& chosen);
/// Notes which file of a folder is the model, when there are several.
void note_model_file(const Globals& globals, const std::string& model);
/// Of --quant; kUsage for anything else.
Result<ir::WeightFormat> parse_quant(const std::string& name);
/// "1", "2" or "3", as --opt-level takes it; kUsage for anything else.
Result<std::uint32_t> parse_opt_level(const std::string& text);
CLI::Option* add_opt_level(CLI::App& app, std::string& level);
/// The options as the driver takes them; kUsage for a bad target or format, for a bundle where a
/// model is wanted, and for options a bundle no longer takes.
Result<driver::CompileOptions> compile_options(const ModelOptions& options);
/// The same for commands that execute code. Notes which file of a folder is the model: call it
/// once.
Result<exec::NativeOptions> native_options(const ModelOptions& options, const Globals& globals);
/// Imports `options.model` (driver::read_source) for commands that execute none. Notes which file
/// of a folder is the model. `line` shows progress; it is cleared on failure.
Result<driver::Source> import_source(const driver::CompileOptions& options, const Globals& globals,
                                     Progress& line);

/// --emulator of commands that execute code.
CLI::Option* add_emulator(CLI::App& app, std::string& emulator);

/// An option that takes a whole number from `least` to `most`; anything else is a usage error that
/// says so. The value before parsing is the default that the help shows.
template <class T>
CLI::Option* add_whole_number(CLI::App& app, const std::string& names, T& value,
                              std::uint64_t least, std::uint64_t most, const std::string& text);
/// The same for a number of tokens: "2k" and "32K" are multiples of 1024.
template <class T>
CLI::Option* add_token_count(CLI::App& app, const std::string& names, T& value, std::int64_t least,
                             std::int64_t most, const std::string& text);
/// Type name of such options in help texts.
inline constexpr const char* kTokensType = "TOKENS";
/// The same with negative ones.
CLI::Option* add_integer(CLI::App& app, const std::string& names, std::int32_t& value,
                         std::int64_t least, std::int64_t most, const std::string& text);
/// An option that takes a number from `least` to `most`: a double or a float.
template <class T>
CLI::Option* add_number(CLI::App& app, const std::string& names, T& value, double least,
                        double most, const std::string& text);
/// -t; a value of 0 stands for the default of threads_for().
CLI::Option* add_threads(CLI::App& app, std::uint32_t& threads);

/// --cores even|uneven: llmc_config's cores; without the option it stays as it is.
CLI::Option* add_cores(CLI::App& app, std::uint32_t& cores);

/// What is between commas; of nothing an empty part.
std::vector<std::string> split(const std::string& text);
/// "1,2,3" -> numbers; kUsage naming `what` for anything else, or a number outside
/// [least, limit].
Result<std::vector<std::int32_t>> parse_numbers(const std::string& text, const std::string& what,
                                                std::int64_t limit = INT32_MAX,
                                                std::int64_t least = 0);
/// The same as a list of counts, each once; of tokens with suffixes as add_token_count has them.
Result<std::vector<std::uint32_t>> parse_counts(const std::string& text, const std::string& what,
                                                std::int64_t limit, std::int64_t least = 0);
Result<std::vector<std::uint32_t>> parse_token_counts(const std::string& text,
                                                      const std::string& what, std::int64_t limit);
/// The threads asked for, or when `asked` is 0 the machine's cores, at most `most`; kUsage for
/// more.
Result<std::uint32_t> threads_for(std::uint32_t asked, std::uint32_t most);

/// The driver's progress as a line on the terminal.
driver::Progress progress_of(Progress& line);

/// A bundle or model to run: compiled if need be, loaded.
Result<std::unique_ptr<exec::NativeModel>> load(const ModelOptions& options,
                                                const Globals& globals);

}  // namespace llmc::cli
