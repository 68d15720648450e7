// llmc bench: what it measures, prints and refuses. Never how long anything takes.
#include "compiler/bench/bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "compiler/bench/gemm_operands.h"
#include "compiler/bench/parallel_timer.h"
#include "compiler/bench/peak.h"
#include "compiler/support/statistics.h"
#include "compiler/support/subprocess.h"
#include "tests/end_to_end/models.h"
#include "tests/end_to_end/program.h"

namespace llmc::tests {
namespace {

namespace fs = std::filesystem;
using bench::BenchResult;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

bench::BenchOptions bench_of(const fs::path& model) {
  bench::BenchOptions options;
  options.native.compile = options_for(model, "generic", ir::WeightFormat::kF32);
  options.repetitions = 2;
  return options;
}

TEST(Bench, MeasuresEveryTest) {
  const ModelFolder model;
  bench::BenchOptions options = bench_of(model.path());
  options.threads = {1, 2};
  options.prompts = {{20, 5, 20, 0}};
  options.generations = {{5}};
  options.depths = {0, 7};
  options.parallel = {1, 3};
  options.native.compile.sequences = options.native.compile.batch = 3;
  const auto report = bench::run_bench(options);
  ASSERT_TRUE(report.ok()) << format(report.error().first());
  std::vector<std::string> tests;
  for (const BenchResult& r : report->results) {
    const bool prompt = r.test == BenchResult::Test::kPrompt;
    tests.push_back((prompt ? "p" : "g") + std::to_string(r.tokens) + " " +
                    std::to_string(r.depth) + " " + std::to_string(r.threads) +
                    (r.sequences > 1 ? " x" + std::to_string(r.sequences) : ""));
    // Rates are of all sequences together.
    EXPECT_NEAR(r.tokens_per_second * median(r.seconds), r.tokens * r.sequences, 1e-6);
    EXPECT_EQ(r.seconds.size(), 2u);
    EXPECT_GT(r.tokens_per_second, 0);
    EXPECT_LE(r.minimum, r.tokens_per_second);
    EXPECT_GE(r.maximum, r.tokens_per_second);
    EXPECT_EQ(r.steps.seconds.size(), prompt ? 0u : r.tokens);
    EXPECT_FALSE(r.parts);
    // After the depth, or after the one token that a first step needs.
    if (!prompt) EXPECT_EQ(r.steps.first_position, r.depth == 0 ? 1u : r.depth);
  }
  EXPECT_THAT(tests, ElementsAre("p20 0 1", "p5 0 1", "g5 0 1", "g5 0 1 x3", "p20 7 1", "p5 7 1",
                                 "g5 7 1", "g5 7 1 x3", "p20 0 2", "p5 0 2", "g5 0 2", "g5 0 2 x3",
                                 "p20 7 2", "p5 7 2", "g5 7 2", "g5 7 2 x3"));
  EXPECT_GT(report->weight_bytes, report->weight_bytes_per_token);
}

TEST(Bench, TimesOfStagesAddUpToTheWhole) {
  const ModelFolder model;
  bench::BenchOptions options = bench_of(model.path());
  options.prompts = {{40}};
  options.generations = {{4}};
  options.layers = true;
  const auto report = bench::run_bench(options);
  ASSERT_TRUE(report.ok()) << format(report.error().first());
  ASSERT_EQ(report->results.size(), 2u);
  for (const BenchResult& r : report->results) {
    ASSERT_TRUE(r.parts);
    for (const double seconds : r.parts->seconds) EXPECT_GT(seconds, 0);
  }
  EXPECT_FALSE(report->products.empty());
}

TEST(Bench, WhatDoesNotFitTheContextIsAMistake) {
  const ModelFolder model;
  const auto message = [&](std::vector<std::uint32_t> prompts,
                           std::vector<std::uint32_t> generations, std::uint32_t depth) {
    bench::BenchOptions options = bench_of(model.path());
    options.native.compile.ctx = 64;
    options.native.compile.ctx_given = true;
    options.prompts = std::move(prompts);
    options.generations = std::move(generations);
    options.depths = {depth};
    options.repetitions = 1;
    const auto report = bench::run_bench(options);
    if (report.ok()) return std::string("fits");
    EXPECT_EQ(report.error().first().kind, ErrorKind::kUsage);
    return report.error().first().message;
  };
  EXPECT_EQ(message({64}, {63}, 0), "fits");
  EXPECT_EQ(message({54}, {54}, 10), "fits");
  EXPECT_THAT(message({65}, {}, 0), HasSubstr("a prompt of 65 tokens after 0"));
  EXPECT_THAT(message({}, {64}, 0), HasSubstr("64 generated tokens after 1"));
  EXPECT_THAT(message({55}, {}, 10), HasSubstr("a prompt of 55 tokens after 10"));
  EXPECT_THAT(message({}, {55}, 10), HasSubstr("55 generated tokens after 10"));
  EXPECT_THAT(message({}, {}, 0), HasSubstr("nothing to measure"));
}

TEST(StepTimes, AreNearestRanks) {
  bench::StepTimes steps{.first_position = 10, .seconds = {}};
  for (int i = 1; i <= 100; ++i) steps.seconds.push_back(i == 50 ? 1000 : i);
  EXPECT_EQ(steps.percentile(0.5), 51);
  EXPECT_EQ(steps.percentile(0.99), 100);
  EXPECT_EQ(steps.percentile(1), 1000);
  EXPECT_EQ(steps.percentile(0), 1);
  EXPECT_EQ(steps.largest(), 49u);
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
}

TEST(StageClock, GivesTimeToThePartThatEnds) {
  exec::StageClock clock(kParts);
  const StageHook hook = clock.hook();
  clock.start();
  hook.end(hook.user, static_cast<std::uint32_t>(Part::kDown));
  hook.end(hook.user, 1000);  // never beyond the last
  const std::vector<double> seconds = clock.stop();
  ASSERT_EQ(seconds.size(), kParts);
  EXPECT_GT(seconds[static_cast<std::uint32_t>(Part::kDown)], 0);
  EXPECT_GT(seconds[static_cast<std::uint32_t>(Part::kRest)], 0);
  EXPECT_EQ(seconds[static_cast<std::uint32_t>(Part::kHead)], 0);
}

/// The multiply-adds of every target's products compile, and where they run they are counted.
TEST(Peak, OfEveryTarget) {
  const auto toolchain = driver::find_toolchain("");
  ASSERT_TRUE(toolchain.ok());
  testing::TemporaryFolder folder;
  int ran = 0;
  for (const target::Target& target : target::all()) {
    SCOPED_TRACE(target.name);
    if (!driver::try_target(*toolchain, target).ok()) continue;  // a clang without it
    if (!target::runs_here(target)) {
      ASSERT_TRUE(bench::write_kernel_sources(folder.path(), emit::peak_source(target)).ok());
      const Status compiled =
          driver::compile_source(*toolchain, folder.path(),
                                 driver::model_arguments(target, "gemm", {}), "gemm.cpp", "gemm.o");
      if (!compiled.ok()) expect_ok(compiled.error());
      continue;
    }
    const auto peak = bench::Peak::compile(*toolchain, target, {});
    ASSERT_TRUE(peak.ok()) << format(peak.error().first());
    for (const auto arithmetic :
         {emit::Arithmetic::kNibbles, emit::Arithmetic::kBytes, emit::Arithmetic::kFloats}) {
      const std::vector<double> rates = (*peak)->measure(arithmetic, 2, 3);
      ASSERT_EQ(rates.size(), 3u);
      for (const double rate : rates) EXPECT_GT(rate, 0);
    }
    ++ran;
  }
  EXPECT_GT(ran, 0) << "generic runs everywhere";
}

TEST(Peak, ArithmeticIsByFormat) {
  EXPECT_EQ(bench::arithmetic_of("q4"), emit::Arithmetic::kNibbles);
  EXPECT_EQ(bench::arithmetic_of("int4/32 f16"), emit::Arithmetic::kNibbles);
  EXPECT_EQ(bench::arithmetic_of("q6"), emit::Arithmetic::kBytes);
  EXPECT_EQ(bench::arithmetic_of("q8"), emit::Arithmetic::kBytes);
  EXPECT_EQ(bench::arithmetic_of("int8/64 f16 z"), emit::Arithmetic::kBytes);
  EXPECT_EQ(bench::arithmetic_of("f16"), emit::Arithmetic::kFloats);
  EXPECT_EQ(bench::arithmetic_of("f32"), emit::Arithmetic::kFloats);
}

TEST(ParallelSeconds, EveryThreadWorksInEverySample) {
  std::vector<int> calls(3);
  const auto seconds = bench::parallel_seconds(3, 4, [&](std::uint32_t i) { ++calls[i]; });
  EXPECT_EQ(seconds.size(), 4u);
  EXPECT_THAT(calls, ElementsAre(5, 5, 5));  // one warms up
}

#ifdef LLMC_PROGRAM
/// A bundle of the shipped model, made once.
class BenchCommand : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new testing::TemporaryFolder;
    const auto made = llmc({"compile", tinyfable().string(), "-o", bundle(), "--target", "generic",
                            "--cflag=-O1", "--sequences", "3", "--batch", "3", "-q"});
    ASSERT_EQ(made.code, 0) << made.err;
  }
  static void TearDownTestSuite() { delete std::exchange(folder_, nullptr); }
  static std::string bundle() { return (folder_->path() / "fable").string(); }

