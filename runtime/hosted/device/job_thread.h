#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <thread>

#include "llmc/device.h"
#include "runtime/hosted/outcome.h"

namespace llmc::hosted {

/// A thread that runs a device's jobs in the order of their submission, while the session's thread
/// continues. Jobs are numbered from 1. All functions must be called by the same thread, so that
/// submission needs no lock.
class JobThread {
 public:
  using Run = void (*)(void* device, std::uint64_t job) noexcept;

  JobThread() = default;
  /// Ends the thread after it has run all submitted jobs.
  ~JobThread();
  JobThread(const JobThread&) = delete;
  JobThread& operator=(const JobThread&) = delete;

  /// Starts the thread, which calls run(device, job). Returns LLMC_ERROR_MEMORY if the system
  /// cannot create it.
  std::optional<Failure> start(Run run, void* device);

  /// Returns the number of the last job that was submitted.
  std::uint64_t last() const { return submitted_.load(std::memory_order_relaxed); }
  /// Submits job last() + 1, whose data the caller has prepared for run().
  void submit();
  /// Returns whether run() has returned from a job; its effects are then visible.
  bool is_done(std::uint64_t job) const { return done_.load(std::memory_order_acquire) >= job; }
  /// Waits for a job for at most `timeout_us` microseconds (LLMC_DEVICE_NO_LIMIT: until it is
  /// done). Returns whether it is done.
  bool wait(std::uint64_t job, std::uint32_t timeout_us);

 private:
  void work();

  // Each word has a separate cache line, to avoid false sharing.
  alignas(64) std::atomic<std::uint64_t> submitted_{0};
  alignas(64) std::atomic<std::uint64_t> done_{0};
  alignas(64) std::atomic<bool> stop_{false};
  Run run_ = nullptr;
  void* device_ = nullptr;
  std::thread thread_;
};

}  // namespace llmc::hosted
