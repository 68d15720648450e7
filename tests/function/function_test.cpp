#include "compiler/driver/function.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "compiler/exec/function_library.h"
#include "compiler/ir/text.h"
#include "compiler/ir/verify.h"
#include "compiler/reference/interpreter.h"
#include "compiler/support/subprocess.h"
#include "tests/function/cases.h"
#include "tests/function/made_up.h"

namespace llmc::function_test {
namespace {

struct Prepared {
  Case test;
  ir::Graph graph;
  std::vector<ir::Value> inputs;
  std::vector<ir::ConstantPtr> data;
  std::vector<reference::Tensor> expected;
};

std::vector<Prepared> prepare() {
  std::vector<Prepared> all;
  std::uint64_t state = 1;
  for (const auto cases : {elementwise_cases(), data_cases(), math_cases()}) {
    for (const Case& test : cases) {
      auto graph = ir::parse(test.graph);
      if (!graph.ok()) {
        ADD_FAILURE() << test.name << ": " << format(graph.error().first());
        continue;
      }
      Prepared p{test, *std::move(graph), {}, {}, {}};
      if (const Status sound = ir::verify(p.graph); !sound.ok())
        ADD_FAILURE() << test.name << ": " << format(sound.error().first());
      std::vector<reference::Tensor> tensors;
      for (const ir::ValueId input : p.graph.inputs()) {
        p.inputs.push_back(p.graph.value(input));
        p.data.push_back(made_up(p.inputs.back().type, test.specials, state));
        tensors.push_back(reference::to_tensor(*p.data.back()));
      }
      auto expected = reference::evaluate(p.graph, tensors);
      if (!expected.ok()) {
        ADD_FAILURE() << test.name << ": " << format(expected.error().first());
        continue;
      }
      p.expected = *std::move(expected);
      all.push_back(std::move(p));
    }
  }
  return all;
}

std::unique_ptr<exec::FunctionLibrary> compile(const std::vector<Prepared>& cases,
                                               const std::string& target) {
  std::vector<exec::FunctionLibrary::Job> jobs;
  for (const Prepared& p : cases) jobs.push_back({&p.graph, p.inputs, std::string(p.test.name)});
  exec::FunctionLibrary::Outcome outcome;
  auto library = exec::FunctionLibrary::compile(jobs, target, "-O2", outcome);
  if (!library.ok()) {
    ADD_FAILURE() << format(library.error().first());
    return nullptr;
  }
  for (std::size_t i = 0; i < jobs.size(); ++i)
    if (outcome[i]) ADD_FAILURE() << jobs[i].name << ": " << format(outcome[i]->first());
  return *std::move(library);
}

TEST(Function, NativeCodeAgreesWithTheInterpreterAndAcrossTargets) {
  const std::vector<Prepared> cases = prepare();
  std::vector<std::unique_ptr<exec::FunctionLibrary>> libraries;
  for (const target::Target& target : target::all())
    if (target::runs_here(target)) libraries.push_back(compile(cases, std::string(target.name)));
  for (std::size_t i = 0; i < cases.size(); ++i) {
    std::vector<ir::ConstantPtr> first;
    for (const auto& library : libraries) {
      if (!library) continue;
      const auto outputs = library->run(i, cases[i].data);
      ASSERT_TRUE(outputs.ok()) << cases[i].test.name << format(outputs.error().first());
      ASSERT_EQ(outputs->size(), cases[i].expected.size());
      for (std::size_t o = 0; o < outputs->size(); ++o) {
        const std::string what = std::string(cases[i].test.name) + " output " + std::to_string(o);
        const ir::Constant& output = *(*outputs)[o];
        expect_close(cases[i].expected[o], output, cases[i].test.tolerance, what);
        if (!first.empty())
          EXPECT_EQ(first[o]->bytes(), output.bytes()) << what << ": other bits on another target";
      }
      first = *outputs;
    }
  }
}

TEST(Function, AnIndexOutsideItsTensorIsAnErrorAndNeverFollowed) {
  const auto graph = ir::parse(R"(graph @g(%x: f32[5, 4], %i: i64[2]) {
  %y = gather %x, %i {axis = 0}
  return %y
})");
  ASSERT_TRUE(graph.ok());
  std::vector<ir::Value> inputs;
  for (const ir::ValueId input : graph->inputs()) inputs.push_back(graph->value(input));
  exec::FunctionLibrary::Outcome outcome;
  const exec::FunctionLibrary::Job job{&*graph, inputs, "gather"};
  const auto library =
      exec::FunctionLibrary::compile(std::span(&job, 1), "generic", "-O1", outcome);
  ASSERT_TRUE(library.ok() && !outcome[0]);
  const ir::ConstantPtr x = ir::make_splat(ir::ElementType::kF32, {5, 4}, 1);
  EXPECT_TRUE((*library)->run(0, std::vector{x, ir::make_i64({2}, {-5, 4})}).ok());
  for (const std::int64_t bad : {std::int64_t{5}, std::int64_t{-6}, INT64_MAX, INT64_MIN}) {
    const auto outputs = (*library)->run(0, std::vector{x, ir::make_i64({2}, {0, bad})});
    ASSERT_FALSE(outputs.ok()) << bad;
    EXPECT_EQ(outputs.error().first().kind, ErrorKind::kBadInput);
  }
}

TEST(Function, SymbolicSizesAndUnknownDimsAreRefused) {
  const auto graph = ir::parse("graph @g(%x: f32[n, 4]) {\n  %y = exp %x\n  return %y\n}");
  ASSERT_TRUE(graph.ok());
  EXPECT_EQ(driver::bind_dims(*graph, {{"m", 2}}).error().first().kind, ErrorKind::kUsage);
  plan::PlanOptions options;
  options.target = *target::find("generic");
  options.name = "g";
  const std::vector<ir::Value> inputs{graph->value(graph->inputs()[0])};
  const auto refused = driver::plan_graph(*graph, inputs, options);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().first().kind, ErrorKind::kUnsupported);
  const auto bound = driver::bind_dims(*graph, {{"n", 3}});
  ASSERT_TRUE(bound.ok());
  const auto plan = driver::plan_graph(*bound, {bound->value(bound->inputs()[0])}, options);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->program.outputs[0].dims, (plan::Sizes{3, 4}));
  EXPECT_EQ(plan->arena_bytes, 64u);
}

