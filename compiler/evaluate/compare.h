#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "compiler/evaluate/perplexity.h"

/// Comparison of weight and cache formats by size, speed and quality.
namespace llmc::evaluate {

struct Mode {
  ir::WeightFormat quant = ir::WeightFormat::kQ4;
  KvFormats kv = {};
  bool operator==(const Mode&) const = default;
};

struct CompareOptions {
  exec::NativeOptions native;  // quant and kv are set here
  std::uint32_t threads = 1;
  MeasuredText text;
  std::vector<Mode> modes;
  std::uint32_t steps = 64;  // greedy decode steps, of which the median time is reported
};

struct CompareRow {
  Mode mode;
  std::uint64_t weight_bytes_per_token = 0;  // read by a step (embedding: one row)
  std::uint64_t cache_bytes_per_token = 0;
  PerplexityReport quality;  // with the divergence from f32 weights and an f32 cache
  double step_seconds = 0;   // median
  std::uint32_t depth = 0;   // tokens in the cache before the first step
};

/// Measures the modes one by one against the base, which stays loaded. The steps follow the first
/// half of the first window. Calls `row_done` with each completed row. Errors as
/// measure_perplexity, and kUsage if the steps do not fit the context.
Result<std::vector<CompareRow>> compare_modes(
    const CompareOptions& options, const driver::Progress& progress = {},
    const std::function<void(const CompareRow&)>& row_done = {});

}  // namespace llmc::evaluate
