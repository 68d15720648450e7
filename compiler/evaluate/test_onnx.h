#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "compiler/driver/progress.h"
#include "compiler/ir/constant.h"
#include "compiler/plan/size.h"
#include "compiler/support/result.h"
#include "compiler/target/target.h"

/// Tests the native function of a plain graph with ONNX test data (compiler/onnx/test_data.h).
namespace llmc::evaluate {

/// Tolerance for floats: |actual - expected| <= absolute + relative * |expected|. Infinities,
/// integers and bools must be equal; NaN equals NaN.
struct Tolerance {
  double relative = 1e-3;
  /// Absolute tolerance. By default 1e-7 plus 1e-5 times the largest magnitude of the expected
  /// elements; the factor is 5e-3 for f16 and 4e-2 for bf16, because expected data may have been
  /// rounded after every operator.
  std::optional<double> absolute;
};

/// The difference of one output from its expected value.
struct OutputDifference {
  std::string name;  // output name in the model; untrusted text
  ir::ElementType element = ir::ElementType::kF32;
  std::vector<std::int64_t> dims;
  std::string problem;              // a mismatch of type or dims; empty if elements were compared
  std::uint64_t mismatches = 0;     // number of elements beyond the tolerance
  std::int64_t worst = -1;          // row-major index of the worst mismatch; -1: none
  double difference = 0;            // maximum of |actual - expected| among finite elements
  double largest = 0;               // maximum of |expected| among finite elements
  double actual = 0, expected = 0;  // values at index `worst`

  bool ok() const { return problem.empty() && mismatches == 0; }
};
OutputDifference compare(const std::string& name, const ir::Constant& actual,
                         const ir::Constant& expected, const Tolerance& tolerance);

struct TestOnnxOptions {
  std::filesystem::path model;  // an .onnx file, or the folder of an export
  std::filesystem::path data;   // a test_data_set_N folder, or a folder of such folders
  std::string target = "avx2";
  std::uint32_t opt_level = target::kMaxOptLevel;
  Tolerance tolerance;
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
  std::vector<OutputDifference> outputs;

  bool ok() const;
};

/// Compiles the model for each data set's shapes, or once for `options.dims`, and runs it.
/// Differences are results, not errors. Fails with kBadInput (files, data), kUsage (dims),
/// kUnsupported or kToolchain.
Result<std::vector<DataSetResult>> test_onnx(const TestOnnxOptions& options,
                                             const driver::Progress& progress = {});

}  // namespace llmc::evaluate
