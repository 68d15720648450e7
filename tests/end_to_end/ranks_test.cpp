// llmc-mpi-run on ranks that are processes of this machine: what one machine prints, and how ranks
// fail.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "compiler/support/file.h"
#include "tests/end_to_end/last_line.h"
#include "tests/end_to_end/models.h"
#include "tests/end_to_end/program.h"

#ifdef LLMC_PROGRAM
namespace llmc::tests {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

#ifdef LLMC_MPI_RUN
constexpr const char* kMpiRun = LLMC_MPI_RUN;
constexpr const char* kMpiexec = LLMC_MPIEXEC;
#else
constexpr const char *kMpiRun = nullptr, *kMpiexec = "";
#endif

/// A model in three shards and in one piece, compiled once.
class Ranks : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (kMpiRun == nullptr) return;
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    setenv("OMPI_MCA_btl", "self,tcp", 1);
    models = std::make_unique<testing::TemporaryFolder>();
    compile(stages(), {"--stages", "3"});
    compile(whole(), {});
  }
  static void TearDownTestSuite() { models.reset(); }
  void SetUp() override {
    if (kMpiRun == nullptr)
      GTEST_SKIP() << "no MPI: tools/setup.sh --tests installs libopenmpi-dev and openmpi-bin";
  }
  static fs::path stages() { return models->path() / "stages"; }
  static fs::path whole() { return models->path() / "whole"; }
  static void compile(const fs::path& out, std::vector<std::string> more) {
    std::vector<std::string> command{"compile",     tinyfable().string(),
                                     "-o",          out.string(),
                                     "-q",          "--target",
                                     "generic",     "--cflag=-O0",
                                     "--ctx",       "128",
                                     "--sequences", "4",
                                     "--batch",     "4"};
    command.insert(command.end(), more.begin(), more.end());
    const ProgramRun compiled = llmc(command);
    EXPECT_EQ(compiled.code, 0) << compiled.err;
  }
  /// llmc-mpi-run COMMAND stages …
  static ProgramRun on_ranks(int ranks, const std::string& command, std::vector<std::string> more,
                             const std::string& program = kMpiRun) {
    std::vector<std::string> all{kMpiexec, "-n",    std::to_string(ranks), "--oversubscribe",
                                 program,  command, stages().string()};
    all.insert(all.end(), more.begin(), more.end());
    return run_program(all);
  }
  static ProgramRun alone(const std::string& command, std::vector<std::string> more) {
    more.insert(more.begin(), {command, whole().string()});
    return llmc(more);
  }

  static std::unique_ptr<testing::TemporaryFolder> models;
  testing::TemporaryFolder folder_;
};
std::unique_ptr<testing::TemporaryFolder> Ranks::models;

TEST_F(Ranks, SayWhatOneMachineSays) {
  const std::string prompt = "Once upon a time, there was a girl";
  const auto both = [&](const std::string& command, const std::vector<std::string>& more) {
    const ProgramRun one = alone(command, more), ranks = on_ranks(3, command, more);
    EXPECT_EQ(one.code, 0) << one.err;
    EXPECT_EQ(ranks.code, 0) << ranks.err;
    EXPECT_EQ(ranks.out, one.out);
    EXPECT_NE(one.out, "");
  };
  both("run", {"-p", prompt, "-n", "12", "-q", "--temp", "0.9", "--seed", "4", "--chunk", "3"});
  both("run", {"-p", prompt, "-n", "8", "-q", "--temp", "0", "--logprobs", "2", "--cfg-scale",
               "1.5", "--cfg-negative-prompt", "A dog"});
  const fs::path text = folder_.path() / "text";
  ASSERT_TRUE(write_file(text, std::string_view("There was a cat. It sat on a mat. The end. "
                                                "A girl saw the cat and she was happy."))
                  .ok());
  both("ppl", {"--text", text.string(), "--window", "8", "-q"});

  // Only the first rank has a standard input.
  const fs::path piped = write_script(
      folder_.path() / "piped",
      fmt::format(
          "echo 'Once upon a time' | {} -n 3 --oversubscribe {} run {} -f - -n 4 -q --temp 0",
          kMpiexec, kMpiRun, stages().string()));
  const ProgramRun from_pipe = run_program({piped.string()});
  EXPECT_EQ(from_pipe.code, 0) << from_pipe.err;
  EXPECT_THAT(from_pipe.out, HasSubstr("Once upon a time"));

  // Logits after many chunks that are still being sent; a stop token without a tokenizer.
  std::string ids;
  for (const std::int32_t id : made_up_prompt(90, 40))
    ids += (ids.empty() ? "" : ",") + std::to_string(id);
  std::vector<std::string> json{"--ids", ids,      "-n", "4",       "--temp",
                                "0",     "--json", "-q", "--chunk", "2"};
  const ProgramRun ranks = on_ranks(3, "run", json), one = alone("run", json);
  ASSERT_EQ(ranks.code, 0) << ranks.err;
  const auto summary = [](const ProgramRun& run) {
    return nlohmann::json::parse(last_line(run.out));
  };
  EXPECT_EQ(summary(ranks)["logits_hash"], summary(one)["logits_hash"]);
  EXPECT_EQ(summary(ranks)["ids"], summary(one)["ids"]);

  const ProgramRun bench = on_ranks(
      3, "bench", {"-p", "24", "-n", "4", "-t", "1", "--n-parallel", "1,4", "-r", "1", "--json"});
  ASSERT_EQ(bench.code, 0) << bench.err;
  EXPECT_EQ(nlohmann::json::parse(bench.out)["results"].size(), 3u);
}

