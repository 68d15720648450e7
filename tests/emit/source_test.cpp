#include "compiler/emit/source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <ostream>
#include <sstream>

#include "compiler/emit/descriptor.h"
#include "compiler/emit/stage_marks.h"
#include "compiler/target/device.h"
#include "tests/emit/lines.h"
#include "tests/plan/stage_graph.h"

/// Whole emitted files against tests/emit/golden. Rewrite them after a change of the emitter with
///   LLMC_UPDATE_GOLDEN=1 build/tests/llmc_tests_emit --gtest_filter='*Golden*'
namespace llmc::emit {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

plan::Plan plan_of(const ir::Graph& graph, const char* device = "") {
  plan::PlanOptions options;
  options.device = target::find_device(device);
  if (options.device != nullptr) options.chunk = 64;
  options.target = *target::find("avx2");
  options.name = "tiny";
  options.ctx = 256;
  auto plan = plan::make_plan(graph, options);
  if (!plan.ok()) ADD_FAILURE() << llmc::format(plan.error().first());
  return *std::move(plan);
}

struct GoldenCase {
  const char* file;
  tests::StageModel model;
  const char* device = "";

  friend void PrintTo(const GoldenCase& c, std::ostream* out) { *out << c.file; }
};

class GoldenSource : public ::testing::TestWithParam<GoldenCase> {};

TEST_P(GoldenSource, IsWhatWasReviewed) {
  const GoldenCase& test = GetParam();
  const std::filesystem::path path =
      std::filesystem::path(LLMC_SOURCE_DIR) / "tests/emit/golden" / test.file;
  const plan::Plan plan = plan_of(tests::stage_graph(test.model), test.device);
  constexpr std::uint64_t kHash = 0x0123456789abcdef;
  const std::string text =
      path.stem().extension() == ".h" ? header(plan, kHash) : model_source(plan, kHash);
  if (std::getenv("LLMC_UPDATE_GOLDEN") != nullptr) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  std::ifstream file(path);
  std::stringstream golden;
  golden << file.rdbuf();
  EXPECT_EQ(text, golden.str()) << "see the comment at the top of this file";
  tests::expect_lines_fit(text);
}

INSTANTIATE_TEST_SUITE_P(Files, GoldenSource,
                         ::testing::Values(GoldenCase{"rolled_q4.cpp.golden", {}},
                                           GoldenCase{"rolled_q4.h.golden", {}},
                                           GoldenCase{"steps_q4.cpp.golden", {}, "reference"},
                                           GoldenCase{"unrolled_f32.cpp.golden",
                                                      {.layers = 1,
                                                       .rolled = false,
                                                       .qkv_bias = false,
                                                       .select_last_row = false,
                                                       .quant = ir::WeightFormat::kF32}}),
                         [](const auto& info) {
                           std::string name = info.param.file;
                           std::ranges::replace(name, '.', '_');
                           return name;
                         });

TEST(ModelSource, TheWidthOfFeedForwardBlocksHasANameIfThereIsOne) {
  plan::Plan plan = plan_of(tests::stage_graph({.layers = 2, .rolled = false}));
  EXPECT_THAT(model_source(plan, 1), HasSubstr("kFfn = 96;"));
  EXPECT_THAT(model_source(plan, 1), HasSubstr("Gated<kFfn, Silu>"));
  for (plan::Stage& stage : plan.program.forward) {
    auto* const linear = std::get_if<plan::LinearStage>(&stage.op);
    if (linear == nullptr || linear->epilogue != plan::LinearStage::Epilogue::kGated) continue;
    linear->n = 64;
    break;
  }
  EXPECT_THAT(model_source(plan, 1), Not(HasSubstr("kFfn")));
  EXPECT_THAT(model_source(plan, 1), HasSubstr("Gated<32, Silu>"));
  EXPECT_THAT(model_source(plan, 1), HasSubstr("Gated<96, Silu>"));
}

TEST(ModelSource, SaysWhatTheCacheIsKeptIn) {
  plan::Plan plan = plan_of(tests::stage_graph());
  EXPECT_THAT(model_source(plan, 1), HasSubstr("kCache = {KvFormat::kF32, KvFormat::kF32};"));
  plan.options.kv = {KvFormat::kF16, KvFormat::kF32};
  EXPECT_THAT(model_source(plan, 1), HasSubstr("kCache = {KvFormat::kF16, KvFormat::kF32};"));
}

TEST(ModelSource, LargeHeadsInQ6HaveAFunctionForGreedyChoices) {
  tests::StageModel model{.vocabulary = 1 << 14, .quant = ir::WeightFormat::kQ6};
  const std::string source = model_source(plan_of(tests::stage_graph(model)), 1);
  EXPECT_THAT(source, HasSubstr("uint32_t choose(const llmc_run* run, const float* row,"));
  EXPECT_THAT(source, HasSubstr("WeightSplitQ6<kVocab, kHidden>"));
  EXPECT_THAT(source, HasSubstr("Choose<kVocab>{&choice, room}"));
  EXPECT_THAT(source, HasSubstr(".choose = choose,"));
  model.vocabulary = 128;
  EXPECT_THAT(model_source(plan_of(tests::stage_graph(model)), 1), Not(HasSubstr("choose")));
}

TEST(ModelSource, APromptIsDataThatSequencesBeginWith) {
  const plan::Plan without = plan_of(tests::stage_graph());
  EXPECT_THAT(model_source(without, 1), Not(HasSubstr("prefix")));
  EXPECT_THAT(header(without, 1), Not(HasSubstr("PROMPT")));
  plan::PlanOptions options = without.options;
  options.prompt = {5, 6, 7};
  const auto plan = plan::make_plan(tests::stage_graph(), options);
  ASSERT_TRUE(plan.ok());
  const std::string source = model_source(*plan, 1);
  EXPECT_THAT(source, HasSubstr("const tiny_prompt_data tiny_prompt;"));
  EXPECT_THAT(source, HasSubstr(".prefix_tokens = TINY_PROMPT_TOKENS,"));
  EXPECT_THAT(source, HasSubstr(".prefix_blocks = tiny_prompt.blocks,"));
  EXPECT_THAT(source, HasSubstr(".prefix_row = tiny_prompt.row,"));
  EXPECT_THAT(header(*plan, 1), HasSubstr("#define TINY_PROMPT_TOKENS 3u"));
  EXPECT_THAT(header(*plan, 1), HasSubstr(std::to_string(plan->prompt.bytes) + "u"));
}

/// Returns the offset of `name` as a member of llmc_model in its header.
std::size_t offset_in_struct(const std::string& header, const std::string& name) {
  const std::size_t begin = header.find("struct llmc_model {"), end = header.find("\n};", begin);
  for (const std::string& form :
       {" " + name + ";", " " + name + ",", "*" + name + ";", "(*" + name + ")"}) {
    const std::size_t at = header.find(form, begin);
    if (at < end) return at;
  }
  ADD_FAILURE() << name << " is no member";
  return 0;
}

TEST(ModelSource, TheDescriptorInitializesMembersInOrder) {
  std::ifstream file(std::filesystem::path(LLMC_SOURCE_DIR) / "runtime/include/llmc/model.h");
  std::stringstream text;
  text << file.rdbuf();
  std::string header = text.str();
  for (auto comment = header.find("/*"); comment != std::string::npos; comment = header.find("/*"))
    header.erase(comment, header.find("*/", comment) + 2 - comment);
  plan::Plan plan = plan_of(tests::stage_graph(), "reference");
  plan.encoder = plan.media_encoder = std::make_shared<const plan::Plan>(plan);
  plan.program.position_axes = 3;
  plan.prompt.tokens = 3;
  plan.state_bytes = 64;
  plan.options.vocabulary_hash = 1;
  plan.options.shard = {.index = 1, .count = 2};
  std::istringstream lines(descriptor(plan, 1));
  std::size_t last = 0;
  std::string before;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("    .")) continue;
    const std::string name = line.substr(5, line.find(' ', 5) - 5);
    const std::size_t offset = offset_in_struct(header, name);
    EXPECT_LT(last, offset) << name << " comes after " << before;  // an error in g++
    last = offset;
    before = name;
  }
  EXPECT_EQ(before, "vocabulary_hash");
}

