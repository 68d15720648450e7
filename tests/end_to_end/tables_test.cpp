// Forms of tables, and the benchmark of functions.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/end_to_end/models.h"
#include "tests/end_to_end/program.h"
#include "tests/support_onnx/onnx_builder.h"

#ifdef LLMC_PROGRAM
namespace llmc::tests {
namespace {

using ::testing::HasSubstr;

TEST(FunctionBench, AFunctionIsMeasuredAsAWhole) {
  testing::TemporaryFolder folder;
  testing::OnnxBuilder b(17);
  b.input("ids", onnx::TensorProto::INT64, {"n"});
  b.floats("table", {2, 4}, std::vector<float>(8, 0.5f));
  b.node("Gather", {"table", "ids"}, {}, "y");
  b.float_output("y", {"n", std::int64_t{4}});
  const std::string model = (folder.path() / "lookup.onnx").string();
  b.save(model);
  const ProgramRun ran = llmc(
      {"bench", model, "--dim", "n=3", "-r", "4", "-o", "json", "--target=generic", "--cflag=-O0"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto json = nlohmann::json::parse(ran.out);
  const auto& result = json["results"][0];
  EXPECT_EQ(result["seconds"].size(), 4u);
  EXPECT_LE(result["least_seconds"], result["median_seconds"]);
  EXPECT_LE(result["median_seconds"], result["most_seconds"]);
  EXPECT_EQ(json["inputs"][0]["dims"], nlohmann::json::array({3}));
  EXPECT_EQ(llmc({"bench", model}).code, llmc({"plan", model}).code);
  const ProgramRun refused = llmc({"bench", model, "--dim", "n=3", "-p", "8"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--n-prompt does not apply to a function"));
  const ProgramRun quantized = llmc({"bench", model, "--dim", "n=3", "-r", "1", "--quant", "q8",
                                     "--target=generic", "--cflag=-O0", "-o", "csv"});
  EXPECT_EQ(quantized.code, 0);
  EXPECT_THAT(llmc({"plan", model, "--dim", "n=3", "--quant", "q8"}).out, HasSubstr("table q8"));
  EXPECT_THAT(quantized.out,
              ::testing::StartsWith("test,threads,ms,from ms,to ms,deviation ms,runs/s\n"));
}

TEST(FunctionBench, AFunctionWithoutElementsHasNoStages) {
  testing::TemporaryFolder folder;
  testing::OnnxBuilder b(17);
  b.float_input("x", {0, 4});
  b.node("Relu", {"x"}, {}, "y");
  b.float_output("y", {0, 4});
  const std::string model = (folder.path() / "empty.onnx").string();
  b.save(model);
  const ProgramRun ran =
      llmc({"bench", model, "--layers", "-t", "1", "-r", "2", "--target=generic", "-o", "csv"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, ::testing::EndsWith("\nstages,number,threads,ms,%,GMAC/s\n"));
}

TEST(FunctionBench, LayersShowsEqualStagesInOneRow) {
  testing::TemporaryFolder folder;
  testing::OnnxBuilder b(17);
  b.float_input("x", {8, 64});
  b.floats("w", {64, 64}, std::vector<float>(64 * 64, 0.5f));
  b.node("MatMul", {"x", "w"}, {}, "a");
  b.node("Exp", {"a"}, {}, "b");
  b.node("MatMul", {"b", "w"}, {}, "y");
  b.float_output("y", {8, 64});
  const std::string model = (folder.path() / "two.onnx").string();
  b.save(model);
  const std::vector<std::string> arguments{"bench", model, "--layers",         "-t",         "1,2",
                                           "-r",    "3",   "--target=generic", "--cflag=-O1"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), arguments.begin(), arguments.end());
    return llmc(more);
  };
  const ProgramRun json = with({"--json", "--quant", "q8"});
  ASSERT_EQ(json.code, 0) << json.err;
  const auto read = nlohmann::json::parse(json.out);
  ASSERT_EQ(read["results"].size(), 2u);
  for (const auto& result : read["results"]) {
    const auto& stages = result["stages"];
    ASSERT_EQ(stages.size(), 3u);
    EXPECT_EQ(stages[0]["stage"], "q8 [8, 64] x [64, 64]^T");
    EXPECT_EQ(stages[0]["file"], "two.onnx");
    EXPECT_EQ(stages[0]["multiply_adds"], 8 * 64 * 64);
    EXPECT_EQ(stages[1]["stage"], "exp  f32[8, 64]");
    EXPECT_EQ(stages[1]["multiply_adds"], 0);
    for (const auto& stage : stages) EXPECT_GT(stage["seconds"], 0) << stage["node"];
  }
  const ProgramRun text = with({"-o", "csv"});
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("\nstages,number,threads,ms,%,GMAC/s\n"));
  EXPECT_THAT(text.out, HasSubstr("\n\"f32 [8, 64] x [64, 64]^T\",2,2,"));
  const ProgramRun emulated = with({"--emulator", "env"});
  EXPECT_EQ(emulated.code, 2);
  EXPECT_THAT(emulated.err, HasSubstr("stage times need native execution"));
}

TEST(Tables, TablesHaveTheFormThatWasAsked) {
  const auto kernel = [](const std::string& form) {
    const ProgramRun ran =
        llmc({"bench", "--kernel", "gemm", "--shape", "24x64x3", "--target", "generic", "--format",
              "f32", "--opt-level", "1", "-r", "1", "-q", "-o", form});
    EXPECT_EQ(ran.code, 0) << ran.err;
    return ran.out;
  };
  EXPECT_THAT(kernel("md"), ::testing::StartsWith(
                                "| weights | threads | level | ms | from | to | GMAC/s | level 1 x "
                                "| level 2 x | result |\n|---|---:|---:|"));
  EXPECT_THAT(kernel("csv"),
              ::testing::StartsWith("weights,threads,level,ms,from ms,to ms,GMAC/s,"));
  EXPECT_TRUE(nlohmann::json::accept(kernel("json")));
  // Columns end under their titles.
  const std::string text = kernel("text");
  const std::string title = text.substr(0, text.find('\n'));
  const std::string row = text.substr(title.size() + 1, text.rfind('\n') - title.size() - 1);
  EXPECT_THAT(title, ::testing::StartsWith("weights  threads  level "));
  EXPECT_THAT(row, ::testing::StartsWith("f32            1      1 "));
  EXPECT_EQ(llmc({"bench", "--kernel", "gemm", "-o", "xml"}).code, 2);
}

/// The lines of `text`, each split at its commas.
std::vector<std::vector<std::string>> csv_cells(const std::string& text) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream cells(line);
    rows.emplace_back();
    for (std::string cell; std::getline(cells, cell, ',');) rows.back().push_back(cell);
  }
  return rows;
}

TEST(Tables, CsvHasUniqueTitlesWithUnitsAndPlainNumbers) {
  const ProgramRun ran =
      llmc({"compare", tinyfable().string(), "--ids=1,2,3,4,5,6,7,8,9", "--window=8", "--steps=1",
            "--quant=f32", "--target=generic", "--cflag=-O0", "-q", "-o", "csv"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto rows = csv_cells(ran.out);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0], (std::vector<std::string>{"weights", "cache", "weight bytes",
                                               "weight bytes/token", "bits/weight",
                                               "cache bytes/token", "perplexity", "perplexity +-",
                                               "KL nats", "KL +- nats", "same top %", "step ms"}));
  ASSERT_EQ(rows[1].size(), rows[0].size());
  EXPECT_EQ(rows[1][10], "100.00");
}

TEST(Tables, NamesOfBudgetsAreAligned) {
  const ModelFolder model({.layers = 1});
  std::string ids = "1";
  for (int i = 0; i < 100; ++i) ids += fmt::format(",{}", 2 + i % 7);
  const auto compare = [&](const char* fit) {
    return llmc({"compare", model.path().string(), "--ids", ids, "--window=8", "--chunks=1",
                 "--steps=1", "--quant=q8", fit, "--target=generic", "--cflag=-O0", "-q"});
  };
  const ProgramRun impossible = compare("--fit=1000kB,1kB");
  EXPECT_EQ(impossible.code, 5);
  EXPECT_THAT(impossible.err, HasSubstr("the weights need at least "));
  EXPECT_EQ(impossible.out, "") << "no row is measured";
  const ProgramRun ran = compare("--fit=1000kB");
  ASSERT_EQ(ran.code, 0) << ran.err;
  std::istringstream lines(ran.out);
  std::string head, quant, fit;
  std::getline(lines, head);
  std::getline(lines, quant);
  std::getline(lines, fit);
  EXPECT_THAT(fit, HasSubstr("fit 1000kB "));
  EXPECT_EQ(fit.find("f16"), head.find("cache")) << ran.out;
  EXPECT_EQ(quant.find("f16"), head.find("cache")) << ran.out;
}

TEST(Tables, OutputForProgramsHoldsTheTableAlone) {
  const ModelFolder model({.layers = 1});
  const ProgramRun ran = llmc({"verify", model.path().string(), "--short", "--target=generic",
                               "--cflag=-O0", "--no-require-golden", "-o", "csv"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("golden "));
  const auto rows = csv_cells(ran.out);
  ASSERT_GT(rows.size(), 1u);
  EXPECT_EQ(rows[0].back(), "reference greedy");
  for (const auto& row : rows) EXPECT_EQ(row.size(), rows[0].size());
}

}  // namespace
}  // namespace llmc::tests
#endif
