#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "compiler/driver/dims.h"
#include "compiler/driver/prepare.h"
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
      Prepared p{test, *std::move(graph), {}, {}};
      if (const Status sound = ir::verify(p.graph); !sound.ok())
        ADD_FAILURE() << test.name << ": " << format(sound.error().first());
      std::vector<reference::Tensor> tensors;
      for (const ir::ValueId input : p.graph.inputs()) {
        p.data.push_back(made_up(p.graph.value(input).type, test.specials, state));
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

/// g++ refuses designated initializers that are not in the order of the fields, clang++ only warns.
const std::vector<std::string> kStrict{"-O2", "-Werror=reorder-init-list"};

std::unique_ptr<exec::FunctionLibrary> compile(const std::vector<Prepared>& cases,
                                               const std::string& target) {
  std::vector<exec::FunctionLibrary::Job> jobs;
  for (const Prepared& p : cases) jobs.push_back({&p.graph, std::string(p.test.name)});
  exec::FunctionLibrary::Outcome outcome;
  auto library = exec::FunctionLibrary::compile(jobs, target, kStrict, outcome);
  if (!library.ok()) {
    ADD_FAILURE() << format(library.error().first());
    return nullptr;
  }
  for (std::size_t i = 0; i < jobs.size(); ++i)
    if (outcome[i]) ADD_FAILURE() << jobs[i].name << ": " << format(outcome[i]->first());
  return *std::move(library);
}

TEST(Function, NativeCodeAgreesWithTheInterpreterAndAcrossTargetsAndThreads) {
  const std::vector<Prepared> cases = prepare();
  std::vector<std::unique_ptr<exec::FunctionLibrary>> libraries;
  for (const target::Target& target : target::all())
    if (target::runs_here(target)) libraries.push_back(compile(cases, std::string(target.name)));
  for (std::size_t i = 0; i < cases.size(); ++i) {
    std::vector<ir::ConstantPtr> first;
    for (const auto& library : libraries) {
      if (!library) continue;
      for (const std::uint32_t threads : {1u, 3u}) {
        const auto outputs = library->run(i, cases[i].data, threads);
        ASSERT_TRUE(outputs.ok()) << cases[i].test.name << format(outputs.error().first());
        ASSERT_EQ(outputs->size(), cases[i].expected.size());
        for (std::size_t o = 0; o < outputs->size(); ++o) {
          const std::string what =
              fmt::format("{} output {} on {} threads", cases[i].test.name, o, threads);
          const ir::Constant& output = *(*outputs)[o];
          expect_close(cases[i].expected[o], output, cases[i].test.tolerance, what);
          if (!first.empty())
            EXPECT_EQ(first[o]->bytes(), output.bytes()) << what << ": other bits";
        }
        first = *outputs;
      }
    }
  }
}

/// A layer of an encoder, large enough to be divided among workers: linear layers with a norm
/// before them, a residual, a gate and an activation; attention with a mask; loops and reductions.
constexpr std::string_view kLayer =
    R"(graph @g(%x: f32[2, 37, 96], %mask: f32[2, 1, 1, 37]) {
  %g = constant f32[96] random(1, 1)
  %h = layer_norm %x, %g {epsilon = 1e-5}
  %wq = constant f32[96, 96] random(2, 0.1)
  %q = matmul %h, %wq
  %wk = constant f32[96, 96] random(3, 0.1)
  %k = matmul %h, %wk
  %wv = constant f32[96, 96] random(4, 0.1)
  %bv = constant f32[96] random(5, 0.1)
  %v0 = matmul %h, %wv
  %v = add %v0, %bv
  %shape = constant i64[4] {2, 37, 4, 24}
  %q1 = reshape %q, %shape : f32[2, 37, 4, 24]
  %q2 = transpose %q1 {perm = [0, 2, 1, 3]}
  %k1 = reshape %k, %shape : f32[2, 37, 4, 24]
  %k2 = transpose %k1 {perm = [0, 2, 3, 1]}
  %v1 = reshape %v, %shape : f32[2, 37, 4, 24]
  %v2 = transpose %v1 {perm = [0, 2, 1, 3]}
  %s = matmul %q2, %k2
  %m = add %s, %mask
  %p = softmax %m {axis = -1}
  %o = matmul %p, %v2
  %o1 = transpose %o {perm = [0, 2, 1, 3]}
  %flat = constant i64[3] {2, 37, 96}
  %o2 = reshape %o1, %flat : f32[2, 37, 96]
  %wo = constant f32[96, 96] random(6, 0.1)
  %a = matmul %o2, %wo
  %r = add %a, %x
  %wu = constant f32[96, 200] random(7, 0.1)
  %u = matmul %r, %wu
  %wg = constant f32[96, 200] random(8, 0.1)
  %e = matmul %r, %wg
  %f = sigmoid %e
  %silu = mul %e, %f
  %gated = mul %silu, %u
  %wd = constant f32[200, 96] random(9, 0.1)
  %d = matmul %gated, %wd
  %y = add %d, %r
  %mean = reduce_mean %y {axes = [2], keep_dims = false}
  %soft = softmax %y {axis = 1}
  return %y, %mean, %soft
})";

