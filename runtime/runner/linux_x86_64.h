#pragma once

/// Linux on x86-64: system calls, program entry and thread entry.
namespace llmc::runner {

enum CallNumber : long {
  kRead = 0,
  kWrite = 1,
  kClose = 3,
  kSeek = 8,
  kMap = 9,
  kUnmap = 11,
  kYield = 24,
  kFutex = 202,
  kExitGroup = 231,
  kOpenAt = 257,
};

inline long system_call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0,
                        long f = 0) {
  long result;
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
}

}  // namespace llmc::runner

#ifdef LLMC_RUNNER_ENTRY
__asm__(R"(
    .globl _start
_start:
    xor %ebp, %ebp
    mov %rsp, %rdi
    and $-16, %rsp
    call llmc_runner_start
    ud2

    # long llmc_runner_clone(long flags, void* stack, void (*entry)(void*), void* argument)
    .globl llmc_runner_clone
llmc_runner_clone:
    sub $16, %rsi
    mov %rdx, (%rsi)
    mov %rcx, 8(%rsi)
    xor %edx, %edx
    xor %r10d, %r10d
    xor %r8d, %r8d
    mov $56, %eax
    syscall
    test %rax, %rax
    jz 1f
    ret
1:  xor %ebp, %ebp
    pop %rax
    pop %rdi
    call *%rax
    mov $60, %eax
    xor %edi, %edi
    syscall
    ud2
)");
#endif
