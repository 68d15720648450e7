#pragma once

#include <string>
#include <vector>

#include "compiler/support/result.h"

namespace llmc::cli {

/// A command line in the spellings that the options have.
struct Spelled {
  std::vector<std::string> arguments;  // of the program, without its name
  std::vector<std::string> notes;      // about spellings that should be replaced
};

/// Translates what llama.cpp's programs call the same things (`-m MODEL`, `-sys`, `-cnv`, `-ngl 0`)
/// and former spellings of options, which get a note. `arguments`: those of the program, the
/// command first. Arguments after "--" stay as they are. kUsage for a name whose meaning llmc does
/// not have.
Result<Spelled> spell(const std::vector<std::string>& arguments);

}  // namespace llmc::cli