TEST(Function, LinearLayersHaveTheSameBitsForAnyTargetAndNumberOfThreads) {
  const auto graph = ir::parse(kLayer);
  ASSERT_TRUE(graph.ok()) << format(graph.error().first());
  std::vector<ir::ConstantPtr> data;
  std::vector<reference::Tensor> tensors;
  std::uint64_t state = 1;
  for (const ir::ValueId input : graph->inputs()) {
    data.push_back(made_up(graph->value(input).type, false, state));
    tensors.push_back(reference::to_tensor(*data.back()));
  }
  const auto expected = reference::evaluate(*graph, tensors);
  ASSERT_TRUE(expected.ok());
  using enum ir::WeightFormat;
  const std::vector<std::pair<ir::WeightFormat, double>> formats{
      {kUnset, 2e-5}, {kF32, 2e-5}, {kF16, 5e-3}, {kQ8, 5e-2}, {kQ4, 0.4}};
  std::vector<exec::FunctionLibrary::Job> jobs;
  for (const auto& [format, tolerance] : formats)
    jobs.push_back({&*graph, "layer_" + std::to_string(jobs.size()), nullptr, format});
  std::vector<std::vector<ir::ConstantPtr>> first(jobs.size());
  for (const target::Target& target : target::all()) {
    if (!target::runs_here(target)) continue;
    exec::FunctionLibrary::Outcome outcome;
    const auto library =
        exec::FunctionLibrary::compile(jobs, std::string(target.name), "-O1", outcome);
    ASSERT_TRUE(library.ok()) << format(library.error().first());
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      ASSERT_FALSE(outcome[i]) << format(outcome[i]->first());
      const auto& forward = (*library)->plan(i).program.forward;
      EXPECT_EQ(std::ranges::count_if(forward,
                                      [](const plan::Stage& stage) {
                                        return std::holds_alternative<plan::LinearStage>(stage.op);
                                      }),
                6);  // gate and up are one
      for (const std::uint32_t threads : {1u, 2u, 3u}) {
        const auto outputs = (*library)->run(i, data, threads);
        ASSERT_TRUE(outputs.ok()) << format(outputs.error().first());
        const std::string what =
            fmt::format("{} of format {} on {} threads", target.name, i, threads);
        for (std::size_t o = 0; o < outputs->size(); ++o) {
          if (first[i].empty()) {
            expect_close((*expected)[o], *(*outputs)[o], formats[i].second, what);
          } else {
            EXPECT_EQ((*outputs)[o]->bytes(), first[i][o]->bytes()) << what;
          }
        }
        if (first[i].empty()) first[i] = *outputs;
      }
    }
  }
}

TEST(Function, AnIndexOutOfRangeIsReportedByAnyThread) {
  const auto graph = ir::parse(R"(graph @g(%x: f32[300, 20], %i: i64[300, 18]) {
  %y = gather_elements %x, %i {axis = 1}
  return %y
})");
  ASSERT_TRUE(graph.ok()) << format(graph.error().first());
  const ir::ConstantPtr x = ir::make_f32({300, 20}, std::vector<float>(6000, 1));
  exec::FunctionLibrary::Outcome outcome;
  const exec::FunctionLibrary::Job job{&*graph, "gather"};
  const auto library =
      exec::FunctionLibrary::compile(std::span(&job, 1), "generic", "-O1", outcome);
  ASSERT_TRUE(library.ok() && !outcome[0]);
  for (const std::size_t at : {std::size_t{0}, std::size_t{2700}, std::size_t{5399}}) {
    for (const std::int64_t index : {std::int64_t{-21}, std::int64_t{20}, INT64_MIN, INT64_MAX}) {
      for (const std::uint32_t threads : {1u, 3u}) {
        std::vector<std::int64_t> indices(5400, -20);
        EXPECT_TRUE((*library)->run(0, {{x, ir::make_i64({300, 18}, indices)}}, threads).ok());
        indices[at] = index;
        const auto ran = (*library)->run(0, {{x, ir::make_i64({300, 18}, indices)}}, threads);
        ASSERT_FALSE(ran.ok()) << index << " at " << at;
        EXPECT_EQ(ran.error().first().message, "an index in the data is outside its tensor");
      }
    }
  }
}

