// Models that are cut into stages: the bits of the whole model, in one process and on ranks of MPI.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "compiler/driver/compile.h"
#include "compiler/support/subprocess.h"
#include "tests/end_to_end/last_line.h"
#include "tests/end_to_end/models.h"
#include "tests/end_to_end/program.h"

namespace llmc::tests {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;
using Ids = std::vector<std::int32_t>;

/// The stages of a model in this process.
class Stages {
 public:
  Stages(const driver::CompileOptions& options, std::uint32_t count, std::uint32_t threads) {
    for (std::uint32_t index = 0; index < count; ++index) {
      driver::CompileOptions of_stage = options;
      of_stage.shard = {index, count};
      models_.push_back(load(of_stage));
      if (models_.back() == nullptr) return;
      auto session = models_.back()->start(threads);
      if (!session.ok()) expect_ok(session.error());
      if (!session.ok()) return;
      sessions_.push_back(*std::move(session));
    }
  }
  bool ok() const { return !sessions_.empty() && sessions_.size() == models_.size(); }
  const exec::ModelFacts& facts(std::size_t stage) const { return models_[stage]->model(); }
  exec::Session& last() { return *sessions_.back(); }

  void append(std::span<const std::int32_t> tokens, std::size_t chunk) {
    for (std::size_t first = 0; first < tokens.size(); first += chunk) {
      const std::size_t n = std::min(chunk, tokens.size() - first);
      const std::size_t more = tokens.size() - first - n;
      std::vector<float> rows, next(n * facts(0).hidden);
      for (std::size_t i = 0; i < sessions_.size(); ++i) {
        const bool is_last = i + 1 == sessions_.size();
        const Status status = sessions_[i]->call(&exec::Api::forward_hidden, tokens.data() + first,
                                                 i == 0 ? nullptr : rows.data(), n, more,
                                                 is_last ? nullptr : next.data());
        if (!status.ok()) return expect_ok(status.error());
        rows = next;
      }
    }
  }

 private:
  std::vector<std::unique_ptr<exec::NativeModel>> models_;
  std::vector<std::unique_ptr<exec::Session>> sessions_;
};

TEST(Stages, HaveTheBitsOfTheWholeModel) {
  driver::CompileOptions options = options_for(tinyfable(), "avx2", ir::WeightFormat::kQ4);
  options.ctx = 128;
  options.chunk = 32;
  const auto whole = load(options);
  ASSERT_NE(whole, nullptr);
  auto session = whole->start(1);
  ASSERT_TRUE(session.ok());
  const Ids prompt = made_up_prompt(50, 40);
  ASSERT_TRUE((*session)->prefill(prompt).ok());
  for (const std::uint32_t count : {2u, 3u}) {
    Stages stages(options, count, count - 1);
    ASSERT_TRUE(stages.ok());
    std::uint64_t weights = 0, layers = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      EXPECT_EQ(stages.facts(i).shard, i);
      weights += stages.facts(i).weights_bytes;
      layers += stages.facts(i).layers;
    }
    EXPECT_EQ(layers, whole->model().layers);
    EXPECT_LT(weights, whole->model().weights_bytes + count * 1024);
    stages.append(prompt, count == 2 ? 32 : 7);
    ASSERT_TRUE((*session)->call(&exec::Api::rewind, prompt.size()).ok());
    ASSERT_TRUE((*session)->call(&exec::Api::rewind, prompt.size() - 1).ok());
    ASSERT_TRUE((*session)->call(&exec::Api::append, prompt.back()).ok());
    for (int step = 0; step < 8; ++step) {
      const auto expected = (*session)->logits(), found = stages.last().logits();
      ASSERT_TRUE(expected.ok() && found.ok());
      ASSERT_EQ(found->size(), expected->size());
      ASSERT_TRUE(std::ranges::equal(*found, *expected)) << count << " stages, step " << step;
      const auto token = stages.last().sample(), same = (*session)->step();
      ASSERT_TRUE(token.ok() && same.ok());
      ASSERT_EQ(*token, *same);
      stages.append({&*token, 1}, 1);
    }
  }
}

