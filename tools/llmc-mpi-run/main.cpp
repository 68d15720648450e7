// Runs the shards of a model (llmc compile --stages N) on N ranks of MPI: docs/distributed.md.
#include <fcntl.h>
#include <mpi.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <thread>

#include "tools/llmc-mpi-run/mpi_ranks.h"
#include "tools/llmc/command_line.h"

namespace llmc::mpi {
namespace {

/// What ranks other than the last one write. All of them do the same, so that only the last one is
/// heard, until one of them fails alone.
class Silence {
 public:
  static void begin() {
    errors = memfd_create("stderr", 0);
    outside = dup(STDERR_FILENO);
    const int nothing = open("/dev/null", O_WRONLY);
    dup2(nothing, STDOUT_FILENO);
    close(nothing);
    if (errors < 0 || outside < 0) return;
    dup2(errors, STDERR_FILENO);
    std::signal(SIGABRT, [](int) { end(); });  // abort() then ends the process
  }
  /// Makes stderr what it was, and writes what it was given meanwhile. Does nothing without
  /// begin(), and the second time.
  static void end() {
    if (errors < 0 || outside < 0) return;
    dup2(outside, STDERR_FILENO);
    char text[512];
    off_t at = 0;
    for (ssize_t count = 0; (count = pread(errors, text, sizeof text, at)) > 0; at += count)
      if (write(STDERR_FILENO, text, static_cast<std::size_t>(count)) != count) break;
    errors = -1;
  }

 private:
  static inline int errors = -1, outside = -1;
};

/// Waits until all ranks have finished. Returns false if some have not after a while, although this
/// one has failed: they wait for it.
bool all_finish(bool failed) {
  constexpr auto kPatience = std::chrono::seconds(2);
  MPI_Request request;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  const auto start = std::chrono::steady_clock::now();
  for (int done = 0; done == 0;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done != 0) break;
    if (failed && std::chrono::steady_clock::now() - start > kPatience) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

int run(int count, char** arguments) {
  divide_cores();
  MpiRanks ranks;
  if (!ranks.is_last()) Silence::begin();
  const int code = cli::run_program(count, arguments, &ranks);
  std::fflush(stdout);
  if (all_finish(code != 0)) return code;
  Silence::end();
  std::fprintf(stderr, "rank %u failed, which ends all ranks\n", ranks.rank());
  MPI_Abort(MPI_COMM_WORLD, code);
  return code;
}

}  // namespace
}  // namespace llmc::mpi

int main(int count, char** arguments) {
  MPI_Init(&count, &arguments);
  const int code = llmc::mpi::run(count, arguments);
  MPI_Finalize();
  return code;
}
