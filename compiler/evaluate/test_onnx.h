#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "compiler/driver/progress.h"
#include "compiler/evaluate/output_difference.h"
#include "compiler/plan/size.h"
#include "compiler/support/result.h"
#include "compiler/target/target.h"
#include "passes/quant_scheme.h"

/// Tests the native function of a plain graph with ONNX test data (compiler/onnx/test_data.h).
namespace llmc::evaluate {

struct TestOnnxOptions {
  std::filesystem::path model;  // an .onnx file, or the folder of an export
  std::filesystem::path data;   // a test_data_set_N folder, or a folder of such folders
  std::string target = "avx2";
  std::uint32_t opt_level = target::kMaxOptLevel;
  Tolerance tolerance;
  /// Weight formats. If one of them rounds, outputs need not be within the tolerance: their
  /// relative error must be at most that of the coarsest format.
  passes::QuantScheme quant = {};
  std::uint32_t threads = 1;
  std::string optimization = "-O2";
  std::string emulator = {};  // as for find_emulator()
  /// If not empty, the graph is compiled once for these sizes and ranges. They must set every
  /// symbol in the shapes of its inputs and include the sizes of all data sets.
  plan::DimRanges dims = {};
};

struct DataSetResult {
  std::filesystem::path folder;
  std::vector<std::string> bound;  // inputs that became constants because shapes depend on them
  std::uint64_t arena_bytes = 0, weights_bytes = 0;
  double relative_error_allowed = 0;  // 0: each element must be within its tolerance
  std::vector<VerifiedOutput> outputs;

  bool ok() const;
};

/// Compiles the model for each data set's shapes, or once for `options.dims`, and runs it.
/// Differences are results, not errors. Fails with kBadInput (files, data), kUsage (dims),
/// kUnsupported or kToolchain.
Result<std::vector<DataSetResult>> test_onnx(const TestOnnxOptions& options,
                                             const driver::Progress& progress = {});

}  // namespace llmc::evaluate
