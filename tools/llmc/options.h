#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "compiler/driver/native.h"
#include "tools/llmc/cli.h"

/// Options that several commands share, spelled and explained once.
namespace llmc::cli {

/// What decides how a model is compiled.
struct ModelOptions {
  std::string model;
  std::string target;  // empty: the best that runs here
  std::string quant = "q4";
  driver::CompileOptions compile;
  bool no_cache = false;
};

/// Adds MODEL and the options of compilation. `context_default` in tokens.
void add_model_options(CLI::App& app, ModelOptions& options);
/// The options as the driver takes them; kUsage for a bad target or format.
Result<driver::CompileOptions> compile_options(const ModelOptions& options);
Result<driver::NativeOptions> native_options(const ModelOptions& options);

/// "1,2,3" -> numbers; kUsage naming `what` for anything else, or a number outside [0, limit].
Result<std::vector<std::int32_t>> parse_numbers(const std::string& text, const std::string& what,
                                                std::int64_t limit = INT32_MAX);
/// Threads to use when the user did not say: the machine's cores, at most `most`.
std::uint32_t default_threads(std::uint32_t most);

/// The driver's progress as a line on the terminal.
driver::Progress progress_of(Progress& line);

/// A bundle or model to run: compiled if need be, loaded.
Result<std::unique_ptr<driver::NativeModel>> load(const ModelOptions& options,
                                                  const Globals& globals);

}  // namespace llmc::cli
