#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/plan/plan.h"
#include "compiler/target/device.h"

/// Simulation of the time that a prompt takes on the CPU and an accelerator.
namespace llmc::plan {

/// The rates of the CPU, per nanosecond.
struct CpuRates {
  double multiply_adds = target::kCpuMultiplyAddsPerNs;  // of matrix products
  double attention = 12;                                 // multiply-adds of attention in floats
  double bytes = 8;                                      // of rows that stages read and write
};

/// Execution of one step of a chunk by the CPU, or of successive regions by the device as one job.
/// Times are in nanoseconds.
struct Span {
  std::uint32_t chunk = 0, first_step = 0, end_step = 0;
  bool on_device = false;
  double begin = 0, end = 0;
};

struct Schedule {
  std::uint32_t tokens = 0, chunk = 0, chunks = 0;
  std::vector<Span> spans;                // those of each side are ordered by `begin`
  double total = 0, cpu = 0, device = 0;  // end of the prompt; busy times (sums of the spans)
  /// Total if the busier of CPU and device never waited between its first and its last span.
  double bound = 0;
  double cpu_alone = 0;  // total if the CPU computed all steps
  /// Multiply-adds of attention in all layers, windows ignored. `attention_whole`: each of the S
  /// tokens attends to all S tokens (4 S² D H operations). `attention_chunks`: each token attends
  /// to the tokens up to the end of its chunk (2 S² D H + 2 C S D H operations).
  double attention_whole = 0, attention_chunks = 0;
};

/// Simulates the runtime's schedule (runtime/core/pipeline.cpp) of a prompt of `tokens` tokens with
/// the declared costs of the plan's device. Requires a plan with a partition.
Schedule simulate(const Plan& plan, std::uint32_t tokens, const CpuRates& rates = {});

/// Draws the schedule as text: one line for the CPU and one for the device. Each of the `columns`
/// columns shows the digit (0-9a-z, repeated) of the chunk that takes most of its time, ':' if more
/// than half of the time is idle, or '.' if more than 95 % is.
std::string timeline_text(const Schedule& schedule, std::size_t columns = 96);
/// Draws the schedule as an SVG file.
std::string timeline_svg(const Schedule& schedule);

}  // namespace llmc::plan
