#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "compiler/bench/loaded_source.h"
#include "compiler/emit/kernel_source.h"

namespace llmc::bench {

/// What a matrix of that format (PackedWeight::format_name()) is multiplied with.
emit::Arithmetic arithmetic_of(std::string_view format);

/// How fast this machine executes the multiply-adds of a target's products where nothing else
/// stands in the way.
class Peak {
 public:
  static Result<std::unique_ptr<Peak>> compile(const driver::Toolchain& toolchain,
                                               const target::Target& target,
                                               const std::vector<std::string>& cflags);

  /// Multiply-adds per second of `threads` threads that run at the same time, each by its own
  /// clock: what other programs take away does not count. One 0 when the processor lacks a feature.
  std::vector<double> measure(emit::Arithmetic arithmetic, std::uint32_t threads,
                              std::uint32_t samples) const;

 private:
  explicit Peak(std::unique_ptr<LoadedSource> source) : source_(std::move(source)) {}

  std::unique_ptr<LoadedSource> source_;
};

}  // namespace llmc::bench
