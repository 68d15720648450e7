#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "compiler/support/result.h"
#include "compiler/target/target.h"

/// Emulators that execute code of other processors.
namespace llmc::exec {

/// A command that executes a program for another processor: qemu-user, or the user's command. The
/// path of the program is its last argument.
struct Emulator {
  std::vector<std::string> command;  // not empty

  /// Returns the command for messages, escaped.
  std::string text() const;
};

/// Returns the emulator for code of `target`, or nullopt if none is needed. If `given` is not
/// empty, it is used for any target: a command line, split at blanks without a shell. Otherwise
/// code that this process can run needs no emulator, and other code uses the command of
/// $LLMC_EMULATOR, split like `given`. If that is not set, code of another architecture uses
/// qemu-ARCH with the target's CPU model, in $LLMC_CROSS_DIR/bin, in cross/bin next to this
/// program, or in PATH. A program that `given` or $LLMC_EMULATOR names without a slash is searched
/// in the same places. Fails with kUsage for a blank command. Fails with kUnsupported if only CPU
/// features are missing or qemu has no suitable CPU model, and with kToolchain if qemu is not
/// found.
Result<std::optional<Emulator>> find_emulator(const target::Target& target,
                                              const std::string& given);

/// Returns the value of LLMC_EMULATOR; empty if it is not set.
std::string emulator_of_environment();

/// Returns the folders whose subfolders bin and plugins may contain emulators: $LLMC_CROSS_DIR if
/// it is set, and cross next to this program.
std::vector<std::filesystem::path> cross_folders();

}  // namespace llmc::exec
