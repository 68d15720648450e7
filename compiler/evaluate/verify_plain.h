#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/driver/source.h"
#include "compiler/evaluate/test_onnx.h"
#include "compiler/plan/rounding.h"
#include "compiler/support/result.h"

/// Compares native code of a plain graph with the interpreter, which runs the imported graph.
namespace llmc::evaluate {

struct VerifyPlainOptions {
  driver::CompileOptions compile;  // model, target, dims, quant, cc, cflags
  std::string emulator = {};       // as for find_emulator
  std::uint32_t threads = 1;  // of a second run, which must be bit-identical; under an emulator 1
};

struct VerifyPlainReport {
  struct Output {
    OutputDifference largest;  // with the tolerance of floats without quantization
    /// Root mean square of the differences, relative to that of the expected elements.
    double relative_error = 0;
    bool ok = true;
  };
  std::vector<Output> outputs;
  double relative_error_allowed = 0;  // 0: each element must be within its tolerance
  plan::Rounding rounding;
  std::string hash;  // of the bits of all outputs, 16 hex digits: equal for all targets and threads
  std::uint32_t threads = 1;
  bool same_bits = true;  // whether both runs are bit-identical
  std::string emulator;

  bool ok() const;
};

/// Compiles the graph of `source`, the result of read_source(options.compile), and runs it on
/// pseudorandom inputs (exec/random_inputs.h). Errors as compile_model; differences are results.
Result<VerifyPlainReport> verify_plain(const VerifyPlainOptions& options, driver::Source source,
                                       const driver::Progress& progress = {});

}  // namespace llmc::evaluate
