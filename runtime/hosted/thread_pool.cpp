#include "runtime/hosted/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <new>
#include <system_error>

namespace llmc::hosted {
namespace {

// The pool whose job this thread is running, to notice a call from inside a job.
thread_local const ThreadPool* current_pool = nullptr;

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

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
  constexpr std::uint32_t kMost = 4096;
  if (threads == 0 || threads > kMost)
    return Failure{LLMC_ERROR_ARGUMENT, "a thread pool has 1 to 4096 threads"};
  if (threads > usable_cores()) options.spin = std::chrono::microseconds{0};
  std::unique_ptr<ThreadPool> pool(new ThreadPool(options));
  try {
    pool->threads_.reserve(threads - 1);
    for (std::uint32_t worker = 1; worker < threads; ++worker)
      pool->threads_.emplace_back([raw = pool.get(), worker] { raw->work(worker); });
  } catch (const std::system_error& error) {
    return Failure{LLMC_ERROR_MEMORY, std::string("cannot start a thread: ") + error.what()};
  } catch (const std::bad_alloc&) {
    return Failure{LLMC_ERROR_MEMORY, "out of memory"};
  }
  return pool;
}

ThreadPool::~ThreadPool() {
  stop_ = true;
  started_.value.fetch_add(1, std::memory_order_release);
  started_.value.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::uint32_t ThreadPool::wait_for_change(const Line& line, std::uint32_t seen) const {
  std::uint32_t now = line.value.load(std::memory_order_acquire);
  if (now != seen) return now;
  if (spin_.count() > 0) {
    // First in the fastest way; then letting others run, in case they hold the core that the thread
    // we wait for needs.
    constexpr int kQuickLooks = 200;
    for (int i = 0; i < kQuickLooks; ++i) {
      now = line.value.load(std::memory_order_acquire);
      if (now != seen) return now;
      relax();
    }
    const auto until = std::chrono::steady_clock::now() + spin_;
    do {
      std::this_thread::yield();
      now = line.value.load(std::memory_order_acquire);
      if (now != seen) return now;
    } while (std::chrono::steady_clock::now() < until);
  }
  while ((now = line.value.load(std::memory_order_acquire)) == seen)
    line.value.wait(seen, std::memory_order_acquire);
  return now;
}

void ThreadPool::take_share(std::uint32_t worker) const {
  const std::uint64_t step = threads();
  for (std::uint64_t i = worker; i < items_; i += step) function_(arg_, static_cast<uint32_t>(i));
}

void ThreadPool::work(std::uint32_t worker) {
  current_pool = this;
  std::uint32_t seen = 0;
  for (;;) {
    // One job can start only after the last one's end, so no change is ever missed.
    seen = wait_for_change(started_, seen);
    if (stop_) return;
    take_share(worker);
    if (running_.value.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      finished_.value.fetch_add(1, std::memory_order_release);
      finished_.value.notify_one();
    }
  }
}

void ThreadPool::parallel_for(Function fn, void* arg, std::uint32_t n) noexcept {
  if (current_pool == this || threads_.empty() || n <= 1) {
    for (std::uint32_t i = 0; i < n; ++i) fn(arg, i);
    return;
  }
  const std::lock_guard lock(one_job_at_a_time_);
  const ThreadPool* const outer = current_pool;
  current_pool = this;
  function_ = fn;
  arg_ = arg;
  items_ = n;
  const std::uint32_t before = finished_.value.load(std::memory_order_relaxed);
  running_.value.store(static_cast<std::uint32_t>(threads_.size()), std::memory_order_relaxed);
  started_.value.fetch_add(1, std::memory_order_release);
  started_.value.notify_all();
  take_share(0);
  wait_for_change(finished_, before);
  current_pool = outer;
}

void ThreadPool::run(void* pool, Function fn, void* arg, std::uint32_t n) {
  static_cast<ThreadPool*>(pool)->parallel_for(fn, arg, n);
}

}  // namespace llmc::hosted