TEST(Function, QuantizedTablesAreLookedUpAsGatherDoes) {
  const auto graph = ir::parse(R"(graph @g(%i: i32[2, 3]) {
  %t = constant f32[40, 96] random(1, 1)
  %y = gather %t, %i {axis = 0}
  return %y
})");
  ASSERT_TRUE(graph.ok());
  const auto ids = [](std::vector<std::int32_t> values) {
    const auto bytes = std::as_bytes(std::span(values));
    return ir::make_constant(ir::ElementType::kI32, {2, 3}, {bytes.begin(), bytes.end()});
  };
  const ir::ConstantPtr good = ids({0, 39, -1, -40, 7, 7});
  const auto expected = reference::evaluate(*graph, std::vector{reference::to_tensor(*good)});
  ASSERT_TRUE(expected.ok());
  std::vector<exec::FunctionLibrary::Job> jobs;
  using enum ir::WeightFormat;
  for (const ir::WeightFormat format : {kUnset, kF32, kF16, kQ8, kQ4})
    jobs.push_back({&*graph, "table_" + std::to_string(jobs.size()), nullptr, format});
  exec::FunctionLibrary::Outcome outcome;
  const auto library = exec::FunctionLibrary::compile(jobs, "avx2", "-O1", outcome);
  ASSERT_TRUE(library.ok());
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    ASSERT_FALSE(outcome[i]) << format(outcome[i]->first());
    const auto rows = (*library)->run(i, std::vector{good});
    ASSERT_TRUE(rows.ok());
    expect_close((*expected)[0], *rows->front(), i < 2 ? 0 : 1e-2, jobs[i].name);
    const auto bad = (*library)->run(i, std::vector{ids({0, 1, 2, 3, 4, i % 2 == 0 ? 40 : -41})});
    ASSERT_FALSE(bad.ok());
    EXPECT_EQ(bad.error().first().kind, ErrorKind::kBadInput);
  }
  // A q8 row is a byte for each number and one scale.
  EXPECT_LT((*library)->plan(3).weights_bytes, 40u * 96 * 4 / 3);
}

/// Tensors may have the names of any constant of the headers that the emitted source includes.
TEST(Function, NamesOfTensorsDoNotConflictWithThoseOfTheHeaders) {
  std::set<std::string> names;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(LLMC_SOURCE_DIR "/templates/llmc")) {
    if (entry.path().extension() != ".h") continue;
    std::ifstream file(entry.path());
    for (std::string word; file >> word;)
      for (std::size_t at = word.find('k'); at != word.npos; at = word.find('k', at + 1)) {
        const auto is_letter = [&](std::size_t i) {
          return i < word.size() && std::isalnum(static_cast<unsigned char>(word[i])) != 0;
        };
        std::size_t end = at + 1;
        while (is_letter(end)) ++end;
        if (end > at + 1 && std::isupper(static_cast<unsigned char>(word[at + 1])) != 0)
          names.insert(word.substr(at + 1, end - at - 1));
      }
  }
  ASSERT_TRUE(names.contains("Done") && names.contains("PanelRows")) << names.size();
  std::string text = "graph @g(%x: f32[2]) {\n", last = "x";
  int number = 0;
  for (const std::string& name : names) {
    // A constant and a value in the arena.
    text += fmt::format("  %{0} = constant f32[2] {{{1}, {2}}}\n  %s{1} = add %{3}, %{0}\n", name,
                        number, -number, last);
    last = fmt::format("s{}", number++);
  }
  for (const char* const name : {"Done", "BadOptions", "Work"}) {
    text += fmt::format("  %\"/v/{0}\" = softmax %{1} {{axis = 0}}\n", name, last);
    last = fmt::format("\"/v/{}\"", name);
  }
  const auto graph = ir::parse(text + fmt::format("  return %{}\n}}", last));
  ASSERT_TRUE(graph.ok()) << format(graph.error().first());
  exec::FunctionLibrary::Outcome outcome;
  const exec::FunctionLibrary::Job job{&*graph, "names"};
  const auto library = exec::FunctionLibrary::compile(std::span(&job, 1), "avx2", "-O0", outcome);
  ASSERT_TRUE(library.ok()) << format(library.error().first());
  ASSERT_FALSE(outcome[0]) << format(outcome[0]->first());
  EXPECT_TRUE((*library)->run(0, std::vector{ir::make_splat(ir::ElementType::kF32, {2}, 1)}).ok());
}

TEST(Function, AnIndexOutsideItsTensorIsAnErrorAndNeverFollowed) {
  const auto graph = ir::parse(R"(graph @g(%x: f32[5, 4], %i: i64[2]) {
  %y = gather %x, %i {axis = 0}
  return %y
})");
  ASSERT_TRUE(graph.ok());
  exec::FunctionLibrary::Outcome outcome;
  const exec::FunctionLibrary::Job job{&*graph, "gather"};
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
  const auto refused = driver::plan_graph(*graph, options);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().first().kind, ErrorKind::kUnsupported);
  const auto bound = driver::bind_dims(*graph, {{"n", 3}});
  ASSERT_TRUE(bound.ok());
  const auto plan = driver::plan_graph(*bound, options);
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
  EXPECT_THAT(message({{"past", {1, 4}}, {"past + 1", 3}}), ::testing::HasSubstr("contradicts"));
  const auto sum = three_dims("a + b");
  const auto bound = driver::bind_dims(*sum, {{"a", {1, 4}}, {"b", {1, 4}}, {"a + b", 5}});
  ASSERT_FALSE(bound.ok());
  EXPECT_THAT(bound.error().first().message, ::testing::HasSubstr("'a' has a range"));
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
