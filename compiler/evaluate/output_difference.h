#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/constant.h"

/// Comparison of the outputs of a plain graph with expected values.
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
  bool all_zeros = false;           // whether all actual elements are 0; only if they were compared

  bool ok() const { return problem.empty() && mismatches == 0; }
};
OutputDifference compare(const std::string& name, const ir::Constant& actual,
                         const ir::Constant& expected, const Tolerance& tolerance);

struct VerifiedOutput {
  /// Comparison with the tolerance. It determines `ok` only if no weights are rounded, that
  /// is, if the maximum relative error is 0.
  OutputDifference largest;
  /// Root mean square of the differences divided by that of the expected elements; of bools and
  /// integers of 32 or 64 bits, the share of elements that differ.
  double relative_error = 0;
  bool ok = true;
};
/// Compares an output. `allowed`: maximum relative error; 0: each element must be within its
/// tolerance.
VerifiedOutput verify_output(const std::string& name, const ir::Constant& actual,
                             const ir::Constant& expected, double allowed,
                             const Tolerance& tolerance = {});

}  // namespace llmc::evaluate
