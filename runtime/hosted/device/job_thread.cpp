#include "runtime/hosted/device/job_thread.h"

#include <chrono>
#include <system_error>

#include "runtime/hosted/relax.h"

namespace llmc::hosted {
namespace {

using Clock = std::chrono::steady_clock;

/// Number of spin iterations before a thread sleeps: about 20 us.
constexpr int kSpins = 400;

}  // namespace

JobThread::~JobThread() {
  if (!thread_.joinable()) return;
  wait(last(), LLMC_DEVICE_NO_LIMIT);
  stop_ = true;
  submit();  // wakes the thread
  thread_.join();
}

std::optional<Failure> JobThread::start(Run run, void* device) {
  run_ = run;
  device_ = device;
  try {
    thread_ = std::thread([this] { work(); });
    return std::nullopt;
  } catch (const std::system_error& error) {
    return Failure{LLMC_ERROR_MEMORY, std::string("cannot start a thread: ") + error.what()};
  }
}

void JobThread::submit() {
  submitted_.store(last() + 1, std::memory_order_release);
  submitted_.notify_one();
}

bool JobThread::wait(std::uint64_t job, std::uint32_t timeout_us) {
  if (is_done(job)) return true;
  if (timeout_us == 0) return false;
  const Clock::time_point end = Clock::now() + std::chrono::microseconds(timeout_us);
  for (int i = 0; i < kSpins; ++i) {
    if (is_done(job)) return true;
    relax();
  }
  if (timeout_us == LLMC_DEVICE_NO_LIMIT)
    for (std::uint64_t seen; (seen = done_.load(std::memory_order_acquire)) < job;)
      done_.wait(seen, std::memory_order_acquire);
  while (!is_done(job)) {
    if (Clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return true;
}

void JobThread::work() {
  for (std::uint64_t next = 1;; ++next) {
    for (int i = 0; i < kSpins && submitted_.load(std::memory_order_acquire) < next; ++i) relax();
    while (submitted_.load(std::memory_order_acquire) < next)
      submitted_.wait(next - 1, std::memory_order_acquire);
    if (stop_) return;
    run_(device_, next);
    done_.store(next, std::memory_order_release);
    done_.notify_all();
  }
}

}  // namespace llmc::hosted
