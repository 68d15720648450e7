#pragma once

/// Level 1, the reference, uses generic vectors and computes one result at a time. Level 2 uses the
/// target's vectors and computes one result at a time. Level 3 uses tiles that fill registers and
/// caches. All levels compute the same bits.
#ifndef LLMC_OPT_LEVEL
#define LLMC_OPT_LEVEL 3
#endif
#if LLMC_OPT_LEVEL < 1 || LLMC_OPT_LEVEL > 3
#error "LLMC_OPT_LEVEL is 1, 2 or 3"
#endif

/// One inline namespace per instruction set and level, so that objects built for different targets
/// can be linked into one program without sharing inline functions. A build may set another name
/// (-DLLMC_ISA=x) to separate two emitted libraries.
#ifndef LLMC_ISA
#if LLMC_OPT_LEVEL == 1
#define LLMC_ISA reference
#elif defined(LLMC_TARGET_AVX2)
#define LLMC_ISA LLMC_AT_LEVEL(avx2)
#elif defined(LLMC_TARGET_AVXVNNI)
#define LLMC_ISA LLMC_AT_LEVEL(avxvnni)
#elif defined(LLMC_TARGET_AMX)
#define LLMC_ISA LLMC_AT_LEVEL(amx)
#elif defined(LLMC_TARGET_AVX512)
#define LLMC_ISA LLMC_AT_LEVEL(avx512)
#elif defined(LLMC_TARGET_ARM64_I8MM)
#define LLMC_ISA LLMC_AT_LEVEL(arm64_i8mm)
#elif defined(LLMC_TARGET_ARM64)
#define LLMC_ISA LLMC_AT_LEVEL(arm64)
#elif defined(LLMC_TARGET_LASX)
#define LLMC_ISA LLMC_AT_LEVEL(lasx)
#else
#define LLMC_ISA LLMC_AT_LEVEL(generic)
#endif
#if LLMC_OPT_LEVEL == 2
#define LLMC_AT_LEVEL(isa) isa##_simd
#else
#define LLMC_AT_LEVEL(isa) isa
#endif
#endif

/// Forces inlining, of a lambda with LLMC_INLINE_LAMBDA after its parameters. Not at -O0: there it
/// gains nothing, and compiling takes up to four times as long.
#ifdef __OPTIMIZE__
#define LLMC_INLINE inline __attribute__((always_inline))
#define LLMC_INLINE_LAMBDA __attribute__((always_inline))
#else
#define LLMC_INLINE inline
#define LLMC_INLINE_LAMBDA
#endif
#define LLMC_NOINLINE __attribute__((noinline))
