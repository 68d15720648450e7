#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "compiler/driver/compile_options.h"
#include "tools/llmc/cli.h"

namespace llmc::cli {

/// Adds --calibrate, for commands that compile decoders.
CLI::Option* add_calibrate(CLI::App& app, std::string& calibrate);
/// Returns a text that the model of `compile` writes.
driver::CalibrationText own_calibration_text(const driver::CompileOptions& compile);
/// Sets compile.calibration from the option's value. Call it when all other options are set. Fails
/// with kUsage without text, and if the file cannot be read.
Status apply_calibrate(const std::string& calibrate, driver::CompileOptions& compile);

}  // namespace llmc::cli
