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

/// Returns the emulator for code of `target`; nullopt if this process can run it. If `given` is not
/// empty, it is used for any target: a command line, split at blanks without a shell. Otherwise
/// targets of this machine need no emulator, and other targets use the first that exists of:
/// $LLMC_EMULATOR, split like `given`; qemu-ARCH, with the target's CPU model, in
/// $LLMC_CROSS_DIR/bin, in cross/bin next to this program, or in PATH. Fails with kUsage for a
/// blank command. Fails with kUnsupported if this machine lacks only CPU features, and with
/// kToolchain if no emulator is found.
Result<std::optional<Emulator>> find_emulator(const target::Target& target,
                                              const std::string& given);

/// Returns the value of LLMC_EMULATOR; empty if it is not set.
std::string emulator_of_environment();

/// Returns the folders to search for emulators: $LLMC_CROSS_DIR, and cross next to this program.
std::vector<std::filesystem::path> cross_folders();

}  // namespace llmc::exec
