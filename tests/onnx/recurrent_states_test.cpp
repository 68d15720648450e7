// States of decoders of one token per call.
#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/onnx/model.h"
#include "tests/ir/verify_states.h"
#include "tests/onnx/imported.h"
#include "tests/support/small_stack.h"
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
  EXPECT_TRUE(ir::testing::verify_states(model->module).ok());
  for (const ir::State& state : model->module.states) {
    const bool cache = state.kind == ir::StateKind::kAttentionCache;
    const std::string before = (cache ? "past." : "state.") + std::to_string(state.layer);
    const std::string after = (cache ? "present." : "next_state.") + std::to_string(state.layer);
    EXPECT_EQ(count_of(graph, graph.inputs(), before), 1) << before;
    EXPECT_EQ(count_of(graph, graph.outputs(), after), 1) << after;
  }
}

TEST(RecurrentStates, HaveNamesOfTheirOwn) {
  for (const bool of_input : {true, false}) {
    auto writer = testing::tiny_recurrent({});
    const std::string name = of_input ? "past_conv0" : "new_conv.0";
    if (of_input) {
      writer.float_input(name, {"batch", std::int64_t{16}, std::int64_t{3}});
      writer.node("Add", {name, "past_conv.0"}, {}, "sum");
      writer.float_output("sum", {});
    } else {
      writer.node("Identity", {"past_conv.0"}, {}, name);
      writer.float_output(name, {});
    }
    const auto model = import(writer);
    ASSERT_FALSE(model.ok());
    EXPECT_EQ(model.error().first().kind, ErrorKind::kBadInput);
    EXPECT_NE(model.error().first().message.find("'" + name + "' have the name of one state"),
              std::string::npos)
        << format(model.error().first());
  }
}

TEST(RecurrentStates, OfDeepGraphs) {
  constexpr std::int64_t kLayers = 10'000;  // more than 200 bytes of stack each would be too much
  const testing::TemporaryFolder folder;
  const auto path = folder.path() / "model.onnx";
  auto writer = testing::tiny_recurrent({.attention = true, .more_layers = kLayers});
  writer.save(path);
  tests::with_small_stack([&] { EXPECT_TRUE(importer::import_model(path).ok()); });
}

}  // namespace
}  // namespace llmc
