#include "compiler/plan/lower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "compiler/plan/program.h"
#include "passes/assign_weight_formats.h"
#include "passes/pipeline.h"
#include "passes/split_loop.h"
#include "tests/plan/family_graph.h"
#include "tests/plan/stage_graph.h"

namespace llmc::plan {
namespace {

using ::testing::HasSubstr;
using tests::stage_graph;
using tests::StageModel;

template <class T>
std::vector<const T*> stages_of(const std::vector<Stage>& stages) {
  std::vector<const T*> found;
  for (const Stage& stage : stages) {
    if (const auto* s = std::get_if<T>(&stage.op)) found.push_back(s);
  }
  return found;
}

Program lowered(const ir::Graph& graph) {
  auto program = lower(graph, {});
  if (!program.ok()) ADD_FAILURE() << llmc::format(program.error().first());
  return *std::move(program);
}

std::map<std::string, std::string> formats_by_label(const Program& program) {
  std::map<std::string, std::string> formats;
  for (const PackedWeight& weight : program.weights) formats[weight.label] = weight.format_name();
  return formats;
}

TEST(Lower, LayersBecomeOneFunctionCalledInALoop) {
  const Program p = lowered(stage_graph());
  const auto loops = stages_of<LoopStage>(p.forward);
  ASSERT_EQ(loops.size(), 1u);
  EXPECT_EQ(loops[0]->count, 2u);
  EXPECT_EQ(loops[0]->function, "layer");
  EXPECT_EQ(loops[0]->body.size(), 5u);  // the five stages in docs/numerics.md
  std::vector<std::string> fields;
  for (const auto& field : loops[0]->fields) fields.push_back(field.name);
  EXPECT_THAT(fields,
              ::testing::UnorderedElementsAre("qkv_norm", "qkv", "qkv_bias", "attention_out",
                                              "gate_up_norm", "gate_up", "down"));
  EXPECT_EQ(p.layers, 2u);
  EXPECT_EQ(p.vocabulary, 128u);
  EXPECT_EQ(p.hidden_width, 64u);
}

TEST(Lower, WeightsLieInTheOrderTheyAreRead) {
  const Program p = lowered(stage_graph());
  const auto* loop = stages_of<LoopStage>(p.forward)[0];
  std::uint64_t last = 0;
  for (std::uint32_t layer = 0; layer < loop->count; ++layer) {
    for (const auto& field : loop->fields) {
      const PackedWeight& weight = p.weights[field.weights[layer]];
      EXPECT_GT(weight.offset, last) << field.name;
      EXPECT_EQ(weight.layer, layer);
      last = weight.offset;
    }
  }
}

TEST(Lower, ResidualsAreAddedInPlace) {
  const Program p = lowered(stage_graph());
  const auto* loop = stages_of<LoopStage>(p.forward)[0];
  const auto linears = stages_of<LinearStage>(loop->body);
  ASSERT_EQ(linears.size(), 3u);
  const BufferId x = stages_of<EmbeddingStage>(p.forward)[0]->out;
  EXPECT_EQ(linears[0]->epilogue, LinearStage::Epilogue::kAddTo);
  EXPECT_EQ(linears[0]->out, x);
  EXPECT_EQ(linears[2]->epilogue, LinearStage::Epilogue::kAddTo);
  EXPECT_EQ(linears[2]->out, x);
  EXPECT_EQ(p.hidden, x);
}

TEST(Lower, AResidualThatIsReadAgainKeepsItsBuffer) {
  ir::Graph graph = stage_graph({.layers = 1, .rolled = false});
  // The embedding is read again at the end: logits of (last row of x2 + x).
  const auto find = [&](auto predicate) {
    for (const ir::Node& node : graph.nodes()) {
      if (predicate(node)) return node;
    }
    return ir::Node{};
  };
  const ir::Node embedding =
      find([](const ir::Node& n) { return ir::op_as<ir::Embedding>(&n) != nullptr; });
  auto& nodes = graph.mutable_nodes();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!ir::op_as<ir::Gather>(&nodes[i])) continue;
    const ir::ValueId x2 = nodes[i].inputs[0];
    const ir::ValueId sum = graph.add_value({"sum", graph.value(x2).type});
    nodes[i].inputs[0] = sum;
    nodes.insert(nodes.begin() + static_cast<std::ptrdiff_t>(i),
                 {ir::Binary{ir::BinaryKind::kAdd}, {x2, embedding.outputs[0]}, {sum}, {}});
    break;
  }
  const Program p = lowered(graph);
  const BufferId x = stages_of<EmbeddingStage>(p.forward)[0]->out;
  const auto linears = stages_of<LinearStage>(p.forward);
  EXPECT_EQ(linears[0]->epilogue, LinearStage::Epilogue::kAddStore);
  EXPECT_NE(linears[0]->out, x);
}

