// States of decoders of one token per call.
#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/onnx/model.h"
#include "tests/onnx/imported.h"
#include "tests/support_onnx/tiny_recurrent.h"

namespace llmc {
namespace {

std::int64_t count_of(const ir::Graph& graph, const std::vector<ir::ValueId>& values,
                      const std::string& name) {
  return std::ranges::count(values, name,
                            [&](ir::ValueId value) { return graph.value(value).name; });
}

TEST(RecurrentStates, KeepTheirNamesIfOneBecomesAnother) {
  const testing::TemporaryFolder folder;
  const auto path = folder.path() / "model.onnx";
  testing::tiny_recurrent({.attention = true}).save(path);
  const auto model = importer::import_model(path);
  ASSERT_TRUE(model.ok()) << format(model.error().first());
  const ir::Graph& graph = model->module.graph();
  for (const ir::State& state : model->module.states) {
    EXPECT_EQ(count_of(graph, graph.inputs(), state.input), 1) << state.input;
    EXPECT_EQ(count_of(graph, graph.outputs(), state.output), 1) << state.output;
  }
}

TEST(RecurrentStates, OfDeepGraphs) {
  const testing::TemporaryFolder folder;
  const auto path = folder.path() / "model.onnx";
  auto writer = testing::tiny_recurrent({.attention = true, .more_layers = 100'000});
  writer.save(path);
  EXPECT_TRUE(importer::import_model(path).ok());
}

}  // namespace
}  // namespace llmc