TEST_F(Ranks, ContinueASavedText) {
  const auto run = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"-q", "--temp", "0.9", "--seed", "4", "--no-display-prompt"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramRun ran = on_ranks(3, "run", arguments);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return ran.out.substr(0, ran.out.size() - 1);
  };
  const std::string state = (folder_.path() / "state").string();
  const std::string all = run({"-p", "Once upon", "-n", "12"});
  const std::string first = run({"-p", "Once upon", "-n", "5", "--save-state", state});
  for (const char* const rank : {".0", ".1", ".2"}) EXPECT_TRUE(fs::exists(state + rank));
  const std::string rest = run({"-p", "", "-n", "7", "--load-state", state});
  EXPECT_EQ(first + rest, all);
  fs::remove(state + ".1");
  const ProgramRun lost = on_ranks(3, "run", {"-p", "", "--load-state", state});
  EXPECT_EQ(lost.code, 3) << lost.err;
  EXPECT_THAT(lost.err, HasSubstr("state.1"));
  EXPECT_THAT(lost.err, HasSubstr("rank 1 failed, which ends all ranks"));
}

TEST_F(Ranks, HaveTheirOwnHelp) {
  const ProgramRun all = run_program({kMpiRun, "--help"});
  EXPECT_EQ(all.code, 0) << all.err;
  EXPECT_THAT(all.out, HasSubstr("llmc-mpi-run COMMAND --help"));
  EXPECT_THAT(run_program({kMpiRun, "run", "--help"}).out, HasSubstr("Usage: llmc-mpi-run run"));
  for (const std::string command : {"run", "bench"}) {
    const ProgramRun missing = run_program({kMpiRun, command, "/nowhere/model", "-p", "8"});
    EXPECT_EQ(missing.code, 3) << missing.err;
    EXPECT_THAT(missing.err, HasSubstr("/nowhere/model: cannot open"));
  }
}

TEST_F(Ranks, FailTogether) {
  const std::vector<std::string> run{"-p", "Once", "-n", "100", "--ignore-eos"};
  const auto expect = [](const ProgramRun& ran, int code, const std::string& words) {
    EXPECT_EQ(ran.code, code) << ran.err;
    EXPECT_THAT(ran.err, HasSubstr(words));
    EXPECT_EQ(ran.out, "");
  };
  expect(on_ranks(2, "run", run), 2, "2 ranks for a model of 3 shards");
  expect(on_ranks(4, "run", run), 2, "has no stage-3: mpirun -n takes as many ranks as shards");
  expect(on_ranks(3, "run", {}), 2, "a prompt is required");
  expect(on_ranks(3, "compile", {}), 2, "unknown command 'compile'\nhint: llmc-mpi-run --help");
  expect(on_ranks(3, "run", {"-p", "a", "--beams", "2"}), 2, "--beams does not run on ranks");
  expect(on_ranks(3, "run", {"-p", "a", "--context-shift"}), 2, "--context-shift does not run");
  const ProgramRun one = llmc({"run", (stages() / "stage-0").string(), "-p", "Once"});
  expect(one, 2, "is shard 0 of 3 of a model");
  EXPECT_THAT(one.err, HasSubstr("mpirun -n 3 llmc-mpi-run run " + stages().string()));

  // A rank that is killed in the middle.
  const std::string killed = write_script(
      folder_.path() / "killed",
      fmt::format("[ $OMPI_COMM_WORLD_RANK = 1 ] && (sleep 1; kill -9 $$) &\nexec {} \"$@\"",
                  kMpiRun));
  const ProgramRun ran =
      on_ranks(3, "bench", {"-p", "0", "-n", "100", "-r", "1000", "-t", "1"}, killed);
  EXPECT_NE(ran.code, 0);
  EXPECT_THAT(ran.err, HasSubstr("rank 1"));

  // A model of which one machine has another shard.
  const auto swap = [] {
    fs::rename(stages() / "stage-0", stages() / "other");
    fs::rename(stages() / "stage-1", stages() / "stage-0");
    fs::rename(stages() / "other", stages() / "stage-1");
  };
  swap();
  expect(on_ranks(3, "run", run), 2, "the shards differ in their model or its options");
  swap();
}

}  // namespace
}  // namespace llmc::tests
#endif
