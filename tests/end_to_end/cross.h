#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "compiler/support/subprocess.h"
#include "compiler/target/target.h"

/// Where the programs and libraries of other machines are, for tests that need them.
namespace llmc::tests {

/// LLMC_CROSS_DIR, or the place in the build folder where the set-up puts it.
inline std::filesystem::path cross_folder() {
  const char* folder = std::getenv("LLMC_CROSS_DIR");
  return folder != nullptr && *folder != 0 ? std::filesystem::path(folder)
                                           : std::filesystem::path(LLMC_BINARY_DIR) / "cross";
}

/// Ends a test for which something of that folder is missing: skipped, but failed where
/// LLMC_REQUIRE_CROSS is set, as tools/check.sh does, which fetched all of it.
#define LLMC_MISSING_CROSS(text)                                      \
  do {                                                                \
    if (std::getenv("LLMC_REQUIRE_CROSS") != nullptr) FAIL() << text; \
    GTEST_SKIP() << text;                                             \
  } while (false)

/// The emulator `name` of the cross folder, else of the search path; empty when there is none that
/// starts.
inline std::string find_emulator(const std::string& name) {
  for (const std::string& candidate : {(cross_folder() / "bin" / name).string(), name}) {
    if (candidate != name && access(candidate.c_str(), X_OK) != 0) continue;
    const auto version = run_command({candidate, "--version"});
    if (version.ok() && version->exit_code == 0) return candidate;
  }
  return {};
}

/// Whether code of the target can be executed; emulators that are merely in PATH may be too old.
inline bool executable(const target::Target& target) {
  return target::runs_here(target) ||
         (target.architecture != target::host_architecture() && !target.emulator.empty() &&
          access((cross_folder() / "bin" / target.emulator).c_str(), X_OK) == 0);
}

/// Why a test of a target that is not executable() is skipped.
inline std::string without_emulator(const target::Target& target) {
  if (target.emulator.empty())
    return "this processor lacks what " + std::string(target.name) +
           " needs, and qemu emulates none";
  return std::string(target.emulator) + " is not in " + (cross_folder() / "bin").string() +
         ": tools/cross.sh fetches it, LLMC_CROSS_DIR names another place";
}

}  // namespace llmc::tests
