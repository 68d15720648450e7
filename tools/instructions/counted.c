/*
 * The program whose instructions are counted: feeds PROMPT fixed token ids to a compiled model,
 * then generates GENERATED tokens greedily, on one thread. Without a C library, so that nothing
 * else runs, for x86-64, arm64 and LoongArch Linux.
 *
 *     counted PROMPT GENERATED        prints the last id; exit code 1 with a status on failure
 */
#include MODEL_HEADER

#define JOIN_INNER(a, b) a##b
#define JOIN(a, b) JOIN_INNER(a, b)
#define MODEL(part) JOIN(MODEL_MACRO, part)

static unsigned char arena[MODEL(_ARENA_BYTES)] __attribute__((aligned(LLMC_ALIGNMENT)));

/* clang turns these into loops over vectors. */
void* memcpy(void* restrict to, const void* restrict from, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) ((char*)to)[i] = ((const char*)from)[i];
  return to;
}
void* memset(void* to, int value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) ((char*)to)[i] = (char)value;
  return to;
}
void* memmove(void* to, const void* from, size_t bytes) {
  if ((uintptr_t)to - (uintptr_t)from >= bytes) return memcpy(to, from, bytes);
  for (size_t i = bytes; i-- > 0;) ((char*)to)[i] = ((const char*)from)[i];
  return to;
}
int memcmp(const void* a, const void* b, size_t bytes) {
  const unsigned char *x = a, *y = b;
  for (size_t i = 0; i < bytes; ++i) {
    if (x[i] != y[i]) return x[i] < y[i] ? -1 : 1;
  }
  return 0;
}

#if defined(__x86_64__)
enum { kWrite = 1, kExitGroup = 231 };
#else
enum { kWrite = 64, kExitGroup = 94 };
#endif

static long system_call(long number, long a, long b, long c) {
#if defined(__x86_64__)
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c)
                   : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
  return x0;
#elif defined(__loongarch64)
  register long a7 __asm__("$a7") = number;
  register long a0 __asm__("$a0") = a;
  register long a1 __asm__("$a1") = b;
  register long a2 __asm__("$a2") = c;
  __asm__ volatile("syscall 0"
                   : "+r"(a0)
                   : "r"(a7), "r"(a1), "r"(a2)
                   : "$t0", "$t1", "$t2", "$t3", "$t4", "$t5", "$t6", "$t7", "$t8", "memory");
  return a0;
#endif
}

static void print_and_leave(int file, long number, int code) {
  char text[24];
  size_t start = sizeof text;
  text[--start] = '\n';
  do {
    text[--start] = (char)('0' + number % 10);
    number /= 10;
  } while (number > 0);
  system_call(kWrite, file, (long)(text + start), (long)(sizeof text - start));
  for (;;) system_call(kExitGroup, code, 0, 0);
}

static void check(llmc_status status) {
  if (status != LLMC_OK) print_and_leave(2, (long)status, 1);
}

static size_t number(const char* text) {
  size_t value = 0;
  for (; *text >= '0' && *text <= '9' && value <= MODEL(_CTX); ++text) {
    value = value * 10 + (size_t)(*text - '0');
  }
  return value;
}

/* The stack as the kernel leaves it: argc, then the arguments' addresses. */
__attribute__((used)) void start(const long* stack) {
  static int32_t prompt[MODEL(_CTX)];
  const char* const* argv = (const char* const*)(stack + 1);
  llmc_session* session;
  int32_t token = 0;
  if (stack[0] != 3) print_and_leave(2, 0, 2);
  const size_t count = number(argv[1]), generated = number(argv[2]);
  if (count == 0 || count + generated > MODEL(_CTX)) print_and_leave(2, 0, 2);
  for (size_t i = 0; i < count; ++i) prompt[i] = (int32_t)((i * 97 + 1) % MODEL(_VOCAB));
  check(JOIN(MODEL_PREFIX, _init)(&session, arena, sizeof arena, NULL));
  check(llmc_prefill(session, prompt, count, NULL));
  for (size_t i = 0; i < generated; ++i) {
    check(llmc_sample(session, &token));
    check(llmc_append(session, token));
  }
  print_and_leave(1, token, 0);
}

#if defined(__x86_64__)
__asm__(".globl _start\n_start:\n  mov %rsp, %rdi\n  and $-16, %rsp\n  call start\n");
#elif defined(__aarch64__)
__asm__(".globl _start\n_start:\n  mov x0, sp\n  and sp, x0, #-16\n  bl start\n");
#elif defined(__loongarch64)
__asm__(".globl _start\n_start:\n  move $a0, $sp\n  bstrins.d $sp, $zero, 3, 0\n  bl start\n");
#endif
