#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "compiler/support/result.h"

namespace llmc::cli {

/// Sets options of `command` from a JSON file: an object whose keys are long names of options
/// without the leading dashes, with `_` or `-` between words. A flag takes true or false, a
/// repeatable option a list, a schema an object. Options on the command line keep their values.
/// Fails with kBadInput, with the file and the key in the message, for any other content.
Status apply_config_file(CLI::App& command, const std::string& path);

}  // namespace llmc::cli
