#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/plan/plan.h"
#include "compiler/target/device.h"

/// The time that a prompt takes on the CPU and an accelerator, on a virtual clock.
namespace llmc::plan {

/// The rates of the CPU, per nanosecond.
struct CpuRates {
  double multiply_adds = target::kCpuMultiplyAddsPerNs;  // of matrix products
  double attention = 12;                                 // multiply-adds of attention in floats
  double bytes = 8;                                      // read and written by the other stages
};

/// A step of a chunk, or successive regions that the device gets as one job. Times are in
/// nanoseconds.
struct Span {
  std::uint32_t chunk = 0, first_step = 0, end_step = 0;
  bool on_device = false;
  double begin = 0, end = 0;
};

struct Schedule {
  std::uint32_t tokens = 0, chunk = 0, chunks = 0;
  std::vector<Span> spans;                // by the time at which they begin, per place
  double total = 0, cpu = 0, device = 0;  // when the prompt is done; sums of spans
  /// The time of the busier place if it never waited between its first and its last span, and what
  /// the other one does before and after.
  double bound = 0;
  double cpu_alone = 0;  // all steps on the CPU
  /// Multiply-adds of attention: to all tokens of the prompt from each (4 S² D H operations), to
  /// those up to the end of each chunk (2 S² D H + 2 C S D H), both for all layers.
  double attention_whole = 0, attention_chunks = 0;
};

/// Follows the runtime's schedule (runtime/core/pipeline.cpp) of a prompt of `tokens` tokens with
/// the declared costs of the plan's device. Requires a plan with a partition.
Schedule simulate(const Plan& plan, std::uint32_t tokens, const CpuRates& rates = {});

/// Draws the schedule in `columns` columns: a line for each place, with a digit for each chunk.
std::string timeline_text(const Schedule& schedule, std::size_t columns = 96);
/// Draws the schedule as an SVG file.
std::string timeline_svg(const Schedule& schedule);

}  // namespace llmc::plan
