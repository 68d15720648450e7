#include "compiler/ir/module.h"

#include <gtest/gtest.h>

#include "tests/ir/verify_states.h"

namespace llmc::ir {
namespace {

const Dim kPast = Dim::symbol("past"), kSeq = Dim::symbol("seq");

TensorType cache(const Dim& tokens) {
  return {ElementType::kF32, {2, 1, tokens, 4, 16}};
}

/// Only the inputs and outputs of a decoder with one layer.
Module decoder() {
  Graph graph;
  graph.add_input({"input_ids", {ElementType::kI64, {kSeq}}, InputKind::kTokenIds});
  graph.add_input({"position_ids", {ElementType::kI64, {1, kSeq}}, InputKind::kPositions});
  graph.add_input({"past.0", cache(kPast), InputKind::kAttentionCache});
  graph.add_output(graph.add_value({"logits", {ElementType::kF32, {1, kSeq, 300}}}));
  graph.add_output(graph.add_value({"present.0", cache(*add(kPast, kSeq))}));
  Module module;
  module.entries.push_back({EntryKind::kForward, std::move(graph)});
  module.states.push_back({.kv_heads = 4, .head_dim = 16});
  return module;
}

bool is_sound(const Module& module) {
  return testing::verify_states(module).ok();
}

TEST(Module, OfADecoderHasStatesAndLogits) {
  const Module module = decoder();
  EXPECT_TRUE(module.is_decoder());
  EXPECT_EQ(module.vocabulary(), 300);
  EXPECT_TRUE(is_sound(module));
}

TEST(Module, OfAPlainGraphHasNeither) {
  Graph graph;
  graph.add_output(graph.add_input({"input_ids", {ElementType::kF32, {kSeq, 300}}}));
  const Module module = plain_module(std::move(graph));
  EXPECT_EQ(module.entries.front().kind, EntryKind::kRun);
  EXPECT_FALSE(module.is_decoder());
  EXPECT_EQ(module.vocabulary(), 0);
  EXPECT_TRUE(is_sound(module));
}

TEST(Module, HasAnInputAndAnOutputOfItsTypeForEachState) {
  Module module = decoder();
  module.states.push_back(module.states.front());
  EXPECT_FALSE(is_sound(module));  // without an output of its own
  module = decoder();
  module.states.front().layer = 1;
  EXPECT_FALSE(is_sound(module));
  module = decoder();
  module.states.front().kv_heads = 8;
  EXPECT_FALSE(is_sound(module));
  module = decoder();
  module.states.front().layout = CacheLayout::kHeadsFirst;
  EXPECT_FALSE(is_sound(module));
  module = decoder();
  module.states.clear();
  EXPECT_FALSE(is_sound(module));
}

TEST(Module, InputsOfAKindAreFoundByLayer) {
  Graph graph = decoder().graph();
  const ValueId second = graph.add_input({"past.1", cache(kPast), InputKind::kAttentionCache, 1});
  EXPECT_EQ(graph.input(InputKind::kTokenIds), graph.inputs()[0]);
  EXPECT_EQ(graph.input(InputKind::kAttentionCache), graph.inputs()[2]);
  EXPECT_EQ(graph.input(InputKind::kAttentionCache, 1), second);
  EXPECT_EQ(graph.input(InputKind::kAttentionCache, 2), kNoValue);
  EXPECT_EQ(graph.input(InputKind::kMask), kNoValue);
}

}  // namespace
}  // namespace llmc::ir
