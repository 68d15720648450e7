#pragma once

#include <cstdint>
#include <string>

#include "compiler/target/target.h"
#include "llmc/sizes.h"

/// Sources of single kernels for benchmarks.
namespace llmc::emit {

/// A benchmark kernel that computes y[tokens][rows] = x[tokens][columns] . w[rows][columns]^T, like
/// a linear stage without bias.
struct GemmKernel {
  WeightKind kind = WeightKind::kQ4;
  std::uint64_t rows = 0, columns = 0, tokens = 0;
  std::uint32_t threads = 1;  // maximum number of workers

  std::uint64_t weight_bytes() const {
    return llmc::weight_bytes(kind, packed_rows(rows), columns);
  }
  std::uint64_t work_bytes() const { return linear_work_bytes(kind, columns, 1, tokens, threads); }
};

inline constexpr const char* kGemmFunction = "llmc_gemm";

/// Returns a source that defines `extern "C" void llmc_gemm(const llmc_run* run, const float* x,
/// float* y)` for the kernel's shape. run->count is the number of rows of x, at most `tokens`;
/// run->weights are the packed weights; run->scratch must have work_bytes() bytes. Supported kinds:
/// those of plan/weight_formats.h.
std::string gemm_source(const GemmKernel& kernel, const target::Target& target);

/// Returns the source of the same kernel as the only function of a function runner
/// (runtime/runner/function_runner.cpp). Its inputs are x, the number of kernel executions as
/// uint32_t, and the packed weights. Its output is y. The arena is used as scratch memory. Requires
/// kernel.threads == 1 (LLMC_CHECK).
std::string gemm_runner_source(const GemmKernel& kernel, const target::Target& target);

/// Kinds of multiply-adds in matrix products, by weight type: 4-bit codes, 8-bit codes, floats.
enum class Arithmetic : std::uint32_t { kNibbles, kBytes, kFloats };

inline constexpr const char* kPeakFunction = "llmc_peak";

/// Returns a source that defines `extern "C" uint64_t llmc_peak(uint32_t arithmetic, uint64_t
/// blocks, int32_t* result)`. The function executes the innermost loop of the target's tiles
/// (llmc/peak.h) `blocks` times and returns the number of multiply-adds, or 0 if the CPU lacks a
/// required feature. It writes to `result`, so that the loop is not optimized away.
std::string peak_source(const target::Target& target);

}  // namespace llmc::emit
