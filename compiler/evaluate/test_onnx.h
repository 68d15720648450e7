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

/// A model as a native function against ONNX test data (compiler/onnx/test_data.h).
namespace llmc::evaluate {

/// How far floats may be from what is expected: |a - e| <= absolute + relative * |e|. Integers and
/// bools are equal.
struct Tolerance {
  double relative = 1e-3;
  /// Unset: a share of the largest expected element, 1e-5 (5e-3 for f16, 4e-2 for bf16, which
  /// whoever made the data may have rounded after every operator), and 1e-7.
  std::optional<double> absolute;
};

/// The largest difference of one output from what is expected.
struct OutputDifference {
  std::string name;  // as the model spells it; untrusted text
  ir::ElementType element = ir::ElementType::kF32;
  std::vector<std::int64_t> dims;
  std::string problem;           // types that differ; empty when elements could be compared
  std::uint64_t mismatches = 0;  // elements beyond the tolerance
  std::int64_t worst = -1;       // row-major index of the element that exceeds it the most, or -1
  double difference = 0;         // largest |a - e|
  double largest = 0;            // largest finite |e|
  double actual = 0, expected = 0;  // at `worst`

  bool ok() const { return problem.empty() && mismatches == 0; }
};
OutputDifference compare(const std::string& name, const ir::Constant& actual,
                         const ir::Constant& expected, const Tolerance& tolerance);

struct TestOnnxOptions {
  std::filesystem::path model,
      data;  // data: one test_data_set_N folder, or the one that holds them
  std::string target = "avx2";
  std::uint32_t opt_level = target::kMaxOptLevel;
  Tolerance tolerance;
  std::string optimisation = "-O2";
  std::string emulator = {};  // as for find_emulator
  /// Not empty: the graph is compiled once for these sizes and ranges, which give every symbol of
  /// its inputs' shapes; the data sets' sizes must be among them.
  plan::DimRanges dims = {};
};

struct DataSetResult {
  std::filesystem::path folder;
  std::vector<std::string> bound;  // inputs that are constants, because they decide shapes
  std::uint64_t arena_bytes = 0, weights_bytes = 0;
  std::vector<OutputDifference> outputs;

  bool ok() const;
};

/// Compiles the model for each data set's shapes, or once for `options.dims`, and runs it. Errors:
/// kBadInput (files, data), kUnsupported, kToolchain. Differences are results, not errors.
Result<std::vector<DataSetResult>> test_onnx(const TestOnnxOptions& options,
                                             const driver::Progress& progress = {});

}  // namespace llmc::evaluate
