#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/driver/source.h"
#include "compiler/evaluate/test_onnx.h"
#include "compiler/plan/rounding.h"
#include "compiler/support/result.h"

/// Native code of a plain graph against the reference interpreter running the graph as imported.
namespace llmc::evaluate {

struct VerifyPlainOptions {
  driver::CompileOptions compile;  // model, target, dims, quant, cc, cflags
  std::string emulator = {};       // as for find_emulator
  std::uint32_t threads = 1;  // of a second run, whose bits must be the same; under an emulator 1
};

struct VerifyPlainReport {
  struct Output {
    OutputDifference largest;  // by the tolerance of floats that are not rounded
    /// Root mean square of the differences, as a share of that of the expected elements.
    double relative_error = 0;
    bool ok = true;
  };
  std::vector<Output> outputs;
  double relative_error_allowed = 0;  // 0: each element must be within its tolerance
  plan::Rounding rounding;
  std::string hash;  // of the bits of all outputs, 16 hex digits: equal for all targets and threads
  std::uint32_t threads = 1;
  bool same_bits = true;  // with that many threads as with one
  std::string emulator;

  bool ok() const;
};

/// Compiles the graph of `source`, what read_source(options.compile) gave, and runs it on made-up
/// inputs (exec/made_up_inputs.h). Errors as compile_model; differences are results.
Result<VerifyPlainReport> verify_plain(const VerifyPlainOptions& options, driver::Source source,
                                       const driver::Progress& progress = {});

}  // namespace llmc::evaluate
