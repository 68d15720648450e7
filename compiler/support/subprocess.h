#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "compiler/support/result.h"

namespace llmc {

struct CommandOptions {
  std::filesystem::path working_directory;               // empty: that of the caller
  std::size_t max_output_bytes = std::size_t{64} << 20;  // per stream; the rest is dropped
};

struct CommandOutput {
  int exit_code = 0;  // 128 + signal if a signal ended it
  std::string standard_output;
  std::string standard_error;

  bool ok() const { return exit_code == 0; }
};

/// Runs argv[0] (searched in PATH) with exactly these arguments, without a shell, so nothing in
/// them is interpreted. Standard input is /dev/null. Waits until it ends. Fails with kToolchain if
/// the program cannot be started, or if its exit code is lost because this process ignores SIGCHLD;
/// a non-zero exit code is not a failure here. The program and the processes it started are killed
/// if this process ends first (RunningGroup).
Result<CommandOutput> run_command(const std::vector<std::string>& argv,
                                  const CommandOptions& options = {});

/// Returns the file that PATH gives for `program`, or an empty path.
std::filesystem::path find_program(const std::string& program);

/// Kills what run_command is running in any thread. Only for a signal handler that is about to end
/// the process; async-signal-safe.
void kill_running_commands();

}  // namespace llmc
