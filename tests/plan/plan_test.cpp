#include "compiler/plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "llmc/arena.h"
#include "tests/plan/stage_graph.h"

namespace llmc::plan {
namespace {

using ::testing::HasSubstr;

PlanOptions options_for(std::string_view target = "avx2") {
  PlanOptions options;
  options.target = *target::find(target);
  options.name = "tiny";
  options.ctx = 100;
  return options;
}

TEST(MakePlan, ArenaIsWhatTheRuntimeWillAskFor) {
  const auto plan = make_plan(tests::stage_graph(), options_for());
  ASSERT_TRUE(plan.ok()) << format(plan.error().first());
  const auto layout = llmc_arena_layout_of({.vocab = 128,
                                            .hidden = 64,
                                            .ctx = 100,
                                            .sequences = 1,
                                            .batch = 1,
                                            .kv_block = 32,
                                            .pool_blocks = 4,
                                            .scratch_bytes = plan->memory.scratch_bytes,
                                            .kv_block_bytes = plan->kv.block_bytes,
                                            .sources = 0,
                                            .source_bytes = 0,
                                            .state_bytes = 0,
                                            .in_flight = 1});
  EXPECT_EQ(plan->arena_bytes, layout.total);
  EXPECT_EQ(plan->kv.blocks, 4u);  // 100 tokens in blocks of 32
  // Ids and states of the tokens, then layers * (K and V) * heads * tokens * dim * bytes.
  EXPECT_EQ(plan->kv.block_bytes, 32u * 8 + 2u * 2 * 2 * 32 * 16 * 4);
}

TEST(MakePlan, APromptIsReadOnlyDataBesideTheArena) {
  const auto without = make_plan(tests::stage_graph(), options_for());
  ASSERT_TRUE(without.ok());
  EXPECT_EQ(without->prompt.bytes, 0u);
  EXPECT_THAT(to_json(*without, {}), ::testing::Not(HasSubstr("prompt")));
  PlanOptions options = options_for();
  options.prompt.assign(33, 7);
  const auto plan = make_plan(tests::stage_graph(), options);
  ASSERT_TRUE(plan.ok()) << format(plan.error().first());
  EXPECT_EQ(plan->arena_bytes, without->arena_bytes);
  EXPECT_EQ(plan->arena_bytes, without->arena_bytes);
  EXPECT_EQ(plan->prompt.tokens, 33u);
  EXPECT_EQ(plan->prompt.blocks, 2u);
  EXPECT_EQ(plan->prompt.blocks_bytes, 2 * plan->kv.block_bytes);
  EXPECT_EQ(plan->prompt.bytes, 2 * plan->kv.block_bytes + 64 * 4);
  const auto json = nlohmann::json::parse(to_json(*plan, {}));
  EXPECT_EQ(json["prompt"]["tokens"], 33);
  EXPECT_EQ(json["prompt"]["ids"].size(), 33u);
  EXPECT_EQ(json["prompt"]["bytes"], plan->prompt.bytes);
  EXPECT_EQ(json["bytes"]["prompt"], plan->prompt.bytes);
}

TEST(MakePlan, APromptThatDoesNotFitIsRefused) {
  PlanOptions options = options_for();
  options.prompt_source = "p.txt";
  const auto refused = [&](ErrorKind kind, const char* message) {
    const auto plan = make_plan(tests::stage_graph(), options);
    ASSERT_FALSE(plan.ok());
    EXPECT_EQ(plan.error().first().kind, kind);
    EXPECT_THAT(plan.error().first().message, HasSubstr(message));
    if (kind == ErrorKind::kBadInput) EXPECT_EQ(plan.error().first().file, "p.txt");
  };
  options.prompt.assign(100, 7);
  refused(ErrorKind::kBadInput, "100 tokens, which leaves no room in a context of 100");
  options.prompt = {1, 128, 2};
  refused(ErrorKind::kBadInput, "token 128 of the system prompt is not in the vocabulary of 128");
  options.prompt = {-1};
  refused(ErrorKind::kBadInput, "token -1");
  options.prompt.assign(99, 127);
  EXPECT_TRUE(make_plan(tests::stage_graph(), options).ok());
  options.contiguous = true;
  refused(ErrorKind::kUsage, "contiguous");
}

TEST(MakePlan, SequencesShareAPool) {
  PlanOptions options = options_for();
  options.sequences = 6;
  const auto whole = make_plan(tests::stage_graph(), options);
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(whole->kv.blocks, 24u);
  options.pool = 9;
  options.batch = 4;
  const auto pooled = make_plan(tests::stage_graph(), options);
  ASSERT_TRUE(pooled.ok());
  EXPECT_EQ(pooled->kv.blocks, 9u);
  EXPECT_EQ(pooled->kv.bytes, 9 * pooled->kv.block_bytes);
  options.contiguous = true;
  options.pool = 0;
  const auto contiguous = make_plan(tests::stage_graph(), options);
  ASSERT_TRUE(contiguous.ok());
  EXPECT_EQ(contiguous->kv.blocks, 6u);
  EXPECT_EQ(contiguous->kv.block, 104u);  // 100 tokens in whole groups of 8
}

TEST(MakePlan, TheCacheHasItsFormats) {
  const auto plan_with = [](KvFormat keys, KvFormat values) {
    PlanOptions options = options_for();
    options.kv = {keys, values};
    return make_plan(tests::stage_graph(), options);
  };
  const auto f32 = plan_with(KvFormat::kF32, KvFormat::kF32);
  const auto f16 = plan_with(KvFormat::kF16, KvFormat::kF16);
  const auto keys = plan_with(KvFormat::kF16, KvFormat::kF32);
  ASSERT_TRUE(f32.ok() && f16.ok() && keys.ok());
  const std::uint64_t token = 2u * 2 * 2 * 16 * 4;  // layers, K and V, heads, dim
  EXPECT_EQ(f32->kv.token_bytes(), token + 8);      // and 8 bytes for its id and state
  EXPECT_EQ(f16->kv.token_bytes(), token / 2 + 8);
  EXPECT_EQ(keys->kv.token_bytes(), token / 4 * 3 + 8);
  const auto json = nlohmann::json::parse(to_json(*keys, ""));
  EXPECT_EQ(json["options"]["kv"], "K=f16,V=f32");
  EXPECT_EQ(json["kv"]["keys"], "f16");
  EXPECT_EQ(json["kv"]["values"], "f32");
  EXPECT_EQ(json["kv"]["token_bytes"], token / 4 * 3 + 8);
}

TEST(MakePlan, SizesAreTheSameForEveryTarget) {
  const auto avx2 = make_plan(tests::stage_graph(), options_for("avx2"));
  const auto generic = make_plan(tests::stage_graph(), options_for("generic"));
  ASSERT_TRUE(avx2.ok() && generic.ok());
  EXPECT_EQ(avx2->arena_bytes, generic->arena_bytes);
  EXPECT_EQ(avx2->weights_bytes, generic->weights_bytes);
}

TEST(MakePlan, TheDefaultContextEndsWhereTheModelsPositionsDo) {
  tests::StageModel model;
  model.table_rows = 48;
  const ir::Graph graph = tests::StageGraphBuilder(model).build();
  PlanOptions options = options_for();
  const auto shortened = make_plan(graph, options);
  ASSERT_TRUE(shortened.ok()) << format(shortened.error().first());
  EXPECT_EQ(shortened->options.ctx, 48u);
  EXPECT_EQ(shortened->kv.blocks, 2u);
  options.ctx_given = true;
  const auto refused = make_plan(graph, options);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().first().hint, HasSubstr("--ctx 48"));
}

TEST(MakePlan, TheDefaultContextIsNoLongerThanTheModelWasTrainedFor) {
  PlanOptions options = options_for();
  const auto context = [&] {
    const auto plan = make_plan(tests::stage_graph(), options);
    EXPECT_TRUE(plan.ok());
    return plan.ok() ? plan->options.ctx : 0;
  };
  options.trained_ctx = 48;
  EXPECT_EQ(context(), 48u);
  options.trained_ctx = 4096;
  EXPECT_EQ(context(), 100u);
  options.trained_ctx = 48;
  options.ctx_needed = 64;
  EXPECT_EQ(context(), 64u) << "a test of that length has to fit";
  const auto measured = make_plan(tests::stage_graph(), options);
  EXPECT_EQ(warnings(*measured).size(), 1u);
  options.ctx_given = true;
  EXPECT_EQ(context(), 100u) << "what was asked for";
  const auto plan = make_plan(tests::stage_graph(), options);
  const auto found = warnings(*plan);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0].message, HasSubstr("100 tokens is longer than the 48"));
  EXPECT_THAT(found[0].hint, HasSubstr("--ctx 48"));
  EXPECT_EQ(nlohmann::json::parse(to_json(*plan, ""))["model"]["trained_context"], 48);
  options.trained_ctx = 100;
  EXPECT_TRUE(warnings(*make_plan(tests::stage_graph(), options)).empty());
}

