#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/hosted/outcome.h"

namespace llmc::hosted {

/// Cores this process may run on, at least 1.
std::uint32_t usable_cores();

struct ThreadPoolOptions {
  /// How long a thread that waits looks again and again before it sleeps. Not used when there are
  /// more threads than cores: it would take the core from the thread it waits for.
  std::chrono::microseconds spin{100};
};

/// Threads for a session's parallel_for, made once. The calling thread is worker 0.
class ThreadPool {
 public:
  using Function = void (*)(void* arg, std::uint32_t i);

  /// A pool of `threads` workers, the caller among them. LLMC_ERROR_ARGUMENT for 0,
  /// LLMC_ERROR_MEMORY when the system gives no more threads.
  static Outcome<std::unique_ptr<ThreadPool>> create(std::uint32_t threads,
                                                     ThreadPoolOptions options = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  std::uint32_t threads() const { return static_cast<std::uint32_t>(threads_.size()) + 1; }

  /// fn(arg, i) for every i in 0 .. n-1, worker w taking w, w + threads(), …; returns when all are
  /// done. From several threads at once: one after the other. From inside fn: on the calling worker
  /// alone, because the others are busy. fn must not throw.
  void parallel_for(Function fn, void* arg, std::uint32_t n) noexcept;

  /// An llmc_parallel_for; `pool` is a ThreadPool.
  static void run(void* pool, Function fn, void* arg, std::uint32_t n);

 private:
  // Each word that threads wait for has a cache line of its own: writing one must not disturb those
  // who look at the other.
  struct alignas(64) Line {
    std::atomic<std::uint32_t> value{0};
  };

  explicit ThreadPool(ThreadPoolOptions options) : spin_(options.spin) {}
  void work(std::uint32_t worker);
  void take_share(std::uint32_t worker) const;
  std::uint32_t wait_for_change(const Line& line, std::uint32_t seen) const;

  Line started_;   // changes when a job is there
  Line finished_;  // changes when the last worker is through with it
  Line running_;   // workers still at it

  alignas(64) Function function_ = nullptr;
  void* arg_ = nullptr;
  std::uint32_t items_ = 0;
  bool stop_ = false;

  std::mutex one_job_at_a_time_;
  std::chrono::microseconds spin_;
  std::vector<std::thread> threads_;
};

}  // namespace llmc::hosted
