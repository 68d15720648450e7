#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace llmc::tests {

/// What a program that has to succeed writes to standard output; it runs in `folder`, or here.
std::string output_of(const std::vector<std::string>& argv,
                      const std::filesystem::path& folder = {});

/// A shell script that can be run; its path.
std::string write_script(const std::filesystem::path& path, const std::string& text);

#ifdef LLMC_PROGRAM
/// What a program that has ended left: its exit code (128 + signal when a signal ended it) and what
/// it wrote to standard output and standard error.
struct ProgramRun {
  int code = -1;
  std::string out, err;
};

/// Runs argv[0], searched in PATH. One that cannot be started is a failed expectation.
ProgramRun run_program(const std::vector<std::string>& argv);
/// The llmc program with `environment` (NAME=VALUE, or env's options) in addition to this
/// process's.
ProgramRun llmc(const std::vector<std::string>& arguments,
                const std::vector<std::string>& environment = {},
                const std::string& program = LLMC_PROGRAM);

#endif

}  // namespace llmc::tests
