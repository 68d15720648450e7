#include "tools/llmc/interrupts.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>

namespace llmc::cli {
namespace {

// A handler has nothing else to reach.
std::atomic<bool> g_interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free);
int g_pipe[2] = {-1, -1};
struct sigaction g_before;

void on_interrupt(int) {
  const int saved = errno;
  g_interrupted.store(true, std::memory_order_relaxed);
  // Full already: then it is readable.
  if (g_pipe[1] >= 0 && ::write(g_pipe[1], "", 1) < 0) errno = saved;
  errno = saved;
}

}  // namespace

Interrupts::Interrupts() {
  if (::pipe2(g_pipe, O_CLOEXEC | O_NONBLOCK) != 0) g_pipe[0] = g_pipe[1] = -1;
  struct sigaction action = {};
  action.sa_handler = on_interrupt;  // no SA_RESTART: a read that waits ends
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, &g_before);
}

Interrupts::~Interrupts() {
  ::sigaction(SIGINT, &g_before, nullptr);
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

}  // namespace llmc::cli
