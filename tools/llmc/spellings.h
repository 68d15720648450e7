#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compiler/support/result.h"

namespace llmc::cli {

/// A command line in the spellings that the options have.
struct Spelled {
  std::vector<std::string> arguments;  // of the program, without its name
  std::vector<std::string> notes;      // about spellings that should be replaced
};

/// Whether the command has an option of this name ("--prompt", "-p") that takes the next argument.
using TakesValue = std::function<bool(const std::string& name)>;

/// Translates what llama.cpp's programs call the same things (`-m MODEL`, `-sys`, `-cnv`, `-ngl 0`)
/// and former spellings of options, which get a note. `arguments`: those of the program, the
/// command first. Values of options and arguments after "--" stay as they are. kUsage for a name
/// whose meaning llmc does not have, and for one without its value.
Result<Spelled> spell(const std::vector<std::string>& arguments, const TakesValue& takes_value);

}  // namespace llmc::cli
