#include "compiler/exec/stage_clock.h"

#include <dlfcn.h>

#include <algorithm>

namespace llmc::exec {

void StageClock::start() {
  std::ranges::fill(seconds_, 0);
  last_ = std::chrono::steady_clock::now();
}

std::vector<double> StageClock::stop() {
  add(seconds_.size() - 1);
  return seconds_;
}

void StageClock::end(void* clock, std::uint32_t stage) {
  static_cast<StageClock*>(clock)->add(stage);
}

void StageClock::add(std::size_t stage) {
  const auto now = std::chrono::steady_clock::now();
  seconds_[std::min(stage, seconds_.size() - 1)] +=
      std::chrono::duration<double>(now - last_).count();
  last_ = now;
}

bool set_stage_hook(void* library, StageHook hook) {
  void* const address = ::dlsym(library, "llmc_stage_hook");
  if (address != nullptr) *static_cast<StageHook*>(address) = hook;
  return address != nullptr;
}

}  // namespace llmc::exec
