#include "runtime/hosted/device/reference_device.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <system_error>

#include "runtime/hosted/relax.h"

namespace llmc::hosted {
namespace {

using Clock = std::chrono::steady_clock;

/// Number of spin iterations before a thread sleeps: about 20 us.
constexpr int kSpins = 400;

}  // namespace

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
  try {
    std::unique_ptr<ReferenceDevice> device(new ReferenceDevice(std::move(*pool)));
    device->worker_ = std::thread([raw = device.get()] { raw->work(); });
    return device;
  } catch (const std::system_error& error) {
    return Failure{LLMC_ERROR_MEMORY, std::string("cannot start a thread: ") + error.what()};
  }
}

ReferenceDevice::~ReferenceDevice() {
  if (!worker_.joinable()) return;
  cancel();
  stop_ = true;
  submitted_.fetch_add(1);  // wakes the worker
  submitted_.notify_one();
  worker_.join();
}

void ReferenceDevice::prepare(void* scratch, std::uint64_t bytes) {
  cancel();
  scratch_ = {static_cast<unsigned char*>(scratch), bytes};
}

std::uint64_t ReferenceDevice::submit(const llmc_device_job& job) {
  const auto begin = reinterpret_cast<std::uintptr_t>(scratch_.data());
  if (reinterpret_cast<std::uintptr_t>(job.run->scratch) - begin >= scratch_.size()) return 0;
  const std::uint64_t ticket = submitted_.load(std::memory_order_relaxed) + 1;
  if (ticket - done_.load(std::memory_order_acquire) > kJobs) return 0;
  Job& slot = jobs_[ticket % kJobs];
  slot = {job.model, *job.run, job.first_step, job.end_step};
  slot.run.parallel_for = ThreadPool::run;
  slot.run.user = pool_.get();
  slot.run.threads = std::min(pool_->threads(), job.model->threads_max);
  submitted_.store(ticket, std::memory_order_release);
  submitted_.notify_one();
  return ticket;
}

int ReferenceDevice::wait(std::uint64_t ticket, std::uint32_t timeout_us) {
  const auto is_done = [&] { return done_.load(std::memory_order_acquire) >= ticket; };
  if (is_done()) return LLMC_DEVICE_DONE;
  if (timeout_us == 0) return LLMC_DEVICE_RUNNING;
  const Clock::time_point end = Clock::now() + std::chrono::microseconds(timeout_us);
  for (int i = 0; i < kSpins; ++i) {
    if (is_done()) return LLMC_DEVICE_DONE;
    relax();
  }
  if (timeout_us == LLMC_DEVICE_NO_LIMIT) {
    wait_for(ticket);
    return LLMC_DEVICE_DONE;
  }
  while (!is_done()) {
    if (Clock::now() >= end) return LLMC_DEVICE_RUNNING;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return LLMC_DEVICE_DONE;
}

void ReferenceDevice::cancel() {
  const std::uint64_t last = submitted_.load(std::memory_order_relaxed);
  cancelled_.store(last, std::memory_order_relaxed);
  wait_for(last);
}

void ReferenceDevice::wait_for(std::uint64_t ticket) {
  for (std::uint64_t seen; (seen = done_.load(std::memory_order_acquire)) < ticket;)
    done_.wait(seen, std::memory_order_acquire);
}

void ReferenceDevice::run(const Job& job) {
  const std::uint64_t ticket = done_.load(std::memory_order_relaxed) + 1;
  for (std::uint32_t step = job.first_step; step < job.end_step; ++step) {
    if (cancelled_.load(std::memory_order_relaxed) >= ticket) return;
    job.model->run_step(&job.run, step);
  }
}

void ReferenceDevice::work() {
  for (std::uint64_t next = 1;; ++next) {
    for (int i = 0; i < kSpins && submitted_.load(std::memory_order_acquire) < next; ++i) relax();
    while (submitted_.load(std::memory_order_acquire) < next)
      submitted_.wait(next - 1, std::memory_order_acquire);
    if (stop_) return;
    run(jobs_[next % kJobs]);
    done_.store(next, std::memory_order_release);
    done_.notify_all();
  }
}

}  // namespace llmc::hosted
