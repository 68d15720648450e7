#pragma once

#include <cstdint>
#include <string>

#include "compiler/target/target.h"
#include "llmc/sizes.h"

/// One kernel alone, to be measured.
namespace llmc::emit {

/// y[tokens][rows] = x[tokens][columns] . w[rows][columns]^T, as a linear stage without bias.
struct GemmKernel {
  WeightKind kind = WeightKind::kQ4;
  std::uint64_t rows = 0, columns = 0, tokens = 0;
  std::uint32_t threads = 1;  // most workers

  std::uint64_t weight_bytes() const {
    return llmc::weight_bytes(kind, packed_rows(rows), columns);
  }
  std::uint64_t work_bytes() const { return linear_work_bytes(kind, columns, 1, tokens, threads); }
};

inline constexpr const char* kGemmFunction = "llmc_gemm";

/// A source that defines `extern "C" void llmc_gemm(const llmc_run* run, const float* x, float* y)`
/// for the kernel's shape: run->weights are packed, run->scratch has work_bytes(). Kinds: f32, f16,
/// q8, q6 and q4.
std::string gemm_source(const GemmKernel& kernel, const target::Target& target);

/// The same with the one function of a runner of functions (runtime/runner/function_runner.cpp):
/// its inputs are x, how often to run the kernel as uint32_t, and the weights' file; its output is
/// y, its arena the scratch.
std::string gemm_runner_source(const GemmKernel& kernel, const target::Target& target);

/// The products' multiply-adds by what their weights are: 4-bit codes, 8-bit codes, floats.
enum class Arithmetic : std::uint32_t { kNibbles, kBytes, kFloats };
inline constexpr std::uint32_t kArithmetics = 3;

inline constexpr const char* kPeakFunction = "llmc_peak";

/// A source that defines `extern "C" uint64_t llmc_peak(uint32_t arithmetic, uint64_t blocks,
/// int32_t* result)`: executes the innermost loop of the target's tiles (llmc/peak.h) `blocks`
/// times and returns the multiply-adds; 0 when the processor lacks a feature.
std::string peak_source(const target::Target& target);

}  // namespace llmc::emit
