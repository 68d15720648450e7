#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/bench/bench.h"
#include "compiler/emit/kernel_source.h"
#include "tools/llmc/cli.h"
#include "tools/llmc/table.h"

/// Output of `llmc bench` for models.
namespace llmc::cli {

/// Limits of the machine by number of threads: medians of the samples of this run. Empty if an
/// emulator ran the code.
struct MachineLimits {
  std::map<std::uint32_t, double> read_bytes;  // per second
  /// Peak multiply-adds per second.
  std::map<std::uint32_t, std::map<emit::Arithmetic, double>> macs;
};

struct BenchTables {
  const bench::BenchReport& report;
  const MachineLimits& limits;
  std::string model, quant;  // quant: empty if unknown
  std::uint32_t repetitions = 0;
  bool layers = false;

  Json json() const;
  std::string text(TableFormat format) const;
  /// Returns an explanation of the tables.
  std::string explanation() const;
};

}  // namespace llmc::cli
