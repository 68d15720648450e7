#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "compiler/evaluate/perplexity.h"

/// Formats of weights and cache side by side: what they cost and what they save.
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
  std::uint32_t steps = 64;  // greedy ones, whose median time is taken
};

struct CompareRow {
  Mode mode;
  std::uint64_t weight_bytes_per_token = 0;  // read by a step (embedding: one row)
  std::uint64_t cache_bytes_per_token = 0;
  PerplexityReport quality;  // with the divergence from f32 weights and an f32 cache
  double step_seconds = 0;   // median
  std::uint32_t depth = 0;   // tokens in the cache before the first step
};

/// Measures one mode after the other, each beside the base, which is loaded all the time. Steps
/// follow the first half of the first window. `row_done` is told each row when it is complete.
/// Errors as measure_perplexity, and kUsage when the steps do not fit the context.
Result<std::vector<CompareRow>> compare_modes(
    const CompareOptions& options, const driver::Progress& progress = {},
    const std::function<void(const CompareRow&)>& row_done = {});

}  // namespace llmc::evaluate