Result<ir::Graph> three_dims(const std::string& third) {
  return ir::parse("graph @g(%x: f32[batch_size, past], %y: f32[batch_size, " + third +
                   "]) {\n  %a = exp %x\n  %b = exp %y\n  return %a, %b\n}");
}

TEST(BindDims, ASumOfGivenSizesFollows) {
  const auto graph = three_dims("past + 1");
  ASSERT_TRUE(graph.ok());
  const auto dims_of_y = [&](const plan::DimRanges& dims) {
    const auto bound = driver::bind_dims(*graph, dims);
    EXPECT_TRUE(bound.ok()) << (bound.ok() ? "" : format(bound.error().first()));
    return bound.ok() ? ir::to_string(bound->value(bound->inputs()[1]).type) : "";
  };
  EXPECT_EQ(dims_of_y({{"batch_size", 2}, {"past", 7}}), "f32[2, 8]");
  // The sum itself, in any spelling, gives the size that it is made of.
  EXPECT_EQ(dims_of_y({{"batch_size", 2}, {"past + 1", 9}}), "f32[2, 9]");
  EXPECT_EQ(dims_of_y({{"batch_size", 2}, {"past+1", 9}}), "f32[2, 9]");
  EXPECT_EQ(dims_of_y({{"past", 8}, {"past + 1", 9}, {"batch_size", 1}}), "f32[1, 9]");
  const auto message = [&](const plan::DimRanges& dims) {
    const auto bound = driver::bind_dims(*graph, dims);
    EXPECT_FALSE(bound.ok());
    return bound.ok() ? "" : bound.error().first().message;
  };
  EXPECT_THAT(message({{"past", 3}, {"past + 1", 9}}), ::testing::HasSubstr("contradicts"));
  EXPECT_THAT(message({{"2*past + 1", 4}}), ::testing::HasSubstr("contradicts"));
  EXPECT_THAT(message({{"past + 1", 0}}), ::testing::HasSubstr("-1"));
  EXPECT_THAT(message({{"past + 1", INT64_MIN}}), ::testing::HasSubstr("contradicts"));
}

TEST(BindDims, AllMissingSizesAreListedAsFlags) {
  const auto graph = three_dims("\"encoder length\"");
  ASSERT_TRUE(graph.ok());
  EXPECT_EQ(driver::missing_dims(*graph),
            "--dim batch_size=1 --dim past=N --dim 'encoder length=N'");
  const auto bound = driver::bind_dims(*graph, {{"past", 4}, {"batch_size", 1}});
  ASSERT_TRUE(bound.ok());
  EXPECT_EQ(driver::missing_dims(*bound), "--dim 'encoder length=N'");
  const auto unknown = driver::bind_dims(*graph, {{"batchsize", 1}});
  ASSERT_FALSE(unknown.ok());
  EXPECT_THAT(unknown.error().first().hint, ::testing::HasSubstr("did you mean batch_size?"));
  EXPECT_THAT(unknown.error().first().hint, ::testing::HasSubstr("encoder length"));
}

TEST(BindDims, FlagsAreSafeInAShellAndNameTheWholeSymbol) {
  const plan::DimRanges sizes{{"past", 4}, {"batch_size", 1}};
  for (const std::string& name :
       {std::string("x' ; touch /tmp/y ; '"), std::string("$(touch x)`touch y`"),
        std::string("-- a\\"), std::string(100, 'n'), std::string(190, '\'')}) {
    auto graph = three_dims("n");
    ASSERT_TRUE(graph.ok());
    graph->value(graph->inputs()[1]).type.dims[1] = ir::Dim::symbol(name);
    const auto bound = driver::bind_dims(*graph, sizes);
    ASSERT_TRUE(bound.ok());
    const auto output = run_command({"sh", "-c", "printf '%s|' " + driver::missing_dims(*bound)});
    ASSERT_TRUE(output.ok());
    EXPECT_EQ(output->standard_output, "--dim|" + name + "=N|");
  }
}

}  // namespace
}  // namespace llmc::function_test
