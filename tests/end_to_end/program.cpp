#include "tests/end_to_end/program.h"

#include "compiler/support/file.h"
#include "compiler/support/subprocess.h"
#include "tests/end_to_end/models.h"

namespace llmc::tests {

std::string output_of(const std::vector<std::string>& argv, const std::filesystem::path& folder) {
  const auto output = run_command(argv, {.working_directory = folder});
  if (!output.ok()) {
    expect_ok(output.error());
    return {};
  }
  EXPECT_EQ(output->exit_code, 0) << argv[0] << ": " << output->standard_error;
  return output->standard_output;
}

std::string write_script(const std::filesystem::path& path, const std::string& text) {
  EXPECT_TRUE(write_file(path, std::string_view("#!/bin/sh\n" + text + "\n")).ok());
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path.string();
}

#ifdef LLMC_PROGRAM

ProgramRun run_program(const std::vector<std::string>& argv) {
  auto output = run_command(argv);
  if (!output.ok()) {
    expect_ok(output.error());
    return {};
  }
  return {output->exit_code, std::move(output->standard_output), std::move(output->standard_error)};
}

ProgramRun llmc(const std::vector<std::string>& arguments,
                const std::vector<std::string>& environment, const std::string& program) {
  std::vector<std::string> argv{"env"};
  argv.insert(argv.end(), environment.begin(), environment.end());
  argv.push_back(program);
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return run_program(argv);
}

#endif

}  // namespace llmc::tests