#ifdef LLMC_PROGRAM
TEST(StagesOption, PlanShowsEachAndTooManyAreRefused) {
  const ProgramRun planned = llmc({"plan", tinyfable().string(), "--stages", "2"});
  ASSERT_EQ(planned.code, 0) << planned.err;
  EXPECT_THAT(planned.out, HasSubstr("shard       0 of 2: 2 layers"));
  EXPECT_THAT(planned.out, HasSubstr("shard       1 of 2: 2 layers"));
  const ProgramRun refused = llmc({"plan", tinyfable().string(), "--stages", "5"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--stages takes 2 to 4"));
  for (const char* const wrong : {"1", "x", "2,3", "-2"}) {
    const ProgramRun ran = llmc({"plan", tinyfable().string(), std::string("--stages=") + wrong});
    EXPECT_EQ(ran.code, 2) << wrong;
  }
}

TEST(StagesOption, AutoTakesAsFewAsFit) {
  const auto plan = [](const char* max_ram) {
    return llmc({"plan", tinyfable().string(), "--stages", "auto", "--max-ram", max_ram});
  };
  EXPECT_THAT(plan("8M").out, Not(HasSubstr("shard  ")));  // one machine is enough
  EXPECT_THAT(plan("1600K").out, HasSubstr("shard       1 of 2"));
  EXPECT_THAT(plan("1500K").out, HasSubstr("shard       2 of 3"));
  const ProgramRun never = plan("100K");
  EXPECT_EQ(never.code, 5) << never.err;
  EXPECT_THAT(never.err, HasSubstr("no cut between layers fits 102400 bytes"));
  const ProgramRun unlimited = llmc({"plan", tinyfable().string(), "--stages", "auto"});
  EXPECT_EQ(unlimited.code, 2);
  EXPECT_THAT(unlimited.err, HasSubstr("--stages auto needs --max-ram"));
}

#ifdef LLMC_MPI_RUN
/// Runs llmc-mpi-run on some ranks.
ProgramRun on_ranks(int ranks, std::vector<std::string> arguments) {
  std::vector<std::string> command{LLMC_MPIEXEC, "-n", std::to_string(ranks), "--oversubscribe",
                                   LLMC_MPI_RUN};
  command.insert(command.end(), arguments.begin(), arguments.end());
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  setenv("OMPI_MCA_btl", "self,tcp", 1);
  return run_program(command);
}

TEST(Ranks, SayWhatOneMachineSays) {
  const testing::TemporaryFolder folder;
  const std::string model = tinyfable().string(), stages = (folder.path() / "stages").string();
  const std::vector<std::string> options{"--target", "avx2", "--cflag=-O0", "--ctx", "128"};
  std::vector<std::string> compile{"compile", model, "--stages", "3", "-o", stages, "-q"};
  compile.insert(compile.end(), options.begin(), options.end());
  const ProgramRun compiled = llmc(compile);
  ASSERT_EQ(compiled.code, 0) << compiled.err;
  std::vector<std::string> run{"run", model, "-p", "Once upon a time, there was a girl",
                               "-n",  "16",  "-q", "--temp",
                               "0",   "-t",  "1"};
  run.insert(run.end(), options.begin(), options.end());
  const ProgramRun alone = llmc(run);
  ASSERT_EQ(alone.code, 0) << alone.err;
  const std::string prompt = "Once upon a time, there was a girl";
  const ProgramRun ranks = on_ranks(3, {stages, "-p", prompt, "-n", "16", "--chunk", "3"});
  ASSERT_EQ(ranks.code, 0) << ranks.err;
  EXPECT_EQ(prompt + ranks.out, alone.out);

  const ProgramRun few = on_ranks(2, {stages, "-p", prompt});
  EXPECT_NE(few.code, 0);
  EXPECT_THAT(few.err, HasSubstr("2 ranks for a model of 3 stages"));
  const ProgramRun many = on_ranks(4, {stages, "-p", prompt});
  EXPECT_NE(many.code, 0);
  EXPECT_THAT(many.err, HasSubstr("has no stage-3"));

  // Logits after many chunks that are still being sent.
  std::string ids;
  for (const std::int32_t id : made_up_prompt(90, 40))
    ids += (ids.empty() ? "" : ",") + std::to_string(id);
  const ProgramRun hashed =
      on_ranks(3, {stages, "--ids", ids, "-n", "4", "--chunk", "2", "--hash"});
  ASSERT_EQ(hashed.code, 0) << hashed.err;
  std::vector<std::string> json{"run", model,    "--ids", ids,      "-n",
                                "4",   "--temp", "0",     "--json", "-q"};
  json.insert(json.end(), options.begin(), options.end());
  const ProgramRun same = llmc(json);
  ASSERT_EQ(same.code, 0) << same.err;
  const auto summary = nlohmann::json::parse(last_line(same.out));
  EXPECT_THAT(hashed.err, HasSubstr(summary["logits_hash"].get<std::string>()));
}
#endif
#endif

}  // namespace
}  // namespace llmc::tests
