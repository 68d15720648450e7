#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "compiler/driver/compile_options.h"
#include "tools/llmc/cli.h"

namespace llmc::cli {

struct CalibrateOptions {
  std::string text = "none";   // a file, "self" or "none"
  bool parse_special = false;  // of all texts that a command reads as text, except prompts

  /// Whether the text of a file calibrates.
  bool has_file() const { return text != "none" && text != "self"; }
};

/// Adds --calibrate, for commands that compile decoders.
CLI::Option* add_calibrate(CLI::App& app, CalibrateOptions& options);
/// Adds --parse-special. `texts`: which texts it changes.
CLI::Option* add_parse_special(CLI::App& app, CalibrateOptions& options, const char* texts);
/// Returns the error for --parse-special without a text.
Diagnostic no_text_to_parse(const char* options);
/// Returns a text that the model of `compile` writes.
driver::CalibrationText own_calibration_text(const driver::CompileOptions& compile);
/// Sets compile.calibration from the options. Call it when all other options are set. Fails with
/// kUsage for an empty value, and if the file cannot be read.
Status apply_calibrate(const CalibrateOptions& options, driver::CompileOptions& compile);

}  // namespace llmc::cli
