#include "compiler/support/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>

namespace llmc {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kMaxStandardError = 64 << 10;
/// Time that a program gets to end by itself if its ChildProcess is destroyed without a call of
/// end().
constexpr milliseconds kPatienceAtDestruction{5000};

/// Returns the milliseconds until `deadline`, for poll; at least 0.
int left_until(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<long long>(left, 0, 1 << 30));
}

}  // namespace

Result<std::unique_ptr<ChildProcess>> ChildProcess::start(const std::vector<std::string>& argv) {
  LLMC_CHECK(!argv.empty());
  std::unique_ptr<ChildProcess> child(new ChildProcess);
  // One socket for both directions, because MSG_NOSIGNAL avoids SIGPIPE when it is closed.
  int ends[2];
  if (!child->error_.open()) return start_error(argv[0], errno);
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return start_error(argv[0], errno);
  child->socket_ = ends[0];
  child->group_.emplace();
  const int error =
      spawn(argv, {}, {ends[1], ends[1], child->error_.write}, *child->group_, child->pid_);
  ::close(ends[1]);
  child->error_.close_write();
  if (error != 0) {
    child->pid_ = 0;
    return start_error(argv[0], error);
  }
  ::fcntl(child->error_.read, F_SETFL, O_NONBLOCK);
  return child;
}

ChildProcess::~ChildProcess() {
  if (pid_ > 0) end(kPatienceAtDestruction);
  if (socket_ >= 0) ::close(socket_);
}

void ChildProcess::drain_standard_error() {
  char buffer[4096];
  while (error_.read >= 0) {
    const ssize_t got = ::read(error_.read, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) return error_.close_read();
    const std::size_t room = kMaxStandardError - standard_error_.size();
    standard_error_.append(buffer, std::min(room, static_cast<std::size_t>(got)));
  }
}

/// Waits until the socket is ready or the time has passed. Also reads standard error, so that a
/// full pipe does not block the program.
void ChildProcess::wait_for(short events, int timeout_ms) {
  pollfd fds[2] = {{socket_, events, 0}, {error_.read, POLLIN, 0}};
  if (::poll(fds, 2, timeout_ms) > 0 && fds[1].revents != 0) drain_standard_error();
}

bool ChildProcess::send(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (end_) return false;
    const ssize_t put = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(put));
    } else if (errno == EAGAIN) {
      wait_for(POLLOUT, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

bool ChildProcess::receive(std::span<std::byte> bytes, std::optional<milliseconds> limit) {
  const auto deadline = Clock::now() + limit.value_or(milliseconds(0));
  while (!bytes.empty()) {
    if (end_) return false;
    const ssize_t got = ::recv(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(got));
    } else if (got == 0) {
      return false;
    } else if (errno == EAGAIN) {
      if (limit && Clock::now() >= deadline) return false;
      wait_for(POLLIN, limit ? left_until(deadline) : -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

/// Returns whether the program has ended; waits for it if `wait` is set. If it has ended, records
/// its exit code and kills the other processes in its group.
bool ChildProcess::reap(bool wait) {
  siginfo_t info{};
  int waited = 0;
  do {
    waited =
        ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT | (wait ? 0 : WNOHANG));
  } while (waited < 0 && errno == EINTR);
  if (waited == 0 && info.si_pid == 0) return false;
  // The number of the group cannot be reused before the program is reaped.
  if (waited == 0) group_->kill();
  int status = 0;
  pid_t result = 0;
  do {
    result = ::waitpid(pid_, &status, wait ? 0 : WNOHANG);
  } while (result < 0 && errno == EINTR);
  if (result == 0) return false;
  // If SIGCHLD is ignored, the exit code is lost; report a failure, not success.
  end_->exit_code = result < 0          ? -1
                    : WIFEXITED(status) ? WEXITSTATUS(status)
                                        : 128 + WTERMSIG(status);
  return true;
}

const ChildProcess::End& ChildProcess::end(milliseconds patience) {
  if (end_) return *end_;
  ::shutdown(socket_, SHUT_RDWR);  // also wakes threads that are writing to it
  end_.emplace();
  const auto deadline = Clock::now() + patience;
  for (milliseconds pause{0}; !reap(false);) {
    if (Clock::now() >= deadline) {
      end_->was_killed = true;
      group_->kill();
      reap(true);
      break;
    }
    drain_standard_error();
    std::this_thread::sleep_for(pause);
    pause = std::min(pause + milliseconds(1), milliseconds(20));
  }
  drain_standard_error();
  error_.close_read();
  group_.reset();
  end_->standard_error = std::move(standard_error_);
  return *end_;
}

}  // namespace llmc
