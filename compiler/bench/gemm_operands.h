#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "compiler/emit/kernel_source.h"
#include "compiler/support/result.h"
#include "compiler/target/target.h"
#include "runtime/hosted/thread_pool.h"

/// Operands of a measured kernel, and the sources that are compiled for it.
namespace llmc::bench {

struct GemmOperands {
  struct Free {
    void operator()(unsigned char* p) const { std::free(p); }
  };
  using Block = std::unique_ptr<unsigned char, Free>;

  Block weights, x, y, work;  // each aligned to 64 bytes; `work`: scratch memory of the kernel
  std::size_t weight_bytes = 0, x_floats = 0, y_floats = 0;

  /// Allocates the operands, and fills weights and x with pseudorandom numbers, which are the same
  /// on every machine. Fails with kOverBudget if memory or threads are not available.
  static Result<GemmOperands> create(const emit::GemmKernel& kernel);

  const float* input() const { return reinterpret_cast<const float*>(x.get()); }
  float* output() const { return reinterpret_cast<float*>(y.get()); }
  /// Overwrites y, so that elements that the kernel does not write are detected.
  void poison_result();
  /// Returns the FNV-1a hash of the bytes of y.
  std::uint64_t hash() const;
};

/// Fails with kOverBudget if the operands exceed 4 GiB or half of this machine's memory.
Status check_memory(const emit::GemmKernel& kernel);

/// Writes `source` as gemm.cpp, and the headers that it includes, to `folder`.
Status write_kernel_sources(const std::filesystem::path& folder, const std::string& source);
/// Replaces the target's tile header in `folder` with `tiles`. The target must have one
/// (LLMC_CHECK).
Status write_tiles(const std::filesystem::path& folder, const target::Target& target,
                   const std::string& tiles);

}  // namespace llmc::bench
