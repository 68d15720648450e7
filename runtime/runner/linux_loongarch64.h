#pragma once

#include "linux_generic_numbers.h"

/// Linux on LoongArch: system calls, program entry and thread entry.
namespace llmc::runner {

inline long system_call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0,
                        long f = 0) {
  register long a7 __asm__("$a7") = number;
  register long a0 __asm__("$a0") = a;
  register long a1 __asm__("$a1") = b;
  register long a2 __asm__("$a2") = c;
  register long a3 __asm__("$a3") = d;
  register long a4 __asm__("$a4") = e;
  register long a5 __asm__("$a5") = f;
  __asm__ volatile("syscall 0"
                   : "+r"(a0)
                   : "r"(a7), "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a5)
                   : "$t0", "$t1", "$t2", "$t3", "$t4", "$t5", "$t6", "$t7", "$t8", "memory");
  return a0;
}

}  // namespace llmc::runner

#ifdef LLMC_RUNNER_ENTRY
__asm__(R"(
    .globl _start
_start:
    move $fp, $zero
    move $a0, $sp
    bstrins.d $sp, $zero, 3, 0
    bl llmc_runner_start
    break 0

    # long llmc_runner_clone(long flags, void* stack, void (*entry)(void*), void* argument)
    .globl llmc_runner_clone
llmc_runner_clone:
    addi.d $a1, $a1, -16
    st.d $a2, $a1, 0
    st.d $a3, $a1, 8
    move $a2, $zero
    move $a3, $zero
    move $a4, $zero
    ori $a7, $zero, 220
    syscall 0
    beqz $a0, 1f
    ret
1:  move $fp, $zero
    ld.d $t0, $sp, 0
    ld.d $a0, $sp, 8
    addi.d $sp, $sp, 16
    jirl $ra, $t0, 0
    move $a0, $zero
    ori $a7, $zero, 93
    syscall 0
    break 0
)");
#endif
