#include "runtime/hosted/device/reference_device.h"

#include <algorithm>

namespace llmc::hosted {

ReferenceDevice::ReferenceDevice(std::unique_ptr<ThreadPool> pool)
    : pool_(std::move(pool)),
      device_{
          .abi = LLMC_DEVICE_ABI,
          .size = sizeof(llmc_device),
          .name = "reference",
          .user = this,
          .prepare = [](void* user, const llmc_model* model, const void*, void* scratch,
                        uint64_t bytes) -> llmc_status {
            // The layouts of llmc_run and llmc_model are those of this version.
            if (model->abi != LLMC_MODEL_ABI) return LLMC_ERROR_VERSION;
            static_cast<ReferenceDevice*>(user)->prepare(scratch, bytes);
            return LLMC_OK;
          },
          .submit = [](void* user, const llmc_device_job* job) -> uint64_t {
            return static_cast<ReferenceDevice*>(user)->submit(*job);
          },
          .wait = [](void* user, uint64_t ticket, uint32_t timeout_us) -> int {
            return static_cast<ReferenceDevice*>(user)->wait(ticket, timeout_us);
          },
          .cancel = [](void* user) { static_cast<ReferenceDevice*>(user)->cancel(); },
          .release = [](void* user) { static_cast<ReferenceDevice*>(user)->prepare(nullptr, 0); },
          .message = nullptr} {}

Outcome<std::unique_ptr<ReferenceDevice>> ReferenceDevice::create(std::uint32_t threads) {
  auto pool = ThreadPool::create(threads);
  if (!pool) return pool.failure();
  std::unique_ptr<ReferenceDevice> device(new ReferenceDevice(std::move(*pool)));
  const auto run = [](void* self, std::uint64_t job) noexcept {
    static_cast<ReferenceDevice*>(self)->run(job);
  };
  if (const auto failed = device->thread_.start(run, device.get())) return *failed;
  return device;
}

void ReferenceDevice::prepare(void* scratch, std::uint64_t bytes) {
  cancel();
  scratch_ = {static_cast<unsigned char*>(scratch), bytes};
}

std::uint64_t ReferenceDevice::submit(const llmc_device_job& job) {
  const auto begin = reinterpret_cast<std::uintptr_t>(scratch_.data());
  if (reinterpret_cast<std::uintptr_t>(job.run->scratch) - begin >= scratch_.size()) return 0;
  const std::uint64_t ticket = thread_.last() + 1;
  if (ticket > kJobs && !thread_.is_done(ticket - kJobs)) return 0;
  Job& slot = jobs_[ticket % kJobs];
  slot = {job.model, *job.run, job.first_step, job.end_step};
  slot.run.parallel_for = ThreadPool::run;
  slot.run.user = pool_.get();
  slot.run.threads = std::min(pool_->threads(), job.model->threads_max);
  thread_.submit();
  return ticket;
}

int ReferenceDevice::wait(std::uint64_t ticket, std::uint32_t timeout_us) {
  return thread_.wait(ticket, timeout_us) ? LLMC_DEVICE_DONE : LLMC_DEVICE_RUNNING;
}

void ReferenceDevice::cancel() {
  const std::uint64_t last = thread_.last();
  cancelled_.store(last, std::memory_order_relaxed);
  thread_.wait(last, LLMC_DEVICE_NO_LIMIT);
}

void ReferenceDevice::run(std::uint64_t ticket) {
  const Job& job = jobs_[ticket % kJobs];
  for (std::uint32_t step = job.first_step; step < job.end_step; ++step) {
    if (cancelled_.load(std::memory_order_relaxed) >= ticket) return;
    job.model->run_step(&job.run, step);
  }
}

}  // namespace llmc::hosted
