#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "compiler/emit/source.h"
#include "compiler/ir/builder.h"
#include "compiler/ir/text.h"
#include "tests/emit/lines.h"

namespace llmc::emit {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// An attention-like graph: loops over broadcasts and views, both kinds of product, a gather that
/// can fail.
constexpr std::string_view kGraph =
    R"(graph @g(%ids: i64[1, 3], %bias: f32[8], %"odd */ name": f16[2, 4]) {
  %table = constant f32[5, 8] random(1, 0.5)
  %w = constant f32[8, 4] random(2, 0.5)
  %x = gather %table, %ids {axis = 0} : f32[1, 3, 8] @"g.onnx" "/embed/Gather"
  %s = add %x, %bias
  %g = sigmoid %s
  %p = mul %s, %g : f32[1, 3, 8] @"g.onnx" "/mlp/Mul"
  %m = matmul %p, %w
  %t = transpose %m {perm = [0, 2, 1]}
  %a = matmul %m, %t
  %y = softmax %a {axis = -1}
  %f = cast %"odd */ name" {to = f32}
  %n = tanh %f
  %h = cast %n {to = f16}
  return %y, %h
})";

plan::Plan function_plan(bool embed = true) {
  const auto graph = ir::parse(kGraph);
  EXPECT_TRUE(graph.ok());
  plan::PlanOptions options;
  options.entry = ir::EntryKind::kRun;
  options.target = *target::find("avx2");
  options.name = "tiny";
  options.embed_weights = embed;
  auto plan = plan::make_plan(*graph, options);
  EXPECT_TRUE(plan.ok());
  return *std::move(plan);
}

/// LLMC_UPDATE_GOLDEN=1 writes the file anew.
void expect_golden(const std::string& file, const std::string& text) {
  tests::expect_lines_fit(text);
  const std::string path = std::string(LLMC_SOURCE_DIR) + "/tests/emit/golden/" + file;
  if (std::getenv("LLMC_UPDATE_GOLDEN")) {
    std::ofstream(path, std::ios::binary) << text;
    return;
  }
  std::ifstream in(path, std::ios::binary);
  std::ostringstream golden;
  golden << in.rdbuf();
  EXPECT_EQ(golden.str(), text) << "LLMC_UPDATE_GOLDEN=1 writes " << path << " anew";
}

TEST(FunctionSource, IsTheGolden) {
  expect_golden("function.cpp.golden", model_source(function_plan(), 7));
  expect_golden("function.h.golden", header(function_plan(), 7));
}

TEST(FunctionSource, NamesOfTheModelStayInCommentsAndStrings) {
  const std::string header = emit::header(function_plan(), 7);
  EXPECT_THAT(header, HasSubstr("/* input 2: odd _/ name f16[2, 4] */"));
  EXPECT_THAT(header, HasSubstr("#define TINY_INPUT_2_NAME \"odd */ name\""));
  EXPECT_THAT(header, HasSubstr("#define TINY_INPUT_ODD____NAME 2"));
}

TEST(FunctionSource, ConstantsThatAreNotEmbeddedAreOneMoreInput) {
  const plan::Plan plan = function_plan(false);
  EXPECT_THAT(header(plan, 7), HasSubstr("#define TINY_INPUT_WEIGHTS 3"));
  EXPECT_THAT(model_source(plan, 7), Not(HasSubstr("tiny_weights[")));
  EXPECT_THAT(model_source(plan, 7), HasSubstr("weights_in(inputs[3], 704, 0x0000000000000007u)"));
}

/// clang takes time that grows with the square of the calls in one function.
TEST(FunctionSource, ManyStagesAreCutIntoParts) {
  ir::Builder builder;
  const ir::ValueId x = builder.input("x", {ir::ElementType::kF32, {2, 3}});
  const auto y = builder.add_one(ir::Concat{0}, std::vector<ir::ValueId>(300, x));
  ASSERT_TRUE(y.ok());
  builder.output(*y);
  plan::PlanOptions options;
  options.entry = ir::EntryKind::kRun;
  options.target = *target::find("avx2");
  options.name = "many";
  const auto plan = plan::make_plan(std::move(builder).take(), options);
  ASSERT_TRUE(plan.ok());
  const std::string source = model_source(*plan, 7);
  EXPECT_THAT(source, HasSubstr("// Stages 256 to 299."));
  EXPECT_THAT(source, HasSubstr("if (const Status status = part_1(m); status != kDone)"));
  EXPECT_THAT(source, Not(HasSubstr("part_2(")));
}

