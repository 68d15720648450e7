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

/// The accelerator `reference`: separate CPU threads that compute regions with the model's kernels,
/// in the CPU's memory. It has the interface of an accelerator and the speed of a CPU. It shows the
/// effect of a partition, and other devices are compared with it.
class ReferenceDevice {
 public:
  /// Starts `threads` threads. Fails like ThreadPool::create().
  static Outcome<std::unique_ptr<ReferenceDevice>> create(std::uint32_t threads);
  ~ReferenceDevice() { cancel(); }
  ReferenceDevice(const ReferenceDevice&) = delete;
  ReferenceDevice& operator=(const ReferenceDevice&) = delete;

  /// Returns the functions for llmc_config.device. Valid as long as this object, which must outlive
  /// the sessions that use it.
  const llmc_device& device() const { return device_; }

 private:
  /// Number of elements of jobs_. At most one job per chunk in flight is submitted and not done.
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
  std::span<unsigned char> scratch_;                     // of the session that was initialized last
  Job jobs_[kJobs];                                      // job i is jobs_[i % kJobs]
  alignas(64) std::atomic<std::uint64_t> cancelled_{0};  // jobs up to this one are skipped
  JobThread thread_;
};

}  // namespace llmc::hosted
