// Each pass alone, and all those of a function in order, leave what ONNX's node tests compute as it
// is: small graphs of every operator and type, which no pass was written for.

#include <gtest/gtest.h>

#include "compiler/reference/interpreter.h"
#include "passes/pipeline.h"
#include "tests/conformance/suite.h"

namespace llmc::conformance {
namespace {

using passes::PassEntry;
using reference::Tensor;

/// The inputs that are still read, by name.
std::vector<Tensor> inputs_of(const ir::Graph& graph, const importer::BoundModel& bound) {
  std::vector<Tensor> inputs;
  const ir::Graph& before = bound.model.graph();
  for (const ir::ValueId id : graph.inputs())
    for (std::size_t i = 0; i < before.inputs().size(); ++i)
      if (before.value(before.inputs()[i]).name == graph.value(id).name)
        inputs.push_back(reference::to_tensor(*bound.inputs[i]));
  return inputs;
}

void run(const std::string& what, std::span<const PassEntry> entries,
         const importer::BoundModel& bound) {
  SCOPED_TRACE(what);
  passes::PipelineOptions options;
  const auto result = passes::run_passes(bound.model.graph(), entries, options);
  ASSERT_TRUE(result.ok()) << format(result.error().first());
  const auto outputs = reference::evaluate(result->graph, inputs_of(result->graph, bound));
  ASSERT_TRUE(outputs.ok()) << format(outputs.error().first());
  for (std::size_t i = 0; i < outputs->size(); ++i)
    EXPECT_EQ(difference((*outputs)[i], *bound.outputs[i]), "") << "output " << i;
}

TEST(Conformance, PassesLeaveNodeTestsRight) {
  std::string why;
  const auto data = find_data(why);
  if (!data) GTEST_SKIP() << why;
  for (const auto& test : select_tests(*data)) {
    if (run_in_interpreter(test).verdict != Verdict::kPassed) continue;
    SCOPED_TRACE(test.name);
    const auto bound = importer::import_with_data(test.folder / "model.onnx",
                                                  importer::data_set_folders(test.folder).front());
    ASSERT_TRUE(bound.ok());
    run("the pipeline", passes::pipeline(), *bound);
    for (const PassEntry& entry : passes::registry())
      if (entry.name != "quantize")  // which changes values on purpose
        run(std::string(entry.name), std::span(&entry, 1), *bound);
  }
}

}  // namespace
}  // namespace llmc::conformance