TEST(Lower, LargeHeadsInQ6HaveSplitCodes) {
  const auto head_of = [](const StageModel& model) {
    const Program p = lowered(stage_graph(model));
    const auto* head = std::get_if<LinearStage>(&p.head.back().op);
    EXPECT_NE(head, nullptr);
    const PackedWeight& weight = p.weights[head->weight.index];
    const bool split = weight.matrix == coded_weight(kSplitSixBits);
    EXPECT_EQ(greedy_choice_product(p) == head, split);
    if (split) EXPECT_EQ(weight.format_name(), "q6");
    // All other matrices have codes that are not split.
    EXPECT_LE(std::ranges::count(p.weights, coded_weight(kSplitSixBits), &PackedWeight::matrix), 1);
    return split;
  };
  constexpr std::int64_t kEnough = (1 << 20) / 64;
  EXPECT_TRUE(head_of({.vocabulary = kEnough, .quant = ir::WeightFormat::kQ6}));
  EXPECT_TRUE(
      head_of({.vocabulary = kEnough, .select_last_row = false, .quant = ir::WeightFormat::kQ6}));
  EXPECT_FALSE(head_of({.vocabulary = kEnough - 1, .quant = ir::WeightFormat::kQ6}));
  EXPECT_FALSE(head_of({.vocabulary = kEnough, .quant = ir::WeightFormat::kQ8}));
}

TEST(Lower, UnrolledLayersGiveTheSameStages) {
  const Program rolled = lowered(stage_graph());
  const Program flat = lowered(stage_graph({.rolled = false}));
  EXPECT_EQ(flat.forward.size(), 2 + 2 * 5u);
  EXPECT_EQ(flat.weights.size(), rolled.weights.size());
  std::uint64_t rolled_bytes = 0, flat_bytes = 0;
  for (const auto& w : rolled.weights) rolled_bytes += w.bytes;
  for (const auto& w : flat.weights) flat_bytes += w.bytes;
  EXPECT_EQ(rolled_bytes, flat_bytes);
}

TEST(Lower, TheHeadReadsOneRow) {
  for (const bool select : {true, false}) {
    const Program p = lowered(stage_graph({.select_last_row = select}));
    ASSERT_EQ(p.head.size(), 1u) << select;
    const auto* head = std::get_if<LinearStage>(&p.head[0].op);
    ASSERT_NE(head, nullptr);
    EXPECT_EQ(head->source, p.row);
    EXPECT_EQ(head->out, p.logits);
    EXPECT_TRUE(p.buffers[p.logits.index].one_row);
  }
}

TEST(Lower, NarrowModelsKeepMoreBits) {
  auto narrow = formats_by_label(lowered(stage_graph()));
  EXPECT_EQ(narrow["gate_up"], "q4");
  for (const char* label : {"qkv", "attention_out", "down"}) EXPECT_EQ(narrow[label], "q6");
  EXPECT_EQ(narrow["qkv_norm"], "f32");
  EXPECT_EQ(narrow["head"], "q6");
  auto wide =
      formats_by_label(lowered(stage_graph({}, passes::format_policy(ir::WeightFormat::kQ4, {}))));
  EXPECT_EQ(wide["gate_up"], "q4");
  EXPECT_EQ(wide["qkv"], "q4");
  EXPECT_EQ(wide["down"], "q4");
  EXPECT_EQ(wide["head"], "q6");
}

