#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/support/result.h"

namespace llmc::cli {

/// A command line with aliases replaced.
struct Spelled {
  std::vector<std::string> arguments;  // without the program's name
  std::vector<std::string> notes;      // about aliases that should be replaced
};

/// What the command takes after an option.
enum class OptionKind : std::uint8_t {
  kUnknown,  // the command has no such option
  kFlag,     // no value
  kValue,    // the next argument is its value
};
/// Returns the kind of the command's option of this name ("--prompt", "-p").
using KindOfOption = std::function<OptionKind(const std::string& name)>;

/// Translates options of llama.cpp's programs (`-m MODEL`, `-sys`, `-cnv`, `-ngl 0`) and former
/// names of options, for which notes are returned. "--name=" becomes the name and an empty value.
/// `arguments`: the arguments of the program; the command is the first. Values of options and
/// arguments after "--" are not changed. Fails with kUsage for an option of llama.cpp that llmc
/// does not support, for an option whose value is missing, and for a flag with a value.
Result<Spelled> spell(const std::vector<std::string>& arguments, const KindOfOption& kind_of);

/// Returns the long aliases of a command's options, each with the name of its option.
std::vector<std::pair<std::string_view, std::string_view>> option_aliases(std::string_view command);

}  // namespace llmc::cli
