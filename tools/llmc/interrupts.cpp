#include "tools/llmc/interrupts.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <iterator>

namespace llmc::cli {
namespace {

// Global, because signal handlers have no argument for context.
std::atomic<bool> g_interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free);
int g_pipe[2] = {-1, -1};
struct sigaction g_before;

void on_interrupt(int) {
  const int saved = errno;
  g_interrupted.store(true, std::memory_order_relaxed);
  // If the pipe is full, it is already readable.
  if (g_pipe[1] >= 0 && ::write(g_pipe[1], "", 1) < 0) errno = saved;
  errno = saved;
}

constexpr int kEnding[] = {SIGTERM, SIGHUP, SIGQUIT};
struct sigaction g_ending_before[std::size(kEnding)];
termios g_terminal;
bool g_is_terminal = false;
constexpr std::string_view kPasteOn = "\x1b[?2004h", kPasteOff = "\x1b[?2004l";
std::atomic<bool> g_marks_pastes = false;

/// Restores the terminal, then raises the signal with its default action.
void on_ending(int number) {
  // A process in the background (Ctrl-Z, then kill) must not change the terminal. -1: the terminal
  // is not that of this session. SIGTTOU is blocked, because it would stop a process that is moved
  // to the background between the two calls.
  if (g_is_terminal) {
    const pid_t foreground = ::tcgetpgrp(STDIN_FILENO);
    if (foreground < 0 || foreground == ::getpgrp()) {
      ::tcsetattr(STDIN_FILENO, TCSANOW, &g_terminal);
      if (g_marks_pastes.load(std::memory_order_relaxed) &&
          ::write(STDOUT_FILENO, kPasteOff.data(), kPasteOff.size()) < 0)
        errno = 0;  // the terminal was closed
    }
  }
  for (std::size_t i = 0; i < std::size(kEnding); ++i) {
    if (kEnding[i] != number) continue;
    ::sigaction(number, &g_ending_before[i], nullptr);
    ::raise(number);
  }
}

bool can_mark_pastes() {
  const char* const terminal = ::getenv("TERM");
  const std::string_view name = terminal != nullptr ? terminal : "";
  return ::isatty(STDOUT_FILENO) == 1 && !name.empty() && name != "dumb";
}

void ask_terminal(std::string_view request) {
  std::fwrite(request.data(), 1, request.size(), stdout);
  std::fflush(stdout);
}

}  // namespace

Interrupts::Interrupts() {
  g_is_terminal = ::tcgetattr(STDIN_FILENO, &g_terminal) == 0;
  if (::pipe2(g_pipe, O_CLOEXEC | O_NONBLOCK) != 0) g_pipe[0] = g_pipe[1] = -1;
  struct sigaction action = {};
  action.sa_handler = on_interrupt;  // no SA_RESTART, so that a waiting read returns
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, &g_before);
  action.sa_handler = on_ending;
  for (const int number : kEnding) ::sigaddset(&action.sa_mask, number);
  ::sigaddset(&action.sa_mask, SIGTTOU);
  for (std::size_t i = 0; i < std::size(kEnding); ++i) {
    // Signals that the parent process set to be ignored (nohup) stay ignored.
    ::sigaction(kEnding[i], nullptr, &g_ending_before[i]);
    if (g_ending_before[i].sa_handler != SIG_IGN) ::sigaction(kEnding[i], &action, nullptr);
  }
}

Interrupts::~Interrupts() {
  ::sigaction(SIGINT, &g_before, nullptr);
  for (std::size_t i = 0; i < std::size(kEnding); ++i)
    ::sigaction(kEnding[i], &g_ending_before[i], nullptr);
  for (int& end : g_pipe) {
    if (end >= 0) ::close(end);
    end = -1;
  }
  g_interrupted = false;
}

const std::atomic<bool>& Interrupts::flag() const {
  return g_interrupted;
}

bool Interrupts::take() {
  char drained[64];
  while (g_pipe[0] >= 0 && ::read(g_pipe[0], drained, sizeof drained) > 0) continue;
  return g_interrupted.exchange(false);
}

int Interrupts::fd() const {
  return g_pipe[0];
}

BracketedPaste::BracketedPaste() : on_(can_mark_pastes()) {
  if (!on_) return;
  g_marks_pastes.store(true, std::memory_order_relaxed);
  ask_terminal(kPasteOn);
}

BracketedPaste::~BracketedPaste() {
  if (!on_) return;
  ask_terminal(kPasteOff);
  g_marks_pastes.store(false, std::memory_order_relaxed);
}

void BracketedPaste::renew() const {
  if (on_) ask_terminal(kPasteOn);
}

}  // namespace llmc::cli
