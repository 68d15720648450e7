#include <gtest/gtest.h>

#include "compiler/plan/program.h"

namespace llmc::plan {
namespace {

constexpr std::uint32_t kX = 0, kKeyRows = 1, kKeys = 2, kQueries = 3, kAttended = 4, kBefore = 5,
                        kNext = 6;

/// A layer whose keys also depend on those of the token before, and whose queries do not. The new
/// value of the state is computed last.
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

}  // namespace
}  // namespace llmc::plan
