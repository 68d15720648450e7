#pragma once

/// Optimization level. Level 1, the reference, uses generic vectors without tiling. Level 2 uses
/// the target's vectors without tiling. Level 3 adds tiles that fill registers and caches. All
/// levels compute the same bits.
#ifndef LLMC_OPT_LEVEL
#define LLMC_OPT_LEVEL 3
#endif
#if LLMC_OPT_LEVEL < 1 || LLMC_OPT_LEVEL > 3
#error "LLMC_OPT_LEVEL is 1, 2 or 3"
#endif

/// The target, which is also the name of its header in llmc/simd/.
#ifndef LLMC_TARGET
#define LLMC_TARGET generic
#endif

/// One inline namespace per target and level, so that objects built for different targets can be
/// linked into one program without sharing inline functions. A build may set another name
/// (-DLLMC_ISA=x) to separate two emitted libraries.
#ifndef LLMC_ISA
#if LLMC_OPT_LEVEL == 1
#define LLMC_ISA reference
#elif LLMC_OPT_LEVEL == 2
#define LLMC_SIMD_NAME(target) target##_simd
#define LLMC_SIMD_ISA(target) LLMC_SIMD_NAME(target)
#define LLMC_ISA LLMC_SIMD_ISA(LLMC_TARGET)
#else
#define LLMC_ISA LLMC_TARGET
#endif
#endif

/// Force inlining of functions (LLMC_INLINE) and of lambdas (LLMC_INLINE_LAMBDA, which stands after
/// the parameters). At -O0 they do not, because that would gain nothing and make compilation up to
/// four times as slow.
#ifdef __OPTIMIZE__
#define LLMC_INLINE inline __attribute__((always_inline))
#define LLMC_INLINE_LAMBDA __attribute__((always_inline))
#else
#define LLMC_INLINE inline
#define LLMC_INLINE_LAMBDA
#endif
#define LLMC_NOINLINE __attribute__((noinline))
