#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "compiler/support/result.h"

namespace llmc {

struct CommandOptions {
  std::filesystem::path working_directory;               // empty: the caller's
  std::size_t max_output_bytes = std::size_t{64} << 20;  // of each stream; the rest is dropped
};

struct CommandOutput {
  int exit_code = 0;  // 128 + signal when a signal ended it
  std::string standard_output;
  std::string standard_error;

  bool ok() const { return exit_code == 0; }
};

/// Runs argv[0] (searched in PATH) with exactly these arguments: no shell stands in between, so
/// nothing in them is interpreted. Standard input is /dev/null. Waits until it ends. Fails with
/// kToolchain when the program cannot be started, or when its exit code is lost because this
/// process ignores SIGCHLD; a program that ran and failed is no failure here. The program and the
/// processes it started are killed when this process ends before they do (RunningGroup).
Result<CommandOutput> run_command(const std::vector<std::string>& argv,
                                  const CommandOptions& options = {});

/// The file PATH leads to for `program`, or empty when there is none.
std::filesystem::path find_program(const std::string& program);

/// Kills what run_command has running in any thread. Only for a signal handler about to end the
/// process; safe there.
void kill_running_commands();

}  // namespace llmc
