#pragma once

/// 1: reference, generic vectors and one result at a time; 2: the target's vectors, still one
/// result at a time; 3: tiles that fill registers and caches. The bits are the same.
#ifndef LLMC_OPT_LEVEL
#define LLMC_OPT_LEVEL 3
#endif
#if LLMC_OPT_LEVEL < 1 || LLMC_OPT_LEVEL > 3
#error "LLMC_OPT_LEVEL is 1, 2 or 3"
#endif

/// One inline namespace per instruction set and level, so that objects built for different targets
/// can be linked into one program without sharing inline functions. A build may set its own name
/// (-DLLMC_ISA=x) to separate two emitted libraries as well.
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

#define LLMC_INLINE inline __attribute__((always_inline))
/// Used after the parameters of a lambda.
#define LLMC_INLINE_LAMBDA __attribute__((always_inline))
#define LLMC_NOINLINE __attribute__((noinline))
