#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/ir/text.h"
#include "compiler/plan/program.h"

namespace llmc::plan {
namespace {

constexpr std::uint32_t kX = 0, kKeyRows = 1, kKeys = 2, kQueries = 3, kAttended = 4, kBefore = 5,
                        kNext = 6;

/// Returns a layer whose keys depend on a state, the keys of the previous token, and whose queries
/// do not. The new value of the state is computed last.
Program layer_with_keys_of_a_state() {
  Program program;
  program.buffers.resize(7);
  program.buffers[kBefore].place = Place::kState;
  program.states.push_back({.before = {kBefore}, .next = {kNext}, .width = 8, .offset = 0});
  const auto add = [&](decltype(Stage::op) op) {
    program.forward.push_back({std::move(op), {}, {}});
  };
  LinearStage linear;
  linear.source = {kX};
  linear.out = {kKeyRows};
  add(linear);
  add(BinaryStage{.a = {kKeyRows}, .b = {kBefore}, .out = {kKeys}});
  linear.out = {kQueries};
  add(linear);
  add(KvStoreStage{.shape = {}, .k = {kKeys}, .v = {kKeys}, .layer = 0});
  AttentionStage attention;
  attention.q = {kQueries};
  attention.out = {kAttended};
  add(attention);
  add(CopyStage{.x = {kKeyRows}, .out = {kNext}, .width = 8});
  return program;
}

template <class T>
std::size_t place_of(const Program& program) {
  for (std::size_t i = 0; i < program.forward.size(); ++i)
    if (std::holds_alternative<T>(program.forward[i].op)) return i;
  ADD_FAILURE() << "no such stage";
  return 0;
}

TEST(OrderRecurrences, AttentionStaysAfterTheStoreOfItsKeys) {
  Program program = layer_with_keys_of_a_state();
  ASSERT_TRUE(order_recurrences(program).ok());
  EXPECT_LT(place_of<CopyStage>(program), place_of<BinaryStage>(program));
  EXPECT_LT(place_of<KvStoreStage>(program), place_of<AttentionStage>(program));
}

TEST(OrderRecurrences, TakesTimeInProportionToTheStages) {
  Program program = layer_with_keys_of_a_state();
  constexpr std::uint32_t kStages = 50'000;
  for (std::uint32_t i = 0; i < kStages; ++i) {
    program.buffers.emplace_back();
    const auto last = static_cast<std::uint32_t>(program.buffers.size() - 1);
    program.forward.push_back(
        {BinaryStage{.a = {i == 0 ? kAttended : last - 1}, .b = {kX}, .out = {last}}, {}, {}});
  }
  ASSERT_TRUE(order_recurrences(program).ok());
  EXPECT_EQ(program.forward.size(), kStages + 7);
}

TEST(States, DoNotDependOnTheLengthOfTheText) {
  const auto graph = ir::parse(R"(
graph @g(%input_ids: i64[seq] {kind = token_ids}, %state.0: f32[seq, 8] {kind = recurrent}, %last_position: i64[] {kind = last_position}) {
  %table = constant f32[24, 8] random(1, 1)
  %x = embedding %input_ids, %table
  %long = cast %last_position {to = f32}
  %y = add %x, %long
  %next_state.0 = add %state.0, %y
  %head = constant f32[24, 8] random(2, 1)
  %logits = linear %y, %head
  return %logits, %next_state.0
}
)");
  ASSERT_TRUE(graph.ok()) << format(graph.error().first());
  const auto program = lower(*graph, {});
  ASSERT_FALSE(program.ok());
  EXPECT_NE(program.error().first().message.find("the length of the text"), std::string::npos);
}

TEST(States, AreNotMultipliedByWeights) {
  const auto graph = ir::parse(R"(
graph @g(%input_ids: i64[seq] {kind = token_ids}, %state.0: f32[seq, 8] {kind = recurrent}) {
  %table = constant f32[24, 8] random(1, 1)
  %x = embedding %input_ids, %table
  %w = constant f32[8, 8] random(2, 1)
  %carried = linear %state.0, %w @"model.onnx" "/rnn/MatMul"
  %sum = add %carried, %x
  %next_state.0 = tanh %sum
  %head = constant f32[24, 8] random(3, 1)
  %logits = linear %x, %head
  return %logits, %next_state.0
}
)");
  ASSERT_TRUE(graph.ok()) << format(graph.error().first());
  const auto program = lower(*graph, {});
  ASSERT_FALSE(program.ok());
  const Diagnostic& d = program.error().first();
  EXPECT_EQ(d.kind, ErrorKind::kUnsupported);
  EXPECT_EQ(d.node, "/rnn/MatMul");
  EXPECT_EQ(d.message, "a recurrent state is multiplied by a weight matrix");
}

TEST(States, OnlyLoopNestsReadThoseBeforeATokenAndNewOnesAreStored) {
  const auto graph = ir::parse(R"(
graph @g(%input_ids: i64[seq] {kind = token_ids}, %state.0: f32[seq, 1, 8] {kind = recurrent}, %state.1: f32[seq, 1, 8] {kind = recurrent, layer = 1},
         %state.2: f32[seq, 1, 8] {kind = recurrent, layer = 2}) {
  %table = constant f32[24, 8] random(1, 1)
  %x = embedding %input_ids, %table
  %rank = constant i64[2] {-1, 8}
  %before = reshape %state.0, %rank
  %y = add %x, %before
  %head = constant f32[24, 8] random(2, 1)
  %logits = linear %y, %head
  %next_state.0 = identity %state.1
  %next_state.1 = identity %state.1
  %row = constant f32[1, 1, 8] random(3, 1)
  %shape = shape %state.2
  %next_state.2 = expand %row, %shape
  return %logits, %next_state.0, %next_state.1, %next_state.2
}
)");
  ASSERT_TRUE(graph.ok()) << format(graph.error().first());
  const auto program = lower(*graph, {});
  ASSERT_TRUE(program.ok()) << format(program.error().first());
  ASSERT_EQ(program->states.size(), 3u);
  for (const RecurrentState& state : program->states)
    EXPECT_EQ(program->buffers[state.next.index].place, Place::kArena);
  for (const Stage& stage : program->forward) {
    const bool reads = std::ranges::any_of(access(stage).reads, [&](BufferId id) {
      return id.exists() && program->buffers[id.index].place == Place::kState;
    });
    EXPECT_TRUE(!reads || std::holds_alternative<MapStage>(stage.op) ||
                std::holds_alternative<CallStage>(stage.op))
        << stage.comment;
  }
}

}  // namespace
}  // namespace llmc::plan
