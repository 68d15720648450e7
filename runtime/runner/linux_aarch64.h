#pragma once

#include "linux_generic_numbers.h"

/// Linux on AArch64: system calls, program entry and thread entry.
namespace llmc::runner {

inline long system_call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0,
                        long f = 0) {
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  register long x4 __asm__("x4") = e;
  register long x5 __asm__("x5") = f;
  __asm__ volatile("svc #0"
                   : "+r"(x0)
                   : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                   : "memory");
  return x0;
}

}  // namespace llmc::runner

#ifdef LLMC_RUNNER_ENTRY
__asm__(R"(
    .globl _start
_start:
    mov x29, #0
    mov x30, #0
    mov x0, sp
    and sp, x0, #-16
    bl llmc_runner_start
    brk #1

    // long llmc_runner_clone(long flags, void* stack, void (*entry)(void*), void* argument)
    .globl llmc_runner_clone
llmc_runner_clone:
    stp x2, x3, [x1, #-16]!
    mov x2, #0
    mov x3, #0
    mov x4, #0
    mov x8, #220
    svc #0
    cbz x0, 1f
    ret
1:  mov x29, #0
    mov x30, #0
    ldp x2, x0, [sp], #16
    blr x2
    mov x0, #0
    mov x8, #93
    svc #0
    brk #1
)");
#endif
