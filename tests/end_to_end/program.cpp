#include "tests/end_to_end/program.h"

#include "compiler/support/subprocess.h"
#include "tests/end_to_end/models.h"

#ifdef LLMC_PROGRAM
namespace llmc::tests {

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

}  // namespace llmc::tests
#endif
