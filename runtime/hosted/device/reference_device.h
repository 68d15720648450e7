#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "llmc/device.h"
#include "runtime/hosted/device/job_thread.h"
#include "runtime/hosted/outcome.h"
#include "runtime/hosted/thread_pool.h"

namespace llmc::hosted {

/// The accelerator `reference`: threads of its own that compute regions with the model's kernels,
/// in the memory of the CPU. It has the form of an accelerator and the speed of a CPU: it shows
/// what a partition does, and is what other devices are compared with.
class ReferenceDevice {
 public:
  /// Starts `threads` threads. Fails like ThreadPool::create().
  static Outcome<std::unique_ptr<ReferenceDevice>> create(std::uint32_t threads);
  ~ReferenceDevice() { cancel(); }
  ReferenceDevice(const ReferenceDevice&) = delete;
  ReferenceDevice& operator=(const ReferenceDevice&) = delete;

  /// The functions for llmc_config.device. A session and this object must not outlive it.
  const llmc_device& device() const { return device_; }

 private:
  /// Jobs that are submitted and not done; at most one per chunk in flight, of one session.
  static constexpr std::uint64_t kJobs = 2 * LLMC_MAX_IN_FLIGHT;
  struct Job {
    const llmc_model* model;
    llmc_run run;
    std::uint32_t first_step, end_step;
  };

  explicit ReferenceDevice(std::unique_ptr<ThreadPool> pool);
  void prepare(void* scratch, std::uint64_t bytes);
  std::uint64_t submit(const llmc_device_job& job);
  int wait(std::uint64_t ticket, std::uint32_t timeout_us);
  void cancel();
  void run(std::uint64_t ticket);

  std::unique_ptr<ThreadPool> pool_;
  llmc_device device_;
  std::span<unsigned char> scratch_;                     // of the session that was initialised last
  Job jobs_[kJobs];                                      // job i is jobs_[i % kJobs]
  alignas(64) std::atomic<std::uint64_t> cancelled_{0};  // jobs up to this one are skipped
  JobThread thread_;
};

}  // namespace llmc::hosted
