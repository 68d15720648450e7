// Graphs of real exporters as functions of their own inputs, where they are at hand
// (LLMC_SHARED_DIR, or the folder "shared" in the repository's parent): the reference interpreter
// gives what the exporter's runtime gave.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "compiler/onnx/test_data.h"
#include "compiler/reference/interpreter.h"

namespace llmc::conformance {
namespace {

namespace fs = std::filesystem;
using reference::Tensor;

/// The largest difference over the largest element; infinite where types or NaNs differ.
double relative_difference(const Tensor& actual, const Tensor& wanted) {
  if (actual.element != wanted.element || actual.dims != wanted.dims ||
      actual.integers != wanted.integers)
    return INFINITY;
  double difference = 0, largest = 0;
  for (std::size_t i = 0; i < wanted.floats.size(); ++i) {
    const double w = wanted.floats[i], d = std::fabs(static_cast<double>(actual.floats[i]) - w);
    if (std::isnan(d)) return INFINITY;
    difference = std::max(difference, d);
    largest = std::max(largest, std::fabs(w));
  }
  return difference == 0 ? 0 : difference / largest;
}

/// Compares a model with its data. Returns false if it has operators that llmc does not support.
bool run(const fs::path& model, const fs::path& data_set) {
  SCOPED_TRACE(model.string() + ", " + data_set.filename().string());
  const auto bound = importer::import_with_data(model, data_set);
  if (!bound.ok() && bound.error().first().kind == ErrorKind::kUnsupported) return false;
  EXPECT_TRUE(bound.ok()) << format(bound.error().first());
  if (!bound.ok()) return true;
  std::vector<Tensor> inputs;
  for (const auto& input : bound->inputs) inputs.push_back(reference::to_tensor(*input));
  const auto outputs = reference::evaluate(bound->model.graph(), inputs);
  EXPECT_TRUE(outputs.ok()) << format(outputs.error().first());
  if (!outputs.ok()) return true;
  for (std::size_t i = 0; i < outputs->size(); ++i) {
    const Tensor wanted = reference::to_tensor(*bound->outputs[i]);
    const double allowed = wanted.element == ir::ElementType::kF32 ? 1e-4 : 5e-3;
    EXPECT_LE(relative_difference((*outputs)[i], wanted), allowed) << "output " << i;
  }
  return true;
}

TEST(ExporterSamples, ComputeWhatTheirRuntimeComputed) {
  const char* given = std::getenv("LLMC_SHARED_DIR");
  const fs::path samples =
      (given ? fs::path(given) : fs::path(LLMC_SOURCE_DIR) / ".." / "shared") / "onnx-samples";
  if (!fs::is_directory(samples)) GTEST_SKIP() << samples << " is not there";
  int computed = 0, unsupported = 0;
  for (const auto& entry : fs::recursive_directory_iterator(samples)) {
    if (entry.path().extension() != ".onnx") continue;
    // Its simplifier folded the cache away: it cannot compute what its data say.
    if (entry.path().string().find("nopast") != std::string::npos) continue;
    fs::path data = entry.path();
    const auto sets = importer::data_set_folders(data.replace_extension());
    for (const auto& set : sets) ++(run(entry.path(), set) ? computed : unsupported);
  }
  // Most samples must count, or the test would pass when nothing is supported any more.
  EXPECT_GT(computed, 4 * unsupported);
}

}  // namespace
}  // namespace llmc::conformance
