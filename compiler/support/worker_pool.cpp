#include "compiler/support/worker_pool.h"

#include <algorithm>
#include <exception>
#include <new>
#include <system_error>

namespace llmc {
namespace {

Status guarded(const WorkerPool::Task& task, std::size_t i) {
  try {
    return task(i);
  } catch (const std::bad_alloc&) {
    return failure(ErrorKind::kInternal, "out of memory");
  } catch (const std::exception& e) {
    return failure(ErrorKind::kInternal, e.what());
  }
}

}  // namespace

WorkerPool::WorkerPool(std::size_t threads) {
  if (threads == 0) threads = std::max(std::thread::hardware_concurrency(), 1u);
  threads_.reserve(threads - 1);
  try {
    while (threads_.size() + 1 < threads) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {
    // Continue with the threads that were created.
  }
}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  started_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

Status WorkerPool::run(std::size_t count, const Task& task) {
  results_.assign(count, ok_status());
  {
    const std::lock_guard lock(mutex_);
    task_ = &task;
    next_ = 0;
    running_ = threads_.size();
    ++round_;
  }
  started_.notify_all();
  take_items();
  {
    std::unique_lock lock(mutex_);
    finished_.wait(lock, [this] { return running_ == 0; });
  }
  for (Status& result : results_) {
    if (!result.ok()) return std::move(result);
  }
  return ok_status();
}

void WorkerPool::work() {
  std::size_t seen = 0;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      started_.wait(lock, [&] { return stop_ || round_ != seen; });
      if (stop_) return;
      seen = round_;
    }
    take_items();
    const std::lock_guard lock(mutex_);
    if (--running_ == 0) finished_.notify_one();
  }
}

void WorkerPool::take_items() {
  for (std::size_t i = next_++; i < results_.size(); i = next_++) results_[i] = guarded(*task_, i);
}

}  // namespace llmc
