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

/// Returns the number of cores this process may run on, at least 1.
std::uint32_t usable_cores();

struct ThreadPoolOptions {
  /// How long a waiting thread spins before it sleeps. Not used if there are more threads than
  /// cores: spinning would take the core from the thread it waits for.
  std::chrono::microseconds spin{100};
  /// If a job took longer than the caller alone would need, and longer than `patience`, a thread
  /// lost its core while it held an item. The caller then runs the following jobs alone, for
  /// `alone_min` at first, and twice as long each time it happens again immediately, up to
  /// `alone_max`.
  std::chrono::microseconds patience{50};
  std::chrono::microseconds alone_min{2000}, alone_max{250000};
};

/// A fixed set of threads for a session's parallel_for, including the calling thread.
///
/// Threads take items one at a time. A thread that is late, asleep or without a core therefore
/// costs nothing, because the others do its items. Only a thread that is interrupted while it holds
/// an item must be waited for; the pool is then not used for a while.
class ThreadPool {
 public:
  using Function = void (*)(void* arg, std::uint32_t i);

  /// Creates a pool of `threads` workers, including the caller. LLMC_ERROR_ARGUMENT for 0,
  /// LLMC_ERROR_MEMORY if the system cannot create the threads.
  static Outcome<std::unique_ptr<ThreadPool>> create(std::uint32_t threads,
                                                     ThreadPoolOptions options = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  std::uint32_t threads() const { return static_cast<std::uint32_t>(threads_.size()) + 1; }

  /// Calls fn(arg, i) once for every i in 0 .. n-1, on any of the threads; returns when all are
  /// done. Concurrent calls run one after the other. Calls from inside fn run on the calling thread
  /// alone, because the others are busy. fn must not throw.
  void parallel_for(Function fn, void* arg, std::uint32_t n) noexcept;

  /// Implements llmc_parallel_for; `pool` is a ThreadPool.
  static void run(void* pool, Function fn, void* arg, std::uint32_t n);

 private:
  // Words that threads wait for are on separate cache lines, so that writing one does not disturb
  // threads that read another.
  struct alignas(64) Line {
    std::atomic<std::uint32_t> value{0};
  };

  using Clock = std::chrono::steady_clock;

  explicit ThreadPool(ThreadPoolOptions options) : options_(options) {}
  void work();
  /// Takes items of the current job until none is left; returns their number.
  std::uint32_t take_items();
  void finish(std::uint32_t items);
  std::uint32_t wait_for_job(std::uint32_t seen);
  bool wait_for_others();
  void judge(Clock::duration own, Clock::duration whole, std::uint32_t done, std::uint32_t items);
  Line started_;     // changes when a job starts
  Line unfinished_;  // items not done yet
  Line sleepers_;    // threads asleep, or about to sleep, since the last wake-up

  // Number of the job and of items not taken yet, in one word, so that an item can only be taken
  // from the job it belongs to. While an item is left, its job cannot end and the fields below do
  // not change.
  alignas(64) std::atomic<std::uint64_t> job_{0};
  std::atomic<Function> function_{nullptr};
  std::atomic<void*> arg_{nullptr};
  std::atomic<std::uint32_t> items_{0};
  std::atomic<bool> stop_{false};

  std::mutex one_job_at_a_time_;
  ThreadPoolOptions options_;
  Clock::duration alone_{};  // how long the caller works alone
  Clock::time_point alone_until_;
  std::vector<std::thread> threads_;
};

}  // namespace llmc::hosted
