#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "compiler/support/result.h"
#include "compiler/target/target.h"

/// Emulators that execute code of other processors.
namespace llmc::exec {

/// A command that runs the program whose path is its last argument: qemu-user, or the user's
/// command.
struct Emulator {
  std::vector<std::string> command;  // not empty

  /// The command for messages, escaped.
  std::string text() const;
};

/// Returns the emulator for code of `target`; nullopt to run it in this process. A nonempty `given`
/// is a command line, split at blanks without a shell, and is always used. Otherwise targets of
/// this machine need no emulator, and others use the first of: $LLMC_EMULATOR, split like `given`;
/// qemu-ARCH in $LLMC_CROSS_DIR/bin, in cross/bin next to this program, in PATH, with the target's
/// CPU model. kUsage for a blank command, kToolchain if no emulator is found, kUnsupported if only
/// CPU features are missing.
Result<std::optional<Emulator>> find_emulator(const target::Target& target,
                                              const std::string& given);

/// The value of LLMC_EMULATOR; empty if it is not set.
std::string emulator_of_environment();

/// Folders of emulators: $LLMC_CROSS_DIR, and cross next to this program.
std::vector<std::filesystem::path> cross_folders();

}  // namespace llmc::exec
