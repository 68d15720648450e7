#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "compiler/support/result.h"

namespace llmc::cli {

/// Gives the options of `command` the values in a JSON file: an object whose keys are long names of
/// options without the dashes, `_` or `-` between words. A flag takes true or false, an option that
/// may be repeated a list, a schema an object. Options that were given on the command line keep
/// their values. kBadInput naming the file and the key for anything else, such as a key that is no
/// option.
Status apply_config_file(CLI::App& command, const std::string& path);

}  // namespace llmc::cli
