// How `llmc run` chooses tokens: the same on every target, and as the options say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "compiler/support/file.h"
#include "compiler/support/subprocess.h"
#include "compiler/target/target.h"
#include "tests/end_to_end/cross.h"
#include "tests/end_to_end/last_line.h"
#include "tests/end_to_end/models.h"

#ifdef LLMC_PROGRAM
namespace llmc::tests {
namespace {

using Json = nlohmann::json;
using Arguments = std::vector<std::string>;

class Sampling : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("LLMC_CROSS_DIR", cross_folder().c_str(), 1);
    unsetenv("LLMC_EMULATOR");
  }

  /// Twelve tokens of the shipped model.
  static Json run(const std::string& target, const Arguments& more) {
    Arguments argv{LLMC_PROGRAM,
                   "run",
                   tinyfable().string(),
                   "-p",
                   "Once upon a time",
                   "-n",
                   "12",
                   "--ctx",
                   "64",
                   "--threads-max",
                   "4",
                   "--sequences",
                   "2",
                   "--batch",
                   "2",
                   "--seed",
                   "5",
                   "-q",
                   "--cflag=-O0",
                   "--json",
                   "--ignore-eos",
                   "--target",
                   target};
    argv.insert(argv.end(), more.begin(), more.end());
    if (std::ranges::find(more, "--temp") == more.end()) argv.insert(argv.end(), {"--temp", "0"});
    const auto output = run_command(argv);
    if (!output.ok() || output->exit_code != 0) {
      ADD_FAILURE() << (output.ok() ? output->standard_error : "not run");
      return {};
    }
    Json json = Json::parse(last_line(output->standard_output), nullptr, false);
    for (const char* varies : {"target", "prompt_tokens_per_second", "tokens_per_second"})
      json.erase(varies);
    return json;
  }
};

TEST_F(Sampling, ChoosesTheSameTokensOnEveryTarget) {
  const std::vector<Arguments> ways = {
      // Every stage, and all that is passed to a runner: history, breakers, biases.
      {"--temp",
       "1.1",
       "--repeat-last-n",
       "32",
       "--repeat-penalty",
       "1.2",
       "--frequency-penalty",
       "0.1",
       "--presence-penalty",
       "0.2",
       "--dry-multiplier",
       "0.8",
       "--tfs",
       "0.98",
       "--typical",
       "0.97",
       "--xtc-probability",
       "0.5",
       "--logit-bias",
       "300+1.5",
       "-l",
       "301-inf",
       "--logprobs",
       "3"},
      {"--temp", "1", "--mirostat", "1", "--mirostat-ent", "3", "--mirostat-lr", "0.3"},
      {"--temp", "1", "--cfg-scale", "1.7", "--cfg-negative-prompt", "The fox was very"},
      {"--temp", "1", "--mirostat", "2", "--mirostat-ent", "3", "--mirostat-lr", "0.3"}};
  std::set<Json> texts;
  for (Arguments way : ways) {
    const Json here = run("generic", way);
    texts.insert(here["ids"]);
    for (const char* target : {"avx2", "arm64", "lasx"}) {
      if (executable(**target::find(target))) EXPECT_EQ(run(target, way), here) << target;
    }
    way.insert(way.end(), {"--emulator", "env"});
    EXPECT_EQ(run("generic", way), here) << "in a process of its own";
  }
  EXPECT_EQ(texts.size(), ways.size()) << "they are ways of their own";
  for (const char* target : {"arm64", "lasx"}) {
    if (!executable(**target::find(target)))
      LLMC_MISSING_CROSS(without_emulator(**target::find(target)));
  }
}

TEST_F(Sampling, OptionsReachTheSampler) {
  const Json greedy = run("generic", {});
  const auto ids = [&](const Arguments& options) { return run("generic", options)["ids"]; };
  const std::string first = std::to_string(greedy["ids"][0].get<int>());
  // A draw among one is no draw; without a temperature nothing is drawn.
  EXPECT_EQ(ids({"--temp", "2", "--top-k", "1"}), greedy["ids"]);
  EXPECT_EQ(ids({"--temp", "2", "--min-p", "1"}), greedy["ids"]);
  EXPECT_EQ(ids({"--top-p", "0.5", "--xtc-probability", "0"}), greedy["ids"]);
  EXPECT_EQ(ids({"--temp", "2", "--samplers", "temperature", "--top-k", "1"}),
            ids({"--temp", "2", "--samplers", "temp", "--top-k", "9"}));
  EXPECT_NE(ids({"--temp", "2", "--samplers", "temperature", "--top-k", "1"}), greedy["ids"]);
  EXPECT_NE(ids({"--logit-bias", first + "-inf"})[0], greedy["ids"][0]);
  EXPECT_EQ(ids({"--logit-bias", "77+1e6"})[11], 77);
  // Away from the very same prompt there is nowhere to go.
  const auto away = [&](const char* from) {
    return ids({"--cfg-scale", "2", "--cfg-negative-prompt", from});
  };
  EXPECT_EQ(away("Once upon a time"), greedy["ids"]);
  EXPECT_NE(away("The fox was very"), greedy["ids"]);
  // Under a heavy penalty no token comes twice.
  const Json once = ids({"--presence-penalty", "1000", "--repeat-last-n", "-1"});
  EXPECT_EQ(std::set<Json>(once.begin(), once.end()).size(), 12u);
}

TEST_F(Sampling, EveryStageOfTheHeaderIsKnownAndDescribed) {
  const std::string source = LLMC_SOURCE_DIR;
  const auto header = read_file(source + "/runtime/include/llmc/llmc.h");
  const auto page = read_file(source + "/docs/sampling.md");
  ASSERT_TRUE(header.ok() && page.ok());
  constexpr std::string_view kStart = "enum {\n  LLMC_SAMPLER_", kPrefix = "LLMC_SAMPLER_";
  const std::size_t start = header->find(kStart);
  ASSERT_NE(start, std::string::npos);
  const std::string list = header->substr(start, header->find('}', start) - start);
  int stages = 0;
  for (std::size_t at = list.find(kPrefix); at != list.npos; at = list.find(kPrefix, at)) {
    at += kPrefix.size();
    std::string name = list.substr(at, list.find(' ', at) - at);
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
    EXPECT_EQ(run("generic", {"--temp", "1", "--samplers", name})["ids"].size(), 12u) << name;
    EXPECT_THAT(*page, ::testing::HasSubstr("\n| " + name + " |"));
    ++stages;
  }
  EXPECT_GE(stages, 9);
}

TEST_F(Sampling, LogprobsAreThoseOfTheModel) {
  const Json json = run("generic", {"--temp", "3", "--top-k", "5", "--logprobs", "4"});
  ASSERT_EQ(json["logprobs"].size(), 12u);
  for (std::size_t i = 0; i < 12; ++i) {
    const Json& said = json["logprobs"][i];
    EXPECT_EQ(said["id"], json["ids"][i]);
    ASSERT_EQ(said["top_logprobs"].size(), 4u);
    double total = 0, last = 0;
    for (const Json& top : said["top_logprobs"]) {
      const double logprob = top["logprob"];
      EXPECT_LE(logprob, last);
      last = logprob;
      total += std::exp(logprob);
      if (top["id"] == said["id"])
        EXPECT_EQ(
            top,
            (Json{{"id", said["id"]}, {"piece", said["piece"]}, {"logprob", said["logprob"]}}));
    }
    EXPECT_LE(total, 1.0 + 1e-6);
  }
}

}  // namespace
}  // namespace llmc::tests
#endif
