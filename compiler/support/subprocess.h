#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "compiler/support/result.h"

namespace llmc {

struct CommandOptions {
  std::filesystem::path working_directory;               // empty: the caller's
  std::size_t max_output_bytes = std::size_t{64} << 20;  // per stream; further output is dropped
};

struct CommandOutput {
  int exit_code = 0;  // 128 + signal if a signal ended it
  std::string standard_output;
  std::string standard_error;

  bool ok() const { return exit_code == 0; }
};

/// Runs argv[0], which is searched in PATH, with exactly these arguments and without a shell. Waits
/// until it ends and no process that it started has its output streams open. Standard input is
/// /dev/null. A non-zero exit code is not an error here. The program and the processes that it
/// started are killed if this process ends first (RunningGroup). Fails with kToolchain if the
/// program cannot be started, or if its exit code is lost because this process ignores SIGCHLD.
Result<CommandOutput> run_command(const std::vector<std::string>& argv,
                                  const CommandOptions& options = {});

/// Returns the path of `program`, searched in PATH; empty if it is not found.
std::filesystem::path find_program(const std::string& program);

/// Kills the programs that run_command() and ChildProcess are running in all threads, up to 64.
/// Async-signal-safe; call it only if the process then ends.
void kill_running_commands();

}  // namespace llmc
