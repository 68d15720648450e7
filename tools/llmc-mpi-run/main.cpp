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

/// Suppresses the output of a rank other than the last one: all ranks run the same command and
/// print the same. stdout goes to /dev/null. stderr is stored, and end() prints it if this rank
/// fails but others do not.
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
    std::signal(SIGABRT, [](int) { end(); });  // after this, abort() ends the process
  }
  /// Restores stderr and writes the stored text to it. Does nothing without begin(), or if called
  /// again.
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

/// How a command ended on the ranks.
struct Outcome {
  bool known = false;  // whether all ranks have finished; else nothing below is set
  bool some_failed = false, some_succeeded = false;
  int first_failed = 0;  // the lowest rank that failed, if some_failed
};

/// Waits until all ranks have finished, and exchanges whether they failed. A rank that has failed
/// waits at most 2 seconds, because others may be waiting for its messages; then the outcome is not
/// known.
Outcome finish(MPI_Comm ranks, bool failed, int rank, int count) {
  constexpr auto kPatience = std::chrono::seconds(2);
  const int mine[] = {failed ? 0 : 1, failed ? count - rank : 0};
  int most[2] = {};
  MPI_Request request;
  MPI_Iallreduce(mine, most, 2, MPI_INT, MPI_MAX, ranks, &request);
  const auto start = std::chrono::steady_clock::now();
  for (int done = 0; done == 0;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done != 0) break;
    if (failed && std::chrono::steady_clock::now() - start > kPatience) return {};
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return {.known = true,
          .some_failed = most[1] > 0,
          .some_succeeded = most[0] > 0,
          .first_failed = count - most[1]};
}

int run(int count, char** arguments) {
  MPI_Comm at_end;  // keeps its messages apart from those of the command
  MPI_Comm_dup(MPI_COMM_WORLD, &at_end);
  divide_cores();
  MpiRanks ranks;
  if (!ranks.is_last()) Silence::begin();
  const int code = cli::run_program(count, arguments, &ranks);
  std::fflush(stdout);
  const Outcome all =
      finish(at_end, code != 0, static_cast<int>(ranks.rank()), static_cast<int>(ranks.count()));
  if (all.known && !all.some_failed) {
    ranks.wait_for_sent();
    return 0;
  }
  if (all.known && !all.some_succeeded) return code;  // the last rank has printed the error
  // Do not wait for sent messages: a failed rank may never receive them.
  if (all.known && all.first_failed != static_cast<int>(ranks.rank())) {
    MPI_Barrier(at_end);  // until the first rank that failed aborts all
    return code;
  }
  Silence::end();
  std::fprintf(stderr, "rank %u failed, which ends all ranks\n", ranks.rank());
  MPI_Abort(MPI_COMM_WORLD, code);
  return code;
}

}  // namespace
}  // namespace llmc::mpi

int main(int count, char** arguments) {
  // Other threads of a session only compute: only this thread calls MPI.
  int provided = 0;
  MPI_Init_thread(&count, &arguments, MPI_THREAD_FUNNELED, &provided);
  const int code = llmc::mpi::run(count, arguments);
  MPI_Finalize();
  return code;
}