TEST(Lower, WeightsOfLoopsOfOneLayerHaveLabelsOfTheirOwn) {
  ir::Graph graph = stage_graph();
  const auto is_loop = [](const ir::Node& node) { return ir::op_as<ir::Loop>(&node) != nullptr; };
  const auto loop = std::ranges::find_if(graph.nodes(), is_loop) - graph.nodes().begin();
  const std::vector<std::int64_t> counts{1, 1};
  const Program p =
      lowered(passes::split_loop(std::move(graph), static_cast<std::size_t>(loop), counts));
  std::map<std::string, std::size_t> labels;  // of weights outside the loops' fields
  for (const PackedWeight& weight : p.weights)
    if (weight.layer < 0) ++labels[weight.label];
  EXPECT_EQ(labels["qkv_norm"], 1u);
  EXPECT_EQ(labels["qkv_norm_2"], 1u);
  for (const auto& [label, count] : labels) EXPECT_EQ(count, 1u) << label;
}

TEST(Lower, ValueRowsMayHaveAFormatOfTheirOwn) {
  passes::FormatPolicy policy = passes::format_policy(ir::WeightFormat::kQ4, {});
  policy[ir::WeightRole::kValue] = {ir::WeightFormat::kQ8, "of this test"};
  const Program p = lowered(stage_graph({}, policy));
  auto formats = formats_by_label(p);
  EXPECT_EQ(formats["query_key"], "q4");
  EXPECT_EQ(formats["value"], "q8");
  for (const PackedWeight& weight : p.weights) {
    if (weight.label == "query_key") EXPECT_EQ(weight.rows, 6 * 16u);
    if (weight.label == "value") EXPECT_EQ(weight.rows, 2 * 16u);
    if (weight.label == "qkv_bias") EXPECT_EQ(weight.packed_rows, 8 * 16u);
  }
}

/// Lowers the family of that name, without fusions or, if `rolled`, after the pipeline.
Result<Program> lowered_family(const std::string& name, bool rolled = false) {
  for (const tests::Family& family : tests::families()) {
    if (family.name != name) continue;
    ir::Graph graph = tests::FamilyText(family).build();
    if (rolled) {
      auto result = passes::run_pipeline(std::move(graph));
      if (!result.ok()) return result.error();
      graph = std::move(result->graph);
    }
    return lower(graph, {});
  }
  ADD_FAILURE() << name;
  return Program{};
}

TEST(Lower, TheHeadOfAllTokensLogitsLeavesTheForwardPassAlone) {
  // norm, linear, div, tanh, mul: they compute one row, and none writes a buffer of all tokens.
  const auto program = lowered_family("gemma2");
  ASSERT_TRUE(program.ok());
  const Program& p = *program;
  ASSERT_EQ(p.head.size(), 5u);
  EXPECT_TRUE(std::holds_alternative<NormStage>(p.head[0].op));
  EXPECT_EQ(std::get<NormStage>(p.head[0].op).x, p.row);
  EXPECT_EQ(std::get<UnaryStage>(p.head[3].op).kind, ir::UnaryKind::kTanh);
  EXPECT_EQ(access(p.head[4]).writes.front(), p.logits);
  for (const Stage& stage : p.head) {
    for (const BufferId id : access(stage).writes) {
      EXPECT_TRUE(p.buffers[id.index].one_row) << p.buffers[id.index].name;
      EXPECT_NE(id, p.hidden);
    }
  }
}

TEST(Lower, LayersByTurnsAreOnePassOfABody) {
  const auto program = lowered_family("gemma2", true);  // five layers: two pairs and one
  ASSERT_TRUE(program.ok());
  EXPECT_EQ(program->layers, 5u);
  const LoopStage* loop = nullptr;
  for (const Stage& stage : program->forward) {
    if (const auto* found = std::get_if<LoopStage>(&stage.op)) loop = found;
  }
  ASSERT_NE(loop, nullptr);
  EXPECT_EQ(loop->count, 2u);
  EXPECT_EQ(loop->layers_per_pass, 2u);
  std::vector<std::pair<std::uint32_t, std::uint64_t>> attentions;
  for (const Stage& stage : loop->body) {
    if (const auto* s = std::get_if<AttentionStage>(&stage.op)) {
      attentions.emplace_back(s->layer, s->window);
      EXPECT_EQ(s->softcap, 2.0f);
    }
  }
  EXPECT_EQ(attentions, (std::vector<std::pair<std::uint32_t, std::uint64_t>>{{0, 9}, {1, 0}}));
}

