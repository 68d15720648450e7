#pragma once

/// One inline namespace per instruction set, so that objects built for different targets link into
/// one program without sharing a single inline function. A build may name its own (-DLLMC_ISA=x) to
/// keep two emitted libraries apart as well.
#ifndef LLMC_ISA
#if defined(LLMC_TARGET_AVX2)
#define LLMC_ISA avx2
#elif defined(LLMC_TARGET_ARM64_I8MM)
#define LLMC_ISA arm64_i8mm
#elif defined(LLMC_TARGET_ARM64)
#define LLMC_ISA arm64
#elif defined(LLMC_TARGET_LASX)
#define LLMC_ISA lasx
#else
#define LLMC_ISA generic
#endif
#endif

#define LLMC_INLINE inline __attribute__((always_inline))
/// Behind the parameters of a lambda.
#define LLMC_INLINE_LAMBDA __attribute__((always_inline))
#define LLMC_NOINLINE __attribute__((noinline))