TEST(MakePlan, RefusesOptionsOutOfRange) {
  const auto refused = [](auto change) {
    PlanOptions options = options_for();
    change(options);
    const auto plan = make_plan(tests::stage_graph(), options);
    return !plan.ok() && plan.error().first().kind == ErrorKind::kUsage;
  };
  EXPECT_TRUE(refused([](PlanOptions& o) { o.ctx = 0; }));
  EXPECT_TRUE(refused([](PlanOptions& o) { o.ctx = UINT32_MAX; }));
  EXPECT_TRUE(refused([](PlanOptions& o) { o.ctx = (1u << 22) + 1; }));
  EXPECT_FALSE(refused([](PlanOptions& o) { o.ctx = 1u << 22; }));
  EXPECT_TRUE(refused([](PlanOptions& o) { o.block = 0; }));
  EXPECT_TRUE(refused([](PlanOptions& o) { o.block = 12; }));
  EXPECT_TRUE(refused([](PlanOptions& o) { o.chunk = 0; }));
  EXPECT_TRUE(refused([](PlanOptions& o) { o.chunk = 1 << 20; }));
  EXPECT_TRUE(refused([](PlanOptions& o) { o.sequences = 0; }));
  EXPECT_TRUE(refused([](PlanOptions& o) { o.sequences = (1u << 16) + 1; }));
  EXPECT_TRUE(refused([](PlanOptions& o) { o.batch = 0; }));
  EXPECT_TRUE(refused([](PlanOptions& o) { o.batch = o.chunk + 1; }));
  EXPECT_TRUE(refused([](PlanOptions& o) { o.pool = (1u << 30) + 1; }));
  EXPECT_TRUE(refused([](PlanOptions& o) { o.threads_max = 0; }));
  EXPECT_TRUE(refused([](PlanOptions& o) { o.threads_max = 100000; }));
  EXPECT_FALSE(refused([](PlanOptions&) {}));
}