TEST(Lower, ANormBehindABranchAddsTheResidual) {
  const auto program = lowered_family("gemma3");
  ASSERT_TRUE(program.ok());
  const auto adds = std::ranges::count_if(program->forward, [](const Stage& stage) {
    return std::holds_alternative<BinaryStage>(stage.op);
  });
  const auto norms = std::ranges::count_if(program->forward, [](const Stage& stage) {
    const auto* norm = std::get_if<NormStage>(&stage.op);
    return norm != nullptr && norm->residual.exists();
  });
  EXPECT_EQ(adds, 0);
  EXPECT_EQ(norms, 12);
}

TEST(Lower, ParallelBlocksHaveNoAdditionsOfTheirOwn) {
  const auto program = lowered_family("phi", true);
  ASSERT_TRUE(program.ok());
  for (const Stage& stage : program->forward) {
    const auto* loop = std::get_if<LoopStage>(&stage.op);
    for (std::size_t i = 0; loop && i < loop->body.size(); ++i) {
      EXPECT_FALSE(std::holds_alternative<BinaryStage>(loop->body[i].op));
    }
  }
}

TEST(Lower, AScalarOfEachLayerIsData) {
  const auto program = lowered_family("scaled", true);
  ASSERT_TRUE(program.ok()) << format(program.error().first());
  const LoopStage* loop = nullptr;
  for (const Stage& stage : program->forward) {
    if (const auto* found = std::get_if<LoopStage>(&stage.op)) loop = found;
  }
  ASSERT_NE(loop, nullptr);
  EXPECT_EQ(loop->count, 3u);
  std::size_t scalars = 0;
  for (const Stage& stage : loop->body) {
    const auto* s = std::get_if<BinaryStage>(&stage.op);
    if (s == nullptr || !s->number.exists()) continue;
    ++scalars;
    ASSERT_TRUE(s->number.per_layer);
    const LoopStage::Field& field = loop->fields[s->number.index];
    ASSERT_EQ(field.weights.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) {
      const PackedWeight& weight = program->weights[field.weights[i]];
      EXPECT_EQ(weight.rows, 1u);
      const float number = 0.75f / static_cast<float>(i + 1);
      EXPECT_EQ(ir::to_doubles(*weight.data), std::vector<double>{number});
    }
  }
  EXPECT_EQ(scalars, 2u);  // for attention and MLP
}

TEST(Lower, AScalarThatAllLayersShareStaysInTheSource) {
  tests::Family family{.name = "alike"};
  family.layers = 3;
  family.layer_scale = 2;
  family.same_scale = true;
  auto rolled = passes::run_pipeline(tests::FamilyText(family).build());
  ASSERT_TRUE(rolled.ok());
  const auto program = lower(rolled->graph, {});
  ASSERT_TRUE(program.ok());
  for (const PackedWeight& weight : program->weights) EXPECT_GT(weight.rows, 1u) << weight.label;
}

TEST(Lower, AttributesThatDifferKeepLayersApart) {
  tests::Family family{.name = "apart"};
  family.layers = 3;
  family.scale_step = 0.125;
  auto fused = passes::run_pipeline(tests::FamilyText(family).build());
  ASSERT_TRUE(fused.ok());
  const auto program = lower(fused->graph, {});
  ASSERT_TRUE(program.ok());
  std::vector<float> scales;
  for (const Stage& stage : program->forward) {
    if (const auto* s = std::get_if<AttentionStage>(&stage.op)) scales.push_back(s->scale);
  }
  EXPECT_EQ(scales, (std::vector<float>{0.25f, 0.375f, 0.5f}));
}

