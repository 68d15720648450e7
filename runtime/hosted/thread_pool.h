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
  /// A job that took longer than it would have taken the caller alone, and longer than `patience`,
  /// had a thread that lost its core in the middle of an item. The caller then does the following
  /// jobs alone, for `alone_min` at first, twice as long each time it happens again at once, up to
  /// `alone_max`.
  std::chrono::microseconds patience{50};
  std::chrono::microseconds alone_min{2000}, alone_max{250000};
};

/// Threads for a session's parallel_for, made once; the calling thread is one of them.
///
/// Items are taken one by one by whoever comes first, the caller too. So a thread that is late,
/// asleep or without a core costs nothing: the others do its items. Only one that was interrupted
/// in the middle of an item is waited for, and then left out for a while.
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

  /// fn(arg, i) once for every i in 0 .. n-1, on any of the threads; returns when all are done.
  /// From several threads at once: one after the other. From inside fn: on the calling thread
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

  using Clock = std::chrono::steady_clock;

  explicit ThreadPool(ThreadPoolOptions options) : options_(options) {}
  void work();
  /// Takes items of the job that is there until none is left; how many it did.
  std::uint32_t take_items();
  void finish(std::uint32_t items);
  std::uint32_t wait_for_job(std::uint32_t seen);
  bool wait_for_others();
  void judge(Clock::duration own, Clock::duration whole, std::uint32_t done, std::uint32_t items);
  Line started_;     // changes when a job is there
  Line unfinished_;  // items that are not done
  Line sleepers_;    // threads that sleep, or are about to, since the last wake-up

  // Number of the job and items nobody has taken, in one word: an item can only be taken from the
  // job it belongs to. While one is left to take, its job cannot end and the words below stay.
  alignas(64) std::atomic<std::uint64_t> job_{0};
  std::atomic<Function> function_{nullptr};
  std::atomic<void*> arg_{nullptr};
  std::atomic<std::uint32_t> items_{0};
  std::atomic<bool> stop_{false};

  std::mutex one_job_at_a_time_;
  ThreadPoolOptions options_;
  Clock::duration alone_{};  // how long the caller worked, or works, alone
  Clock::time_point alone_until_;
  std::vector<std::thread> threads_;
};

}  // namespace llmc::hosted
