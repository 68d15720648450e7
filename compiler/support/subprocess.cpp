#include "compiler/support/subprocess.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "compiler/support/process.h"

namespace llmc {
namespace {

Diagnostic lost_exit_code(const std::string& program, int error_number) {
  return failure(ErrorKind::kToolchain,
                 "cannot get the exit code of '" + program + "': " + std::strerror(error_number),
                 "SIGCHLD may be ignored in this process");
}

/// Appends available data to `text`; closes the pipe at the end of the data. Data beyond `limit`
/// bytes is read and dropped, because the command would block on a full pipe.
void drain(Pipe& pipe, std::string& text, std::size_t limit) {
  char buffer[65536];
  const ssize_t got = ::read(pipe.read, buffer, sizeof buffer);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got <= 0) return pipe.close_read();
  const std::size_t room = limit - std::min(limit, text.size());
  text.append(buffer, std::min(room, static_cast<std::size_t>(got)));
}

}  // namespace

Result<CommandOutput> run_command(const std::vector<std::string>& argv,
                                  const CommandOptions& options) {
  LLMC_CHECK(!argv.empty());
  Pipe out, err;
  if (!out.open() || !err.open()) return start_error(argv[0], errno);
  RunningGroup group;
  pid_t pid = 0;
  if (const int error =
          spawn(argv, options.working_directory, {-1, out.write, err.write}, group, pid))
    return start_error(argv[0], error);
  out.close_write();
  err.close_write();

  CommandOutput result;
  int status = 0;
  int wait_error = 0;
  while (out.read >= 0 || err.read >= 0) {
    pollfd fds[2] = {{out.read, POLLIN, 0}, {err.read, POLLIN, 0}};
    if (::poll(fds, 2, -1) <= 0) continue;
    if (fds[0].revents) drain(out, result.standard_output, options.max_output_bytes);
    if (fds[1].revents) drain(err, result.standard_error, options.max_output_bytes);
  }
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno == EINTR) continue;
    wait_error = errno;
    break;
  }
  // If SIGCHLD is ignored, the kernel discards the exit code: report a failure, not success.
  if (wait_error != 0) return lost_exit_code(argv[0], wait_error);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

std::filesystem::path find_program(const std::string& program) {
  const auto executable = [](const std::filesystem::path& path) {
    std::error_code ignored;
    return std::filesystem::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0;
  };
  if (program.find('/') != std::string::npos) return executable(program) ? program : "";
  const char* const variable = std::getenv("PATH");
  std::string_view rest = variable ? variable : "/usr/local/bin:/usr/bin:/bin";
  while (true) {
    const auto colon = rest.find(':');
    const auto folder = rest.substr(0, colon);
    const auto candidate = std::filesystem::path(folder.empty() ? "." : folder) / program;
    if (!program.empty() && executable(candidate)) return candidate;
    if (colon == std::string_view::npos) return {};
    rest.remove_prefix(colon + 1);
  }
}

}  // namespace llmc
