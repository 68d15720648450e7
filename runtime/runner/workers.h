#pragma once

#include <stdint.h>

namespace llmc::runner {

/// Threads for llmc_config::parallel_for. Items are assigned to threads round-robin; run() returns
/// after all of them are done. Never destroyed.
class Workers {
 public:
  /// Starts `threads` - 1 threads in addition to the caller's. Returns false if the system cannot
  /// create one.
  bool start(uint32_t threads);
  /// Implements llmc_parallel_for. `self` is a Workers.
  static void run(void* self, void (*fn)(void* arg, uint32_t i), void* arg, uint32_t n);

 private:
  struct Thread {
    Workers* workers;
    uint32_t index;
  };
  static void work(void* thread);
  void run_items_of(uint32_t index);

  uint32_t threads_ = 1;
  // The current job: written before job_ changes, read after it has changed.
  void (*fn_)(void*, uint32_t) = nullptr;
  void* arg_ = nullptr;
  uint32_t n_ = 0;
  alignas(64) uint32_t job_ = 0;  // number of the job; threads sleep until it changes
  /// Number of threads still working on the job; the caller sleeps until it is 0.
  alignas(64) uint32_t running_ = 0;
};

}  // namespace llmc::runner
