#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "compiler/support/result.h"
#include "compiler/target/target.h"

/// Who executes code that this process cannot, or shall not.
namespace llmc::exec {

/// A command that takes a program's path behind its own arguments and runs it: qemu-user, or what
/// the user named.
struct Emulator {
  std::vector<std::string> command;  // not empty

  /// For messages, made printable.
  std::string text() const;
};

/// How code for `target` is executed: nullopt for "in this process". `given`, when not empty, is a
/// command line split at blanks (never a shell) and always used. Otherwise what runs here runs
/// here, and for the rest the first of: $LLMC_EMULATOR, split like `given`; qemu-ARCH in
/// $LLMC_CROSS_DIR/bin, in cross/bin beside this program, in PATH, each with the target's
/// processor. kUsage for a command of blanks, kToolchain when there is none, kUnsupported when only
/// this processor's features are missing.
Result<std::optional<Emulator>> find_emulator(const target::Target& target,
                                              const std::string& given);

/// LLMC_EMULATOR; empty when it is not set.
std::string emulator_of_environment();

/// Where emulators for other processors may be: $LLMC_CROSS_DIR, and cross beside this program.
std::vector<std::filesystem::path> cross_folders();

}  // namespace llmc::exec
