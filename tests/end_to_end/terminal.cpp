#include "tests/end_to_end/terminal.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>

namespace llmc::tests {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

Terminal::Terminal(const std::vector<std::string>& argv,
                   const std::vector<std::string>& environment) {
  std::vector<char*> arguments;
  for (const std::string& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  winsize size = {.ws_row = 40, .ws_col = 200, .ws_xpixel = 0, .ws_ypixel = 0};
  pid_ = ::forkpty(&terminal_, nullptr, nullptr, &size);
  if (pid_ == 0) {
    for (const std::string& variable : environment) ::putenv(const_cast<char*>(variable.c_str()));
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  EXPECT_GT(pid_, 0);
}

Terminal::~Terminal() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  if (terminal_ >= 0) ::close(terminal_);
}

void Terminal::type(const std::string& keys) {
  EXPECT_EQ(::write(terminal_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
}

void Terminal::send(int signal) const {
  EXPECT_EQ(::kill(pid_, signal), 0);
}

bool Terminal::is_as_usual() const {
  termios now{};
  EXPECT_EQ(::tcgetattr(terminal_, &now), 0);
  return (now.c_lflag & (ICANON | ECHO)) == (ICANON | ECHO);
}

bool Terminal::read_some(milliseconds patience) {
  pollfd waiting = {terminal_, POLLIN, 0};
  if (::poll(&waiting, 1, static_cast<int>(patience.count())) <= 0) return false;
  char bytes[4096];
  const ssize_t n = ::read(terminal_, bytes, sizeof bytes);
  if (n <= 0) return false;  // EIO: the program has ended
  shown_.append(bytes, static_cast<std::size_t>(n));
  return true;
}

bool Terminal::wait_for(const std::string& text, std::chrono::seconds patience) {
  const auto end = Clock::now() + patience;
  for (;;) {
    if (const std::size_t at = shown_.find(text, seen_); at != shown_.npos) {
      seen_ = at + text.size();
      return true;
    }
    const auto left = std::chrono::duration_cast<milliseconds>(end - Clock::now());
    if (left.count() <= 0 || !read_some(left)) return false;
  }
}

int Terminal::wait_for_end() {
  while (read_some(milliseconds(60'000))) continue;
  int status = 0;
  for (int i = 0; i < 600; ++i) {
    const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
    if (ended == pid_) {
      pid_ = -1;
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    ::usleep(100'000);
  }
  return -1;
}

}  // namespace llmc::tests