TEST(ModelSource, DoesNotGrowWithDepth) {
  const std::string shallow = model_source(plan_of(tests::stage_graph({.layers = 2})), 1);
  const std::string deep = model_source(plan_of(tests::stage_graph({.layers = 20})), 1);
  const auto lines = [](const std::string& text) { return std::ranges::count(text, '\n'); };
  EXPECT_EQ(lines(deep) - lines(shallow), 18);  // a row of offsets for each layer
}

TEST(ModelSource, HostileNamesStayInComments) {
  tests::StageModel model;
  model.node_prefix = "*/ int x; /*\\\n#error ?\?/\n\"$(touch x)";
  ir::Graph graph = tests::stage_graph(model);
  for (const ir::Node& node : graph.nodes()) {
    if (ir::op_as<ir::ConstantOp>(&node)) {
      graph.value(node.outputs[0]).name = "evil\\\nint y;\n#include \"/etc/passwd\"\n*/";
    }
  }
  const std::string text = model_source(plan_of(graph), 1);
  EXPECT_THAT(text, Not(HasSubstr("int x;")));
  EXPECT_THAT(text, Not(HasSubstr("#error")));
  EXPECT_THAT(text, Not(HasSubstr("passwd\"")));
  EXPECT_THAT(text, Not(HasSubstr("\\")));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_EQ(line.find("*/"), std::string::npos) << line;
    if (line.starts_with("#")) EXPECT_THAT(line, HasSubstr("#include \""));
  }
}

