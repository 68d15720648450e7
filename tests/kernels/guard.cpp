// Linked into the tests of a target that not every processor has: ends the program with 77 before
// anything compiled for the target runs, initializers among it. Compiled for the baseline itself.
#include <unistd.h>

#include "llmc/cpu.h"

namespace {

__attribute__((constructor(101))) void check_processor() {
  if (llmc::LLMC_TESTS_CPU_CHECK()) return;
  constexpr char kText[] = "skipped: this processor lacks what the target needs\n";
  const ssize_t written = write(STDOUT_FILENO, kText, sizeof kText - 1);
  _exit(written > 0 ? 77 : 1);
}

}  // namespace
