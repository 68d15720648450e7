#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "compiler/evaluate/perplexity.h"

/// Comparison of weight and cache formats by size, speed and quality.
namespace llmc::evaluate {

/// A combination of weight and cache formats.
struct Mode {
  passes::QuantScheme quant = passes::kQ4Mixed;
  std::uint64_t fit = 0;      // if > 0, in place of `quant`: maximum bytes of weights (--fit)
  std::string fit_text = {};  // `fit` as it was given, such as "12MiB"
  double max_kl = 0;  // if > 0, in place of `quant`: maximum KL divergence in nats (--max-kl)
  KvFormats kv = {};
  bool has_budget() const { return fit > 0 || max_kl > 0; }
  /// Returns, for example, "q4m", "fit 12MiB" or "max-kl 0.02".
  std::string weights_text() const;
  /// Ignores fit_text: 1MiB and 1048576B are one budget.
  bool operator==(const Mode& other) const {
    return std::tie(quant, fit, max_kl, kv) ==
           std::tie(other.quant, other.fit, other.max_kl, other.kv);
  }
};

struct CompareOptions {
  exec::NativeOptions native;  // quant and kv are ignored; `modes` gives them
  std::uint32_t threads = 1;
  MeasuredText text;
  std::vector<Mode> modes;
  driver::CalibrationText budget_text;  // on which formats for budgets are measured
  std::uint32_t steps = 64;  // number of greedy decode steps; their median time is reported
};

/// The result for one mode.
struct CompareRow {
  Mode mode;
  std::uint64_t weight_bytes = 0;  // all packed weights
  /// Weights read by one decode step, with one row of the embedding.
  std::uint64_t weight_bytes_per_token = 0;
  std::uint64_t cache_bytes_per_token = 0;
  PerplexityReport quality;  // includes the divergence from f32 weights and an f32 cache
  double step_seconds = 0;   // median time of a decode step
  std::uint32_t depth = 0;   // tokens in the cache before the first step
};

struct Comparison {
  std::vector<CompareRow> rows;
  std::uint64_t weights_per_token = 0;  // number of weights that a decode step reads

  /// Returns the mean number of bits per weight if a decode step reads `bytes` bytes of weights; 0
  /// if it reads no weights.
  double bits_per_weight(std::uint64_t bytes) const;
};

/// Measures each mode, and compares it with the same model with f32 weights and an f32 cache, which
/// stays loaded. The decode steps follow the first half of the first window. After each mode, calls
/// `row_done` with all rows so far; if that returns an error, the measurement ends with it.
/// Requires at least one mode and one step. Fails like measure_perplexity(), and with kUsage if the
/// steps exceed the context.
Result<Comparison> compare_modes(const CompareOptions& options,
                                 const driver::Progress& progress = {},
                                 const std::function<Status(const Comparison&)>& row_done = {});

}  // namespace llmc::evaluate
