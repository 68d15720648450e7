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

/// Returns the number of cores that this process may use, at least 1.
std::uint32_t usable_cores();

struct ThreadPoolOptions {
  /// Time for which a waiting thread spins before it sleeps. With more threads than cores, it is 0,
  /// because spinning would take the core from the thread that is waited for.
  std::chrono::microseconds spin{100};
  /// If a job took longer than the caller alone would need, and longer than `patience`, a thread
  /// probably lost its core while it had an item. The caller then runs the following jobs alone for
  /// `alone_min`. Each time this happens again immediately afterwards, the time doubles, up to
  /// `alone_max`.
  std::chrono::microseconds patience{50};
  std::chrono::microseconds alone_min{2000}, alone_max{250000};
};

/// A fixed set of threads for a session's parallel_for, including the calling thread.
///
/// Threads take one item at a time. A thread that is late, asleep or without a core therefore
/// causes no delay, because the others take its items. The others must wait only for a thread that
/// is interrupted while it has an item; after that, the pool is not used for a while.
class ThreadPool {
 public:
  using Function = void (*)(void* arg, std::uint32_t i);

  /// Creates a pool of `threads` workers, including the caller. Fails with LLMC_ERROR_ARGUMENT if
  /// `threads` is not 1 to 4096, and with LLMC_ERROR_MEMORY if the system cannot create the
  /// threads.
  static Outcome<std::unique_ptr<ThreadPool>> create(std::uint32_t threads,
                                                     ThreadPoolOptions options = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  std::uint32_t threads() const { return static_cast<std::uint32_t>(threads_.size()) + 1; }

  /// Calls fn(arg, i) once for every i in 0 .. n-1, on any of the threads, and returns when all
  /// calls are done. Concurrent calls of parallel_for run one after the other. A call from inside
  /// `fn` runs only on the calling thread, because the others are busy. `fn` must not throw.
  void parallel_for(Function fn, void* arg, std::uint32_t n) noexcept;

  /// Implements llmc_parallel_for. `pool` is a ThreadPool.
  static void run(void* pool, Function fn, void* arg, std::uint32_t n);

 private:
  // Each word that threads wait for has a separate cache line, so that writing one does not slow
  // down threads that read another.
  struct alignas(64) Line {
    std::atomic<std::uint32_t> value{0};
  };

  using Clock = std::chrono::steady_clock;

  explicit ThreadPool(ThreadPoolOptions options) : options_(options) {}
  void work();
  /// Takes items of the current job until none is left. Returns how many it took.
  std::uint32_t take_items();
  void finish(std::uint32_t items);
  std::uint32_t wait_for_job(std::uint32_t seen);
  bool wait_for_others();
  void adapt_to_preemption(Clock::duration own, Clock::duration whole, std::uint32_t done,
                           std::uint32_t items);
  Line started_;     // changes when a job starts
  Line unfinished_;  // number of items that are not done yet
  Line sleepers_;    // number of threads that sleep, or are about to, since the last wake-up

  // Number of the job and number of items not taken yet. They are in one word, so that an item can
  // be taken only from the job to which it belongs. While an item is left, its job cannot end, and
  // the fields below do not change.
  alignas(64) std::atomic<std::uint64_t> job_{0};
  std::atomic<Function> function_{nullptr};
  std::atomic<void*> arg_{nullptr};
  std::atomic<std::uint32_t> items_{0};
  std::atomic<bool> stop_{false};

  std::mutex one_job_at_a_time_;
  ThreadPoolOptions options_;
  Clock::duration alone_{};  // time for which the caller works alone
  Clock::time_point alone_until_;
  std::vector<std::thread> threads_;
};

}  // namespace llmc::hosted