/// Macros of the same name twice do not compile.
TEST(FunctionSource, NamesThatCollideGetANumber) {
  const auto graph =
      ir::parse(R"(graph @g(%weights: f32[3, 8], %"a.b": f32[3], %a_b: f32[3], %A_B: f32[3]) {
  %w = constant f32[8, 3] random(2, 0.5)
  %x = matmul %weights, %w
  %y = add %"a.b", %a_b
  %z = add %y, %A_B
  %r = add %x, %z
  return %r
})");
  ASSERT_TRUE(graph.ok());
  plan::PlanOptions options;
  options.entry = ir::EntryKind::kRun;
  options.target = *target::find("generic");
  options.name = "tiny";
  options.embed_weights = false;
  const auto plan = plan::make_plan(*graph, options);
  ASSERT_TRUE(plan.ok());
  const std::string header = emit::header(*plan, 7);
  for (const char* line :
       {"INPUT_WEIGHTS 4", "INPUT_WEIGHTS_2 0", "INPUT_A_B 1", "INPUT_A_B_2 2", "INPUT_A_B_3 3"})
    EXPECT_THAT(header, HasSubstr(std::string("#define TINY_") + line + "\n"));
}

TEST(FunctionSource, ArgumentsOfAttentionHaveNames) {
  const auto graph =
      ir::parse(R"(graph @g(%the_queries_of_a_block_whose_name_is_long: f32[2, 4, 64, 8],
          %k: f32[2, 4, 8, 70], %v: f32[2, 4, 70, 8], %m: bool[64, 70]) {
  %y = scaled_attention %the_queries_of_a_block_whose_name_is_long, %k, %v, _, %m {scale = 0.5, softcap = 30, fill = -10000}
  return %y
})");
  ASSERT_TRUE(graph.ok()) << llmc::format(graph.error().first());
  plan::PlanOptions options;
  options.entry = ir::EntryKind::kRun;
  options.target = *target::find("avx2");
  options.name = "tiny";
  const auto plan = plan::make_plan(*graph, options);
  ASSERT_TRUE(plan.ok());
  const std::string source = model_source(*plan, 7);
  tests::expect_lines_fit(source);
  tests::expect_lines_fit(header(*plan, 7));
  EXPECT_THAT(source,
              HasSubstr("{.queries = 64, .keys = 70, .depth = 8, .width = 8, .scale = 0.5f,"));
  EXPECT_THAT(source, HasSubstr(".masked = true,"));
  EXPECT_THAT(source, HasSubstr(".cap = 30.0f}"));
  EXPECT_THAT(source, HasSubstr("/*batch=*/function::Sizes<2, 4>{}"));
  EXPECT_THAT(source, Not(HasSubstr("biased")));
}

TEST(FunctionSource, BuffersThatAreNeverNeededTogetherShare) {
  const plan::Plan plan = function_plan();
  std::uint64_t values = 0;
  for (const plan::BufferPlace& place : plan.memory.buffers) values += place.bytes;
  EXPECT_LT(plan.arena_bytes, values);
  for (const plan::BufferPlace& a : plan.memory.buffers)
    for (const plan::BufferPlace& b : plan.memory.buffers) {
      if (&a == &b || a.bytes == 0 || b.bytes == 0) continue;
      const bool together = a.first <= b.last && b.first <= a.last;
      const bool apart = a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset;
      EXPECT_TRUE(!together || apart) << a.offset << " and " << b.offset;
    }
}

TEST(FunctionSource, OpenDimsAreVariablesWithHarmlessNames) {
  const auto graph = ir::parse(R"(graph @g(%x: f32["int; //*/", "Batch Size", 4]) {
  %t = transpose %x {perm = [1, 0, 2]}
  %y = exp %t
  return %y
})");
  ASSERT_TRUE(graph.ok());
  plan::PlanOptions options;
  options.entry = ir::EntryKind::kRun;
  options.target = *target::find("generic");
  options.name = "tiny";
  options.open_dims = {{"int; //*/", {1, 5}}, {"Batch Size", {2, 3}}};
  const auto plan = plan::make_plan(*graph, options);
  ASSERT_TRUE(plan.ok());
  const std::string header = emit::header(*plan, 7), source = model_source(*plan, 7);
  EXPECT_THAT(header,
              HasSubstr("/* input 0: x f32[int, batch_size, 4]; _DIMS and _BYTES: at most"));
  EXPECT_THAT(header, HasSubstr("#define TINY_INPUT_0_DIMS {5, 3, 4}\n"));
  EXPECT_THAT(header, HasSubstr("#define TINY_DIM_INT 0\n#define TINY_DIM_0_NAME \"int; //*/\"\n"));
  EXPECT_THAT(header, HasSubstr("#define TINY_DIM_BATCH_SIZE 1\n"));
  EXPECT_THAT(header, HasSubstr("#define TINY_DIM_1_MIN 2\n#define TINY_DIM_1_MAX 3\n"));
  EXPECT_THAT(source, HasSubstr("const int64_t n_int = dims == nullptr ? 5 : dims[0];\n"));
  EXPECT_THAT(source, HasSubstr("if (n_batch_size < 2 || n_batch_size > 3) return kBadOptions;"));
  EXPECT_THAT(source, HasSubstr("i < n_batch_size"));
}

}  // namespace
}  // namespace llmc::emit
