#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/driver/source.h"
#include "compiler/evaluate/output_difference.h"
#include "compiler/plan/rounding.h"
#include "compiler/support/result.h"

/// Compares native code of a plain graph with the interpreter, which runs the imported graph.
namespace llmc::evaluate {

struct VerifyPlainOptions {
  driver::CompileOptions compile;  // model, target, dims, quant, cc, cflags
  std::string emulator = {};       // as for find_emulator()
  /// Number of threads of a second run, which must give the same bits. 1: no second run. Ignored
  /// under an emulator.
  std::uint32_t threads = 1;
};

/// Returns a hash of the bits of all outputs, 16 hexadecimal digits.
std::string hash_of(const std::vector<ir::ConstantPtr>& outputs);

struct VerifyPlainReport {
  std::vector<VerifiedOutput> outputs;
  double relative_error_allowed = 0;  // 0: each element must be within its tolerance
  plan::Rounding rounding;
  /// Hash of the bits of all outputs, 16 hexadecimal digits; the same for all targets and threads.
  std::string hash;
  std::uint32_t threads = 1;
  bool same_bits = true;  // whether both runs gave the same bits
  std::string emulator;

  bool ok() const;
};

/// Compiles the graph of `source`, the result of read_source(options.compile), and runs it on
/// pseudorandom inputs (exec/random_inputs.h). Differences are results, not errors. Fails like
/// compile_model().
Result<VerifyPlainReport> verify_plain(const VerifyPlainOptions& options, driver::Source source,
                                       const driver::Progress& progress = {});

}  // namespace llmc::evaluate
