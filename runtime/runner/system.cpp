#include "system.h"

#define LLMC_RUNNER_ENTRY
#if defined(__x86_64__)
#include "linux_x86_64.h"
#elif defined(__aarch64__)
#include "linux_aarch64.h"
#elif defined(__loongarch64)
#include "linux_loongarch64.h"
#else
#error "a runner needs system calls and a first instruction for this architecture"
#endif

namespace llmc::runner {
namespace {

constexpr uint64_t kStackBytes = uint64_t{8} << 20;  // as large as that of a process's main thread
constexpr long kInterrupted = -4;                    // EINTR
constexpr long kMaxTransfer = 1l << 30;
constexpr int kInput = 0, kOutput = 1;

const unsigned long* auxiliary_vector = nullptr;

bool failed(long result) {
  return result < 0 && result > -4096;
}

/// Calls mmap. PROT_READ is 1, PROT_WRITE 2, MAP_PRIVATE 2, MAP_ANONYMOUS 32, MAP_NORESERVE 0x4000.
void* map(uint64_t bytes, int protection, int flags, int file) {
  const long result = system_call(kMap, 0, static_cast<long>(bytes), protection, flags, file, 0);
  return failed(result) ? nullptr : reinterpret_cast<void*>(result);
}

extern "C" long llmc_runner_clone(long flags, void* stack, void (*entry)(void*), void* argument);

}  // namespace

void exit_program(int code) {
  for (;;) system_call(kExitGroup, code);
}

bool read_all(void* data, uint64_t bytes) {
  auto* to = static_cast<unsigned char*>(data);
  while (bytes > 0) {
    const uint64_t most = bytes < kMaxTransfer ? bytes : kMaxTransfer;
    const long got =
        system_call(kRead, kInput, reinterpret_cast<long>(to), static_cast<long>(most));
    if (got == kInterrupted) continue;
    if (got <= 0) return false;
    to += got;
    bytes -= static_cast<uint64_t>(got);
  }
  return true;
}

bool write_all(const void* data, uint64_t bytes) {
  const auto* from = static_cast<const unsigned char*>(data);
  while (bytes > 0) {
    const uint64_t most = bytes < kMaxTransfer ? bytes : kMaxTransfer;
    const long put =
        system_call(kWrite, kOutput, reinterpret_cast<long>(from), static_cast<long>(most));
    if (put == kInterrupted) continue;
    if (put <= 0) return false;
    from += put;
    bytes -= static_cast<uint64_t>(put);
  }
  return true;
}

void* allocate(uint64_t bytes) {
  return map(bytes > 0 ? bytes : 1, 1 | 2, 2 | 32 | 0x4000, -1);
}

void release(void* memory, uint64_t bytes) {
  system_call(kUnmap, reinterpret_cast<long>(memory), static_cast<long>(bytes > 0 ? bytes : 1));
}

const void* map_file(const char* path, uint64_t* bytes) {
  constexpr long kHere = -100, kReadOnly = 0, kFromEnd = 2;  // AT_FDCWD, O_RDONLY, SEEK_END
  const long file = system_call(kOpenAt, kHere, reinterpret_cast<long>(path), kReadOnly);
  if (failed(file)) return nullptr;
  const long size = system_call(kSeek, file, 0, kFromEnd);
  const void* memory = nullptr;
  if (size > 0) {
    *bytes = static_cast<uint64_t>(size);
    memory = map(*bytes, 1, 2, static_cast<int>(file));
  }
  system_call(kClose, file);
  return memory;
}

bool start_thread(void (*entry)(void*), void* argument) {
  // CLONE_VM, FS, FILES, SIGHAND, THREAD and SYSVSEM: what the threads of pthreads share.
  constexpr long kFlags = 0x100 | 0x200 | 0x400 | 0x800 | 0x10000 | 0x40000;
  void* const stack = allocate(kStackBytes);
  if (stack == nullptr) return false;
  return !failed(
      llmc_runner_clone(kFlags, static_cast<unsigned char*>(stack) + kStackBytes, entry, argument));
}

void wait_while(uint32_t* word, uint32_t value) {
  constexpr long kWaitPrivate = 128;  // FUTEX_WAIT | FUTEX_PRIVATE_FLAG
  system_call(kFutex, reinterpret_cast<long>(word), kWaitPrivate, value);
}

void wake_all(uint32_t* word) {
  constexpr long kWakePrivate = 129;  // FUTEX_WAKE | FUTEX_PRIVATE_FLAG
  system_call(kFutex, reinterpret_cast<long>(word), kWakePrivate, INT32_MAX);
}

void yield() {
  system_call(kYield);
}

}  // namespace llmc::runner

extern "C" {

/// Runs the program. `stack` points to argc, the arguments, 0, the environment, 0, and the pairs of
/// the auxiliary vector.
[[noreturn, gnu::used]] void llmc_runner_start(const unsigned long* stack) {
  const unsigned long* at = stack + 1 + *stack + 1;
  while (*at != 0) ++at;
  llmc::runner::auxiliary_vector = at + 1;
  llmc::runner::exit_program(llmc_runner_main());
}

/// Implements the C library's function, with which templates/llmc/cpu.h queries the processor's
/// features.
[[gnu::used]] unsigned long getauxval(unsigned long type) {
  for (const unsigned long* at = llmc::runner::auxiliary_vector; at[0] != 0; at += 2)
    if (at[0] == type) return at[1];
  return 0;
}

// Functions that the compiler may call. They are compiled without builtins, so that they do not
// call themselves.

void* memcpy(void* __restrict to, const void* __restrict from, size_t bytes) {
  auto* t = static_cast<unsigned char*>(to);
  const auto* f = static_cast<const unsigned char*>(from);
  for (; bytes >= sizeof(uint64_t); bytes -= sizeof(uint64_t)) {
    uint64_t word;
    __builtin_memcpy_inline(&word, f, sizeof word);
    __builtin_memcpy_inline(t, &word, sizeof word);
    t += sizeof word;
    f += sizeof word;
  }
  for (; bytes > 0; --bytes) *t++ = *f++;
  return to;
}

void* memset(void* to, int value, size_t bytes) {
  auto* t = static_cast<unsigned char*>(to);
  const uint64_t word = 0x0101010101010101u * static_cast<unsigned char>(value);
  for (; bytes >= sizeof word; bytes -= sizeof word, t += sizeof word)
    __builtin_memcpy_inline(t, &word, sizeof word);
  for (; bytes > 0; --bytes) *t++ = static_cast<unsigned char>(value);
  return to;
}

void* memmove(void* to, const void* from, size_t bytes) {
  auto* t = static_cast<unsigned char*>(to);
  const auto* f = static_cast<const unsigned char*>(from);
  // Copies byte by byte, in the direction in which no byte is overwritten before it is read.
  if (reinterpret_cast<uintptr_t>(t) <= reinterpret_cast<uintptr_t>(f)) {
    for (; bytes > 0; --bytes) *t++ = *f++;
  } else {
    while (bytes-- > 0) t[bytes] = f[bytes];
  }
  return to;
}

int memcmp(const void* a, const void* b, size_t bytes) {
  const auto* x = static_cast<const unsigned char*>(a);
  const auto* y = static_cast<const unsigned char*>(b);
  for (size_t i = 0; i < bytes; ++i)
    if (x[i] != y[i]) return x[i] < y[i] ? -1 : 1;
  return 0;
}

}  // extern "C"