TEST(CheckBudget, SaysHowMuchIsMissing) {
  const auto plan = make_plan(tests::stage_graph(), options_for());
  ASSERT_TRUE(plan.ok());
  EXPECT_TRUE(check_budget(*plan, 0).ok());
  EXPECT_TRUE(check_budget(*plan, plan->arena_bytes).ok());
  const Status over = check_budget(*plan, plan->arena_bytes - 1);
  ASSERT_FALSE(over.ok());
  EXPECT_EQ(over.error().first().kind, ErrorKind::kOverBudget);
  EXPECT_THAT(over.error().first().message, HasSubstr("1 more than"));
}

/// Returns the warnings for a pool of `pool` blocks, 2 sequences of 100 tokens, and a prompt of
/// `prompt` tokens with which they begin.
std::vector<Warning> warnings_of(std::uint32_t pool, std::size_t prompt) {
  PlanOptions options = options_for();
  options.sequences = 2;
  options.pool = pool;
  options.prompt.assign(prompt, 7);
  const auto plan = make_plan(tests::stage_graph(), options);
  if (!plan.ok()) ADD_FAILURE() << format(plan.error().first());
  return plan.ok() ? warnings(*plan) : std::vector<Warning>{};
}

TEST(Warnings, APromptsWholeBlocksLieOutsideThePool) {
  ASSERT_EQ(warnings_of(2, 0).size(), 1u);  // needs 4 blocks of 32 tokens
  EXPECT_THAT(warnings_of(2, 0)[0].hint, HasSubstr("--pool 4 holds one whole sequence, --ctx 64 "));
  ASSERT_EQ(warnings_of(2, 33).size(), 1u);
  EXPECT_THAT(warnings_of(2, 33)[0].hint,
              HasSubstr("--pool 3 holds one whole sequence, --ctx 96 "));
  EXPECT_TRUE(warnings_of(2, 64).empty());
  EXPECT_TRUE(warnings_of(8, 0).empty());
  EXPECT_TRUE(warnings_of(6, 33).empty());
  ASSERT_EQ(warnings_of(7, 33).size(), 1u);
  EXPECT_THAT(warnings_of(7, 33)[0].message, HasSubstr("--pool 7 is more than 2 sequences"));
  EXPECT_THAT(warnings_of(7, 33)[0].hint, HasSubstr("--pool 6 is enough"));
}

TEST(ToJson, IsTheSameEveryTimeAndParses) {
  const auto plan = make_plan(tests::stage_graph(), options_for());
  ASSERT_TRUE(plan.ok());
  const std::string text = to_json(*plan, "0123456789abcdef");
  EXPECT_EQ(text, to_json(*make_plan(tests::stage_graph(), options_for()), "0123456789abcdef"));
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json["bytes"]["arena"], plan->arena_bytes);
  EXPECT_EQ(json["weights"].size(), plan->program.weights.size());
  EXPECT_EQ(json["model"]["layers"], 2);
}

TEST(ToJson, PromptTemplatesComeBackByteForByte) {
  PlanOptions options = options_for();
  options.prompt_template = "<|user|>\n%s\t\x01\x7f\"\\ \xc3\xa9\xe2\x82\xac\n<|assistant|>\n";
  options.prompt_template += std::string(10000, 'x') + "end";
  const auto plan = make_plan(tests::stage_graph(), options);
  ASSERT_TRUE(plan.ok());
  const auto json = nlohmann::json::parse(to_json(*plan, ""));
  EXPECT_EQ(json["prompt_template"].get<std::string>(), options.prompt_template);
}

TEST(ToJson, HostileNamesStayText) {
  ir::Graph graph = tests::stage_graph();
  for (const ir::Node& node : graph.nodes()) {
    if (ir::op_as<ir::ConstantOp>(&node)) graph.value(node.outputs[0]).name = "\xff\"\n\x1b[2J";
  }
  const auto plan = make_plan(graph, options_for());
  ASSERT_TRUE(plan.ok());
  const auto json = nlohmann::json::parse(to_json(*plan, ""), nullptr, false);
  EXPECT_FALSE(json.is_discarded());
}

}  // namespace
}  // namespace llmc::plan