TEST(Lower, PowersAreProductsRootsAndQuotients) {
  const auto kinds = [](double power) {
    tests::Family family{.name = "powers"};
    family.layers = 1;
    family.gated = false;
    family.power = power;
    std::vector<std::string> found;
    const auto program = lower(tests::FamilyText(family).build(), {});
    if (!program.ok()) return std::vector{program.error().first().message};
    for (const Stage& stage : program->forward) {
      if (const auto* s = std::get_if<BinaryStage>(&stage.op);
          s != nullptr && s->kind == ir::BinaryKind::kMul)
        found.emplace_back(s->a == s->b ? "square" : "product");
      if (const auto* s = std::get_if<UnaryStage>(&stage.op);
          s != nullptr && s->kind != ir::UnaryKind::kSilu)
        found.emplace_back(ir::op_name(ir::Unary{s->kind}));
      if (std::holds_alternative<MapStage>(stage.op)) found.emplace_back("loop nest");
    }
    return found;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(kinds(2), Names{"square"});
  EXPECT_EQ(kinds(3), (Names{"square", "product"}));
  EXPECT_EQ(kinds(4), (Names{"square", "square"}));
  EXPECT_EQ(kinds(0.5), Names{"sqrt"});
  EXPECT_EQ(kinds(-0.5), (Names{"sqrt", "reciprocal"}));
  EXPECT_EQ(kinds(-1), Names{"reciprocal"});
  EXPECT_EQ(kinds(1.5), Names{"loop nest"});
}

TEST(Lower, LearnedPositionsLimitTheContext) {
  const auto program = lowered_family("gpt2");
  ASSERT_TRUE(program.ok());
  EXPECT_EQ(program->positions_max, 128u);
}

TEST(Lower, PositionTablesEndWithTheContext) {
  for (const tests::Family& family : tests::families()) {
    if (!family.rope_table && !family.learned_positions) continue;
    const ir::Graph graph =
        passes::assign_weight_formats(tests::FamilyText(family).build(), passes::FormatPolicy{});
    const auto program = lower(graph, {.context = 48});
    ASSERT_TRUE(program.ok());
    EXPECT_EQ(program->positions_max, 128u);
    std::size_t tables = 0;
    for (const PackedWeight& weight : program->weights) {
      if (!weight.label.starts_with("rope_table") && !weight.label.starts_with("position_"))
        continue;
      ++tables;
      EXPECT_EQ(weight.rows, 48u);
    }
    EXPECT_EQ(tables, 1u) << family.name;  // all layers read the same one
  }
}

TEST(Lower, RefusesAWeightThatDoesNotFit) {
  ir::Graph graph = stage_graph({.layers = 1, .rolled = false});
  for (ir::Node& node : graph.mutable_nodes()) {
    if (ir::op_as<ir::Linear>(&node) && node.inputs.size() > 4) {
      const auto wrong = graph.add_value({"wrong", {ir::ElementType::kF32, {64, 63}}});
      node.inputs[1] = wrong;
      break;
    }
  }
  const auto result = lower(graph, {});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().first().kind, ErrorKind::kBadInput);
  EXPECT_THAT(result.error().first().message, HasSubstr("does not fit"));
}

TEST(Lower, RefusesAGraphWithoutACache) {
  ir::Graph graph;
  const auto ids = graph.add_input(
      {"input_ids", {ir::ElementType::kI64, {ir::Dim::symbol("seq")}}, ir::InputKind::kTokenIds});
  graph.add_output(ids);
  const auto result = lower(graph, {});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().first().kind, ErrorKind::kUnsupported);
}

TEST(RowsOf, AreStoredTokenByToken) {
  const ir::Dim seq = ir::Dim::symbol("seq");
  const auto rows = [](std::vector<ir::Dim> dims) {
    return rows_of({ir::ElementType::kF32, std::move(dims)});
  };
  EXPECT_EQ(rows({1, seq, 4, 8})->width, 32u);
  EXPECT_FALSE(rows({seq, 1, 8})->one_row);
  EXPECT_TRUE(rows({1, 1, 8})->one_row);
  EXPECT_EQ(rows({1, 4, seq, 8})->width, 32u);  // heads before tokens: stored after them
  EXPECT_EQ(rows({*mul(seq, 2), 8})->width, 16u);
  EXPECT_FALSE(rows({*add(seq, 1), 8}).has_value());
  EXPECT_FALSE(rows({seq, seq}).has_value());
  EXPECT_FALSE(rows({ir::Dim::symbol("past"), 8}).has_value());
  EXPECT_FALSE(rows({seq, INT64_MAX, INT64_MAX}).has_value());
}

}  // namespace
}  // namespace llmc::plan