  static void expect_refused(std::vector<std::string> more, int code, const std::string& words) {
    more.insert(more.begin(), {"bench", bundle(), "-r", "1"});
    const auto ran = llmc(more);
    EXPECT_EQ(ran.code, code) << ran.err;
    EXPECT_THAT(ran.err.substr(0, ran.err.find('\n')), HasSubstr(words));
    EXPECT_EQ(ran.out, "");
  }

 private:
  static testing::TemporaryFolder* folder_;
};
testing::TemporaryFolder* BenchCommand::folder_ = nullptr;

TEST_F(BenchCommand, ListsAreCheckedAsEverywhere) {
  for (const char* list : {"", "a", "1,", ",1", "1;2", "-1", "99999999"})
    expect_refused({"-p", list}, 2, "--n-prompt");
  expect_refused({"-n", "8;9"}, 2, "--n-gen");
  expect_refused({"-d", "1,x"}, 2, "--n-depth");
  expect_refused({"-t", "0,1"}, 2, "--threads: '0' is not a number from 1");
  expect_refused({"--n-parallel", "0"}, 2, "--n-parallel takes numbers from 1");
  expect_refused({"--n-parallel", "1,4"}, 2,
                 "4 sequences requested, but the model was compiled for 3");
  expect_refused({"-p", "0", "-n", "0"}, 2, "nothing to measure");
  expect_refused({"-p", "18,4000"}, 2, "a prompt of 4000 tokens after 0");
  expect_refused({"-d", "2000", "-p", "64"}, 2, "a prompt of 64 tokens after 2000");
  expect_refused({"-d", "2000", "-p", "0"}, 2, "64 generated tokens after 2000");
  expect_refused({"-o", "xml"}, 2, "--output");
  expect_refused({"--huge-pages", "often"}, 2, "--huge-pages");
  expect_refused({"--layers", "--emulator", "env"}, 2, "stage times");
}

