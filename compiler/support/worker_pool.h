#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "compiler/support/result.h"

namespace llmc {

/// A fixed set of threads that runs rounds of work, one round at a time.
class WorkerPool {
 public:
  using Task = std::function<Status(std::size_t)>;

  /// Creates `threads` workers, including the caller; 0: the number of cores. Creates fewer if the
  /// system cannot create as many.
  explicit WorkerPool(std::size_t threads = 0);
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;
  ~WorkerPool();

  std::size_t threads() const { return threads_.size() + 1; }

  /// Calls task(i) for every i below `count`. Returns the error of the lowest failing i. Exceptions
  /// of a task become errors too, because running out of memory inside a thread must not end the
  /// process.
  Status run(std::size_t count, const Task& task);

 private:
  void work();
  void take_items();

  std::mutex mutex_;
  std::condition_variable started_, finished_;
  std::size_t round_ = 0;    // number of the round; changes when there is work
  std::size_t running_ = 0;  // workers that have not finished the round
  bool stop_ = false;

  const Task* task_ = nullptr;
  std::atomic<std::size_t> next_{0};
  std::vector<Status> results_;
  std::vector<std::thread> threads_;
};

}  // namespace llmc
