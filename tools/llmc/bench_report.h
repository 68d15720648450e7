#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/bench/bench.h"
#include "compiler/emit/kernel_source.h"
#include "tools/llmc/cli.h"
#include "tools/llmc/table.h"

/// What `llmc bench` prints of a model's tests.
namespace llmc::cli {

/// What the machine can do, by number of threads: medians of the samples of the same run. Empty
/// where an emulator ran the code.
struct MachineLimits {
  std::map<std::uint32_t, double> read_bytes;  // per second
  /// Multiply-adds per second where there is nothing else to do.
  std::map<std::uint32_t, std::map<emit::Arithmetic, double>> macs;
};

struct BenchTables {
  const bench::BenchReport& report;
  const MachineLimits& limits;
  std::string model, quant;  // quant: empty when it is not known
  std::uint32_t repetitions = 0;
  bool layers = false;

  Json json() const;
  std::string text(TableFormat format) const;
  /// How to read the tables.
  std::string explanation() const;
};

}  // namespace llmc::cli
