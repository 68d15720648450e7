#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "compiler/driver/compile_options.h"
#include "tools/llmc/cli.h"

namespace llmc::cli {

/// Returns whether this value of --calibrate is a file, not "builtin", "self" or "none".
bool has_file(const std::string& calibrate);
/// Adds --calibrate, for commands that compile decoders.
CLI::Option* add_calibrate(CLI::App& app, std::string& calibrate);
/// Adds --parse-special. `texts`: the texts to which it applies, for the help.
CLI::Option* add_parse_special(CLI::App& app, bool& parse_special, const char* texts);
/// Returns the error for --parse-special if none of `options`, whose texts it applies to, is given.
Diagnostic no_text_to_parse(const char* options);
/// Returns the text of --calibrate self, which the model of `compile` generates.
driver::CalibrationText own_calibration_text(const driver::CompileOptions& compile);
/// Sets compile.calibration from the value of --calibrate. Call it after all other options are set.
/// Fails with kUsage for an empty value, and with kBadInput if the file cannot be read.
Status apply_calibrate(const std::string& calibrate, bool parse_special,
                       driver::CompileOptions& compile);

}  // namespace llmc::cli
