/*
 * The same program without a C library, for x86-64 Linux: its own _start, two system calls, and the
 * four functions that a compiled model needs. On a board, replace write_all and leave.
 *
 *     cc -nostdlib -static -ffreestanding -fno-builtin … nostdlib.c libNAME.a
 */
#include "generate.h"

/* Inline assembly instead of a loop, which the compiler may turn into a call of memcpy. */
static void* copy_forward(void* to, const void* from, size_t bytes) {
  void* t = to;
  __asm__ volatile("rep movsb" : "+D"(t), "+S"(from), "+c"(bytes) : : "memory");
  return to;
}

void* memcpy(void* restrict to, const void* restrict from, size_t bytes) {
  return copy_forward(to, from, bytes);
}

void* memmove(void* to, const void* from, size_t bytes) {
  unsigned char* t = to;
  const unsigned char* f = from;
  if ((uintptr_t)to - (uintptr_t)from >= bytes) return copy_forward(to, from, bytes);
  t += bytes - 1; /* overlap with `to` after `from`: copy backwards */
  f += bytes - 1;
  __asm__ volatile("std\n\trep movsb\n\tcld" : "+D"(t), "+S"(f), "+c"(bytes) : : "memory");
  return to;
}

void* memset(void* to, int value, size_t bytes) {
  void* t = to;
  __asm__ volatile("rep stosb" : "+D"(t), "+c"(bytes) : "a"(value) : "memory");
  return to;
}

int memcmp(const void* a, const void* b, size_t bytes) {
  const unsigned char* x = a;
  const unsigned char* y = b;
  for (; bytes > 0; --bytes, ++x, ++y) {
    if (*x != *y) return *x < *y ? -1 : 1;
  }
  return 0;
}

static long system_call(long call, long a, long b, long c) {
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(call), "D"(a), "S"(b), "d"(c)
                   : "rcx", "r11", "memory");
  return result;
}

static void leave(int code) {
  for (;;) system_call(231 /* exit_group */, code, 0, 0);
}

static void write_all(int file, const char* text, size_t bytes) {
  while (bytes > 0) {
    const long written = system_call(1 /* write */, file, (long)text, (long)bytes);
    if (written <= 0) leave(1);
    text += written;
    bytes -= (size_t)written;
  }
}

static void write_text(int file, const char* text) {
  size_t bytes = 0;
  while (text[bytes] != '\0') ++bytes;
  write_all(file, text, bytes);
}

static void print_token(int32_t token) {
  char line[12];
  size_t start = sizeof line;
  line[--start] = '\n';
  do {
    line[--start] = (char)('0' + token % 10);
    token /= 10;
  } while (token > 0);
  write_all(1, line + start, sizeof line - start);
}

/* `stack` is as the kernel set it up: argc, then the addresses of the arguments. */
__attribute__((used)) static void start(const long* stack) {
  static int32_t prompt[MODEL_CTX];
  const long argc = stack[0];
  const char* const* argv = (const char* const*)(stack + 1);
  size_t count = 0;
  long i;
  llmc_status status;
  if (argc < 3 || (size_t)(argc - 2) > MODEL_CTX || number(argv[1]) < 0) {
    write_text(2, "usage: embed COUNT ID...\n");
    leave(2);
  }
  for (i = 2; i < argc; ++i) prompt[count++] = number(argv[i]);
  status = generate(prompt, count, (size_t)number(argv[1]), print_token);
  if (status != LLMC_OK) {
    write_text(2, llmc_status_text(status));
    write_text(2, "\n");
  }
  leave(status == LLMC_OK ? 0 : 1);
}

/* Aligns the stack to 16 bytes, as a call expects. */
__asm__(
    ".text\n"
    ".globl _start\n"
    "_start:\n"
    "  xor %ebp, %ebp\n"
    "  mov %rsp, %rdi\n"
    "  and $-16, %rsp\n"
    "  call start\n"
    "  hlt\n");
