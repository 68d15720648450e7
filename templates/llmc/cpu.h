#pragma once

#include <stdint.h>

/// Functions that check whether the CPU has the features that the code was compiled for.
/// Freestanding: no library is needed. x86-64 queries CPUID. arm64 and LoongArch call getauxval()
/// if the program has a C library; without one, LoongArch reads CPUCFG. The functions are static,
/// because every object must use the copy that was compiled with its own flags.
namespace llmc {

static inline int cpu_has_baseline() {
  return 1;
}

#if defined(__x86_64__)
struct CpuidLeaf {
  uint32_t a, b, c, d;
};
static inline CpuidLeaf cpuid_leaf(uint32_t leaf, uint32_t subleaf) {
  CpuidLeaf r;
  __asm__("cpuid" : "=a"(r.a), "=b"(r.b), "=c"(r.c), "=d"(r.d) : "a"(leaf), "c"(subleaf));
  return r;
}
static inline uint32_t enabled_states() {
  uint32_t low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

/// Returns 1 if the CPU has AVX2, FMA and F16C and the operating system saves the AVX registers.
static inline int cpu_has_avx2() {
  constexpr uint32_t kFma = 1u << 12, kOsXsave = 1u << 27, kAvx = 1u << 28, kF16c = 1u << 29;
  constexpr uint32_t kAvx2 = 1u << 5, kSseAndAvxState = 6;
  if (cpuid_leaf(0, 0).a < 7) return 0;
  constexpr uint32_t kLeaf1 = kFma | kOsXsave | kAvx | kF16c;
  if ((cpuid_leaf(1, 0).c & kLeaf1) != kLeaf1) return 0;
  if ((enabled_states() & kSseAndAvxState) != kSseAndAvxState) return 0;
  return (cpuid_leaf(7, 0).b & kAvx2) != 0;
}

/// Returns 1 if the CPU has the features of cpu_has_avx2() and AVX-VNNI (dot products of 8-bit
/// integers in 256-bit registers).
static inline int cpu_has_avxvnni() {
  constexpr uint32_t kAvxVnni = 1u << 4;
  if (!cpu_has_avx2() || cpuid_leaf(7, 0).a < 1) return 0;
  return (cpuid_leaf(7, 1).a & kAvxVnni) != 0;
}

/// Returns 1 if the CPU has the features of cpu_has_avx2() and AVX-512 F, DQ, BW, VL and VNNI, and
/// the operating system saves the AVX-512 registers.
static inline int cpu_has_avx512() {
  constexpr uint32_t kFoundation = 1u << 16, kDq = 1u << 17, kBw = 1u << 30, kVl = 1u << 31;
  constexpr uint32_t kVnni = 1u << 11, kMaskAndZmmState = 7u << 5;
  if (!cpu_has_avx2() || (enabled_states() & kMaskAndZmmState) != kMaskAndZmmState) return 0;
  constexpr uint32_t kLeaf7 = kFoundation | kDq | kBw | kVl;
  const CpuidLeaf leaf = cpuid_leaf(7, 0);
  return (leaf.b & kLeaf7) == kLeaf7 && (leaf.c & kVnni) != 0;
}

/// Requests permission to use AMX tiles, and returns whether it was granted. Linux grants it once
/// for all threads of the process, including existing ones. It then saves 8 KB more for each thread
/// that uses tiles. Linux refuses if an alternate signal stack is too small for this state. Other
/// systems are not asked: returns true.
static inline bool amx_is_permitted() {
#if defined(__linux__)
  constexpr long kArchPrctl = 158, kRequestPermission = 0x1023, kTileData = 18;
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(kArchPrctl), "D"(kRequestPermission), "S"(kTileData)
                   : "rcx", "r11", "memory");
  return result == 0;
#else
  return true;
#endif
}

/// Returns 1 if the CPU has the features of cpu_has_avx512(), AMX-TILE and AMX-INT8, with the tile
/// state enabled and permitted.
static inline int cpu_has_amx() {
  constexpr uint32_t kTile = 1u << 24, kInt8 = 1u << 25, kTileStates = 3u << 17;
  if (!cpu_has_avx512() || (enabled_states() & kTileStates) != kTileStates) return 0;
  if ((cpuid_leaf(7, 0).d & (kTile | kInt8)) != (kTile | kInt8)) return 0;
  return amx_is_permitted();
}
#endif

#if defined(__aarch64__) || defined(__loongarch64)
/// Function of the C library; null if the program has none. For AT_HWCAP and AT_HWCAP2, returns the
/// features that the operating system reports as present and enabled.
extern "C" __attribute__((weak)) unsigned long getauxval(unsigned long type);
/// Returns whether all `bits` of entry `type` of the auxiliary vector are set. Returns `without` if
/// there is no C library, as in firmware.
static inline bool has_hwcaps(unsigned long type, unsigned long bits, bool without) {
  auto ask = &getauxval;
  // Call through a register. A direct branch to an undefined weak function, at address 0, may be
  // out of range, and LoongArch linkers reject it.
  __asm__("" : "+r"(ask));
  return ask == nullptr ? without : (ask(type) & bits) == bits;
}
inline constexpr unsigned long kHwcap = 16, kHwcap2 = 26;  // AT_HWCAP, AT_HWCAP2
#endif

#if defined(__aarch64__)
/// Returns 1 if the CPU has dot products and the other features that -march=armv8.2-a lets the
/// compiler use: HWCAP_ATOMICS, HWCAP_ASIMDRDM, HWCAP_ASIMDDP. Without a C library the check
/// passes, because the ID registers cannot be read at EL0.
static inline int cpu_has_arm64_dotprod() {
  return has_hwcaps(kHwcap, 1ul << 8 | 1ul << 12 | 1ul << 20, true);
}
static inline int cpu_has_arm64_i8mm() {
  return cpu_has_arm64_dotprod() && has_hwcaps(kHwcap2, 1ul << 13, true);  // HWCAP2_I8MM
}
#elif defined(__loongarch64)
static inline uint32_t cpucfg(uint32_t word) {
  uint32_t value;
  __asm__("cpucfg %0, %1" : "=r"(value) : "r"(word));
  return value;
}
/// Returns 1 if the CPU has LASX and unaligned access. Checks HWCAP_LOONGARCH_LASX and
/// HWCAP_LOONGARCH_UAL, or without a C library the CPUCFG registers, which every program may read.
static inline int cpu_has_lasx() {
  const bool processor = (cpucfg(1) >> 20 & 1) != 0 && (cpucfg(2) >> 7 & 1) != 0;
  return has_hwcaps(kHwcap, 1ul << 2 | 1ul << 5, processor);
}
#endif

}  // namespace llmc
