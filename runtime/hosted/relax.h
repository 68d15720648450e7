#pragma once

namespace llmc::hosted {

/// Tells the processor that this thread is in a spin loop.
inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace llmc::hosted
