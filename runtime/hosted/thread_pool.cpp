#include "runtime/hosted/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <new>
#include <system_error>

#include "runtime/hosted/relax.h"

namespace llmc::hosted {
namespace {

// The pool whose job this thread is running; detects calls from inside a job.
thread_local const ThreadPool* current_pool = nullptr;

/// Number of times that a waiting thread polls before it makes a system call.
constexpr int kPoolSpins = 200;

}  // namespace

std::uint32_t usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
    return static_cast<std::uint32_t>(CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

Outcome<std::unique_ptr<ThreadPool>> ThreadPool::create(std::uint32_t threads,
                                                        ThreadPoolOptions options) {
  constexpr std::uint32_t kMaxPoolThreads = 4096;
  if (threads == 0 || threads > kMaxPoolThreads)
    return Failure{LLMC_ERROR_ARGUMENT, "a thread pool has 1 to 4096 threads"};
  if (threads > usable_cores()) options.spin = std::chrono::microseconds{0};
  std::unique_ptr<ThreadPool> pool(new ThreadPool(options));
  try {
    pool->threads_.reserve(threads - 1);
    for (std::uint32_t worker = 1; worker < threads; ++worker)
      pool->threads_.emplace_back([raw = pool.get()] { raw->work(); });
  } catch (const std::system_error& error) {
    return Failure{LLMC_ERROR_MEMORY, std::string("cannot start a thread: ") + error.what()};
  } catch (const std::bad_alloc&) {
    return Failure{LLMC_ERROR_MEMORY, "out of memory"};
  }
  return pool;
}

ThreadPool::~ThreadPool() {
  stop_ = true;
  started_.value.fetch_add(1);
  started_.value.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::uint32_t ThreadPool::wait_for_job(std::uint32_t seen) {
  std::uint32_t now = started_.value.load(std::memory_order_acquire);
  if (now != seen) return now;
  if (options_.spin.count() > 0) {
    for (int i = 0; i < kPoolSpins; ++i) {
      now = started_.value.load(std::memory_order_acquire);
      if (now != seen) return now;
      relax();
    }
    // Then yield, because another thread may use the core that the caller needs.
    const auto until = Clock::now() + options_.spin;
    do {
      std::this_thread::yield();
      now = started_.value.load(std::memory_order_acquire);
      if (now != seen) return now;
    } while (Clock::now() < until);
  }
  // This order is important: the caller starts a job and then checks for sleepers, so at least one
  // of the two notices the other. If a wake-up were missed, the result would still be correct, only
  // later.
  sleepers_.value.fetch_add(1);
  while ((now = started_.value.load()) == seen) started_.value.wait(seen);
  return now;
}

std::uint32_t ThreadPool::take_items() {
  std::uint32_t done = 0;
  std::uint64_t job = job_.load(std::memory_order_acquire);
  while (static_cast<std::uint32_t>(job) != 0) {
    const Function function = function_.load(std::memory_order_relaxed);
    void* const arg = arg_.load(std::memory_order_relaxed);
    const std::uint32_t items = items_.load(std::memory_order_relaxed);
    if (!job_.compare_exchange_weak(job, job - 1, std::memory_order_acq_rel,
                                    std::memory_order_acquire))
      continue;
    function(arg, items - static_cast<std::uint32_t>(job));
    ++done;
    job = job_.load(std::memory_order_acquire);
  }
  return done;
}

void ThreadPool::finish(std::uint32_t items) {
  if (items == 0) return;
  if (unfinished_.value.fetch_sub(items, std::memory_order_acq_rel) == items)
    unfinished_.value.notify_one();
}

void ThreadPool::work() {
  current_pool = this;
  std::uint32_t seen = 0;
  for (;;) {
    seen = wait_for_job(seen);
    if (stop_.load(std::memory_order_relaxed)) return;
    finish(take_items());
  }
}

/// Waits until all items of the job are done. Returns false if they were done
/// after a few checks.
bool ThreadPool::wait_for_others() {
  const auto done = [&] { return unfinished_.value.load(std::memory_order_acquire) == 0; };
  for (int i = 0; i < kPoolSpins; ++i) {
    if (done()) return false;
    relax();
  }
  // The thread that has an item is either running or has lost its core. In the second case, this
  // thread should soon yield its own core.
  const auto until = Clock::now() + std::min(options_.spin, options_.patience);
  while (Clock::now() < until) {
    if (done()) return true;
    std::this_thread::yield();
  }
  for (std::uint32_t left; (left = unfinished_.value.load(std::memory_order_acquire)) != 0;)
    unfinished_.value.wait(left, std::memory_order_acquire);
  return true;
}

void ThreadPool::adapt_to_preemption(Clock::duration own, Clock::duration whole, std::uint32_t done,
                                     std::uint32_t items) {
  if (done == 0 || whole < options_.patience || whole / items < own / done) return;
  const auto now = Clock::now();
  const bool at_once = now - alone_until_ < alone_;
  alone_ = at_once ? std::min<Clock::duration>(alone_ * 2, options_.alone_max) : options_.alone_min;
  alone_until_ = now + alone_;
}

void ThreadPool::parallel_for(Function fn, void* arg, std::uint32_t n) noexcept {
  const auto serial = [&] {
    for (std::uint32_t i = 0; i < n; ++i) fn(arg, i);
  };
  if (current_pool == this || threads_.empty() || n <= 1) return serial();
  const std::lock_guard lock(one_job_at_a_time_);
  const ThreadPool* const outer = current_pool;
  current_pool = this;
  const auto start = Clock::now();
  if (start < alone_until_) {
    serial();
    current_pool = outer;
    return;
  }
  function_.store(fn, std::memory_order_relaxed);
  arg_.store(arg, std::memory_order_relaxed);
  items_.store(n, std::memory_order_relaxed);
  unfinished_.value.store(n, std::memory_order_relaxed);
  const std::uint32_t number = started_.value.load(std::memory_order_relaxed) + 1;
  job_.store(std::uint64_t{number} << 32 | n, std::memory_order_release);
  started_.value.store(number);
  if (sleepers_.value.exchange(0) > 0) started_.value.notify_all();
  const std::uint32_t done = take_items();
  const auto own = Clock::now() - start;
  finish(done);
  if (wait_for_others()) adapt_to_preemption(own, Clock::now() - start, done, n);
  current_pool = outer;
}

void ThreadPool::run(void* pool, Function fn, void* arg, std::uint32_t n) {
  static_cast<ThreadPool*>(pool)->parallel_for(fn, arg, n);
}

}  // namespace llmc::hosted
