#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "compiler/support/signal_cleanup.h"

namespace llmc::testing {

/// Forks a process that catches signals and runs `child(ready)` in it. After the child has called
/// ready(), calls `before_signal` in this process, sends signal `number` to the child, and expects
/// that the signal ends it. `child` must wait for the signal and not return.
inline void end_child_by_signal(
    int number, const std::function<void(const std::function<void()>& ready)>& child,
    const std::function<void()>& before_signal = [] {}) {
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const pid_t pid = ::fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    ::close(pipe[0]);
    install_signal_cleanup();
    child([&] {
      if (::write(pipe[1], "x", 1) != 1) ::_exit(1);
    });
    ::_exit(1);
  }
  ::close(pipe[1]);
  char byte = 0;
  EXPECT_EQ(::read(pipe[0], &byte, 1), 1) << "the child ended early";
  before_signal();
  EXPECT_EQ(::kill(pid, number), 0);
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == number);
  ::close(pipe[0]);
}

}  // namespace llmc::testing
