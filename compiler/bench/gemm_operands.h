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

/// What a kernel that is measured reads and writes.
namespace llmc::bench {

struct GemmOperands {
  struct Free {
    void operator()(unsigned char* p) const { std::free(p); }
  };
  using Block = std::unique_ptr<unsigned char, Free>;

  Block weights, x, y, work;  // each at a multiple of 64
  std::size_t weight_bytes = 0, x_floats = 0, y_floats = 0;

  /// Weights and x full of numbers that are the same everywhere. kOverBudget without memory.
  static Result<GemmOperands> create(const emit::GemmKernel& kernel);

  const float* input() const { return reinterpret_cast<const float*>(x.get()); }
  float* output() const { return reinterpret_cast<float*>(y.get()); }
  /// What no kernel writes must not look right by chance.
  void forget_result();
  std::uint64_t hash() const;
};

/// kOverBudget when the operands are more than 4 GiB or half of this machine's memory.
Status check_memory(const emit::GemmKernel& kernel);

/// `source` as gemm.cpp and the headers it includes, below `folder`.
Status write_kernel_sources(const std::filesystem::path& folder, const std::string& source);
/// Then: `tiles` in the place of the target's tile header among them.
Status write_tiles(const std::filesystem::path& folder, const target::Target& target,
                   const std::string& tiles);

}  // namespace llmc::bench