TEST(ModelSource, TheSamePlanGivesTheSameBytes) {
  EXPECT_EQ(model_source(plan_of(tests::stage_graph()), 1),
            model_source(plan_of(tests::stage_graph()), 1));
}

TEST(StageMarks, FollowEveryStage) {
  const plan::Plan plan = plan_of(tests::stage_graph());
  const std::string source = model_source(plan, 1), marked = with_stage_marks(source);
  EXPECT_THAT(source, Not(HasSubstr("finished(")));
  EXPECT_THAT(marked, HasSubstr("  finished(Part::kDown);\n}\n\n/// Runs the layers on a chunk"));
  EXPECT_THAT(marked, HasSubstr("  finished(Part::kRest);\n\n  for (uint32_t i = 0; i < kLayers"));
  EXPECT_THAT(marked, HasSubstr("  finished(Part::kHead);\n\n  for (uint64_t i = 0; i < count"));
  std::size_t marks = 0;
  std::istringstream lines(marked);
  for (std::string line; std::getline(lines, line);) marks += line.starts_with("  finished(");
  EXPECT_EQ(marks, 8u);  // qkv, attention, output, gate and up, down; angles, embedding; head
}

TEST(Header, CarriesTheSizes) {
  const plan::Plan plan = plan_of(tests::stage_graph());
  const std::string text = header(plan, 1);
  EXPECT_THAT(text,
              HasSubstr("#define TINY_ARENA_BYTES " + std::to_string(plan.arena_bytes) + "u"));
  EXPECT_THAT(text, HasSubstr("#define TINY_VOCAB 128u"));
  EXPECT_THAT(text, HasSubstr("#ifndef TINY_H"));
  EXPECT_THAT(text, HasSubstr("extern \"C\""));
}

}  // namespace
}  // namespace llmc::emit