TEST_F(BenchCommand, PrintsOneRowForEachTest) {
  const auto ran = llmc({"bench", bundle(), "-p", "3,9", "-n", "2", "-d", "0,5", "-t", "1", "-r",
                         "2", "--n-parallel", "1,3", "-o", "json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto json = nlohmann::json::parse(ran.out);
  EXPECT_EQ(json["target"], "generic");
  EXPECT_TRUE(json["emulator"].is_null());
  EXPECT_EQ(json["huge_pages"]["weight_bytes"], 0) << "small weights stay";
  EXPECT_EQ(json["huge_pages"]["arena"], false);
  std::vector<std::string> tests;
  for (const auto& row : json["results"]) {
    tests.push_back(row["test"]);
    EXPECT_EQ(row["seconds"].size(), 2u);
    EXPECT_EQ(row["threads"], 1);
    EXPECT_GT(row["read_bandwidth_bytes_per_second"], 0);
    const bool prompt = tests.back().starts_with("pp");
    const int sequences = row["sequences"];
    EXPECT_EQ(row.contains("macs_per_second"), prompt || sequences > 1);
    EXPECT_EQ(row.contains("ratio_to_peak"), prompt || sequences > 1);
    EXPECT_EQ(row.contains("ratio_to_read_bandwidth"), !prompt);
    EXPECT_EQ(row.contains("steps"), !prompt);
    EXPECT_FALSE(row.contains("parts"));
    if (prompt) continue;
    // A step reads the weights, and 1024 bytes of keys and values for each token up to its own.
    const double keys = sequences * (row["steps"]["first_position"].get<double>() + 1.5);
    const double steps_per_second = row["tokens_per_second"].get<double>() / sequences;
    EXPECT_NEAR(row["read_bytes_per_second"].get<double>() / steps_per_second,
                json["weight_bytes_per_token"].get<double>() + 1024 * keys, 1);
  }
  EXPECT_THAT(tests, ElementsAre("pp3", "pp9", "tg2", "tg2 x 3", "pp3 @ d5", "pp9 @ d5", "tg2 @ d5",
                                 "tg2 x 3 @ d5"));
}

TEST_F(BenchCommand, SeveralSequencesAreBesideTheLimitThatBoundsThem) {
  // Portable code of a model that fits the cache is far from the limit of memory.
  const auto ran = llmc({"bench", bundle(), "-p", "0", "-n", "2", "-t", "1", "-r", "1",
                         "--n-parallel", "1,3", "-o", "csv"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("reached GMAC/s,limit GMAC/s,reached GB/s,limit GB/s"));
  EXPECT_THAT(ran.out, ContainsRegex("\ntg2,[^\n]*,,,[0-9.]+,[0-9.]+,[0-9]+\n"));
  EXPECT_THAT(ran.out, ContainsRegex("\ntg2 x 3,[^\n]*,[0-9.]+,[0-9.]+,,,[0-9]+\n"));
}

TEST_F(BenchCommand, LayersShowsEveryStageOfABundle) {
  const auto ran = llmc({"bench", bundle(), "-p", "40", "-n", "6", "-d", "3", "-t", "2", "-r", "2",
                         "--layers", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto json = nlohmann::json::parse(ran.out);
  ASSERT_EQ(json["results"].size(), 2u);
  for (const auto& row : json["results"]) {
    std::vector<std::string> names;
    double shares = 0;
    for (const auto& part : row["parts"]) {
      names.push_back(part["part"]);
      shares += part["share"].get<double>();
      const bool product = names.back() != "attention" && names.back() != "rest";
      EXPECT_EQ(part.contains("macs_per_second"), product) << names.back();
      const bool read = row["test"] == "tg6 @ d3" && names.back() != "rest";
      EXPECT_EQ(part.contains("read_bytes_per_second"), read) << names.back();
    }
    EXPECT_THAT(
        names, ElementsAre("qkv", "attention", "attention_out", "gate_up", "down", "head", "rest"));
    EXPECT_NEAR(shares, 1, 1e-9);
  }
  const auto& steps = json["results"][1]["steps"];
  EXPECT_EQ(steps["seconds"].size(), 6u);
  EXPECT_EQ(steps["first_position"], 3);
  EXPECT_GE(steps["max_position"], 3);
  EXPECT_LE(steps["max_position"], 8);
  EXPECT_GE(steps["max_seconds"], steps["p99_seconds"]);
  EXPECT_GE(steps["p99_seconds"], steps["p50_seconds"]);
}

TEST_F(BenchCommand, TablesNameTheirStages) {
  const auto plain = llmc({"bench", bundle(), "-p", "3", "-n", "2", "-t", "1", "-r", "1"});
  ASSERT_EQ(plain.code, 0) << plain.err;
  EXPECT_THAT(plain.out, HasSubstr("\npp3         1  "));
  EXPECT_THAT(plain.out, Not(HasSubstr("gate-up")));
  EXPECT_THAT(plain.err, HasSubstr("read per token"));
  const auto ran =
      llmc({"bench", bundle(), "-p", "3", "-n", "2", "-t", "1", "-r", "1", "--layers", "-o", "md"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("| pp3 | 1 |"));
  EXPECT_THAT(ran.out, HasSubstr("| norm+QKV | attention | O | gate-up | down | head | rest |"));
  EXPECT_THAT(ran.out, HasSubstr("at position"));
}

TEST_F(BenchCommand, ABundleWithoutItsSourceHasNoTimesOfStages) {
  testing::TemporaryFolder folder;
  const fs::path copy = folder.path() / "fable";
  fs::copy(bundle(), copy, fs::copy_options::recursive);
  fs::remove(copy / "src/model.cpp");
  const std::vector<std::string> arguments{"bench", copy.string(), "-p", "3",  "-n",
                                           "0",     "-t",          "1",  "-r", "1"};
  EXPECT_EQ(llmc(arguments).code, 0);
  std::vector<std::string> layers = arguments;
  layers.emplace_back("--layers");
  const auto ran = llmc(layers);
  EXPECT_EQ(ran.code, 3) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("src/model.cpp is missing"));
}
#endif

}  // namespace
}  // namespace llmc::tests
