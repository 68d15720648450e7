#include "workers.h"

#include "system.h"

namespace llmc::runner {
namespace {

/// Waits until *word differs from `value` and returns it: spins for a while, then sleeps.
uint32_t wait_for_change(uint32_t* word, uint32_t value) {
  constexpr int kSpins = 64;
  for (int i = 0;; ++i) {
    const uint32_t now = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    if (now != value) return now;
    if (i < kSpins) {
      yield();
    } else {
      wait_while(word, value);
    }
  }
}

}  // namespace

bool Workers::start(uint32_t threads) {
  threads_ = threads;
  if (threads <= 1) return true;
  auto* const all = static_cast<Thread*>(allocate(threads * sizeof(Thread)));
  if (all == nullptr) return false;
  for (uint32_t i = 1; i < threads; ++i) {
    all[i] = {this, i};
    if (!start_thread(work, &all[i])) return false;
  }
  return true;
}

void Workers::run_items_of(uint32_t index) {
  for (uint32_t i = index; i < n_; i += threads_) fn_(arg_, i);
}

void Workers::work(void* thread) {
  const Thread& self = *static_cast<Thread*>(thread);
  Workers& workers = *self.workers;
  for (uint32_t seen = 0;;) {
    seen = wait_for_change(&workers.job_, seen);
    workers.run_items_of(self.index);
    if (__atomic_sub_fetch(&workers.running_, 1, __ATOMIC_ACQ_REL) == 0)
      wake_all(&workers.running_);
  }
}

void Workers::run(void* self, void (*fn)(void*, uint32_t), void* arg, uint32_t n) {
  Workers& workers = *static_cast<Workers*>(self);
  workers.fn_ = fn;
  workers.arg_ = arg;
  workers.n_ = n;
  if (workers.threads_ == 1 || n <= 1) {
    for (uint32_t i = 0; i < n; ++i) fn(arg, i);
    return;
  }
  __atomic_store_n(&workers.running_, workers.threads_ - 1, __ATOMIC_RELAXED);
  __atomic_add_fetch(&workers.job_, 1, __ATOMIC_RELEASE);
  wake_all(&workers.job_);
  workers.run_items_of(0);
  for (uint32_t left = workers.threads_ - 1; left != 0;) {
    left = __atomic_load_n(&workers.running_, __ATOMIC_ACQUIRE);
    if (left != 0) left = wait_for_change(&workers.running_, left);
  }
}

}  // namespace llmc::runner
