#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "compiler/bench/loaded_source.h"
#include "compiler/emit/kernel_source.h"

namespace llmc::bench {

/// Returns the kind of arithmetic that products with a matrix of this format use. `format`:
/// PackedWeight::format_name().
emit::Arithmetic arithmetic_of(std::string_view format);

/// Measures the peak throughput, on this machine, of the multiply-adds that a target's products
/// use.
class Peak {
 public:
  /// Compiles and loads the measured loops. Fails with kToolchain.
  static Result<std::unique_ptr<Peak>> compile(const driver::Toolchain& toolchain,
                                               const target::Target& target,
                                               const std::vector<std::string>& cflags);

  /// Returns `samples` measurements in multiply-adds per second, each the sum over `threads`
  /// parallel threads. The time is the CPU time of each thread, which excludes preemption. Returns
  /// a single 0 if the CPU lacks a feature.
  std::vector<double> measure(emit::Arithmetic arithmetic, std::uint32_t threads,
                              std::uint32_t samples) const;

 private:
  explicit Peak(std::unique_ptr<LoadedSource> source) : source_(std::move(source)) {}

  std::unique_ptr<LoadedSource> source_;
};

}  // namespace llmc::bench
