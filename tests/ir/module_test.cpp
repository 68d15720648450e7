#include "compiler/ir/module.h"

#include <gtest/gtest.h>

#include "tests/ir/verify_interface.h"

namespace llmc::ir {
namespace {

const Dim kPast = Dim::symbol("past"), kSeq = Dim::symbol("seq");

TensorType cache(const Dim& tokens) {
  return {ElementType::kF32, {2, 1, tokens, 4, 16}};
}

/// Only the inputs and outputs of a decoder with one layer.
Module decoder() {
  Graph graph;
  graph.add_input({"input_ids", {ElementType::kI64, {kSeq}}});
  graph.add_input({"position_ids", {ElementType::kI64, {1, kSeq}}});
  graph.add_input({"past.0", cache(kPast)});
  graph.add_output(graph.add_value({"logits", {ElementType::kF32, {1, kSeq, 300}}}));
  graph.add_output(graph.add_value({"present.0", cache(*add(kPast, kSeq))}));
  Module module;
  module.entries.push_back({EntryKind::kForward, std::move(graph)});
  module.states.push_back(
      {.input = "past.0", .output = "present.0", .kv_heads = 4, .head_dim = 16});
  module.interface.token_ids = "input_ids";
  module.interface.positions = "position_ids";
  module.interface.logits = "logits";
  return module;
}

/// The name that verify_interface reports; empty if it reports none.
std::string broken_name(const Module& module) {
  const Status status = testing::verify_interface(module);
  return status.ok() ? std::string() : status.error().first().node;
}

TEST(Module, OfADecoderHasStatesAndLogits) {
  const Module module = decoder();
  EXPECT_TRUE(module.is_decoder());
  EXPECT_EQ(module.vocabulary(), 300);
  EXPECT_EQ(broken_name(module), "");
}

TEST(Module, OfAPlainGraphBindsNothing) {
  const Module module = plain_module(decoder().graph());
  EXPECT_EQ(module.entries.front().kind, EntryKind::kRun);
  EXPECT_FALSE(module.is_decoder());
  EXPECT_EQ(module.vocabulary(), 0);
  EXPECT_EQ(broken_name(module), "");
}

TEST(Module, NamesInputsAndOutputsOfTheirTypes) {
  Module module = decoder();
  module.interface.token_ids = "ids";
  EXPECT_EQ(broken_name(module), "ids");
  module = decoder();
  module.interface.mask = "input_ids";  // integers
  EXPECT_EQ(broken_name(module), "input_ids");
  module = decoder();
  module.interface.position_axes = "axes";
  EXPECT_EQ(broken_name(module), "axes");
  module = decoder();
  module.interface.hidden = "logits";  // which has a role
  EXPECT_EQ(broken_name(module), "logits");
  module = decoder();
  module.states.push_back(module.states.front());
  EXPECT_EQ(broken_name(module), "past.0");
  module = decoder();
  module.states.front().output = "past.0";  // an input
  EXPECT_EQ(broken_name(module), "past.0");
  module = decoder();
  module.states.front().kv_heads = 8;
  EXPECT_EQ(broken_name(module), "past.0");
  module = decoder();
  module.states.front().layout = CacheLayout::kHeadsFirst;
  EXPECT_EQ(broken_name(module), "past.0");
}

}  // namespace
}  // namespace llmc::ir
