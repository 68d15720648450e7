// `llmc run --beams`.
#include <gmock/gmock.h>
#include <stdlib.h>

#include "tests/end_to_end/cross.h"
#include "tests/end_to_end/run_command.h"
#include "tests/support_onnx/tiny_encoder_decoder.h"

#ifdef LLMC_PROGRAM
namespace llmc::tests {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using json = nlohmann::json;

/// Searches after a prompt of the shipped model.
ProgramRun search(std::vector<std::string> more, const std::string& target = "generic") {
  more.insert(more.begin(), {"run", tinyfable().string(), "-p", "Once upon a time", "--ctx", "64",
                             "-t", "1", "--target", target, "--cflag=-O0"});
  return llmc(more);
}
json found(std::vector<std::string> more, const std::string& target = "generic") {
  more.emplace_back("--json");
  const ProgramRun ran = search(std::move(more), target);
  EXPECT_EQ(ran.code, 0) << ran.err;
  return json::parse(last_line(ran.out), nullptr, false);
}

TEST(BeamSearch, OneBeamIsGreedy) {
  const json greedy = found({"-n", "20", "--temp", "0"});
  const json one = found({"-n", "20", "--beams", "1"});
  EXPECT_EQ(one["ids"], greedy["ids"]);
  EXPECT_EQ(one["text"], greedy["text"]);
  EXPECT_FALSE(one.contains("logits_hash"));
}

TEST(BeamSearch, FindsMoreProbableTexts) {
  const json one = found({"-n", "6", "--beams", "1", "--length-penalty", "0"});
  const json four = found({"-n", "6", "--beams", "4", "--length-penalty", "0"});
  ASSERT_EQ(four["beams"].size(), 4u);
  EXPECT_GT(four["beams"][0]["score"], one["beams"][0]["score"]);
  for (std::size_t i = 1; i < 4; ++i)
    EXPECT_LE(four["beams"][i]["score"], four["beams"][i - 1]["score"]);
  EXPECT_EQ(four["text"], four["beams"][0]["text"]);
  EXPECT_EQ(four["stopped"], "length");
  // The score is the sum of the logarithms that a run of the same tokens prints.
  std::string ids;
  for (const int id : four["prompt_ids"]) ids += std::to_string(id) + ",";
  double sum = 0;
  for (const int id : four["ids"]) {
    const ProgramRun step = llmc({"run",
                                  tinyfable().string(),
                                  "--ids",
                                  ids.substr(0, ids.size() - 1),
                                  "--ctx",
                                  "64",
                                  "-t",
                                  "1",
                                  "--target",
                                  "generic",
                                  "--cflag=-O0",
                                  "-n",
                                  "1",
                                  "--temp",
                                  "0",
                                  "--logit-bias",
                                  std::to_string(id) + "+100",
                                  "--logprobs",
                                  "1",
                                  "--json"});
    ASSERT_EQ(step.code, 0) << step.err;
    const json line = json::parse(last_line(step.out), nullptr, false);
    ASSERT_EQ(line["ids"][0], id);
    sum += line["logprobs"][0]["logprob"].get<double>();
    ids += std::to_string(id) + ",";
  }
  EXPECT_NEAR(four["beams"][0]["score"].get<double>(), sum, 1e-4);
  EXPECT_THAT(search({"-n", "6", "--beams", "4", "--length-penalty", "0"}).out,
              HasSubstr(four["text"].get<std::string>()));
}

TEST(BeamSearch, EndsAtStopTextsAndAtAFullContext) {
  const json free = found({"-n", "-1", "--beams", "2", "--ignore-eos"});
  EXPECT_EQ(free["stopped"], "context");
  EXPECT_EQ(free["ids"].size() + free["prompt_ids"].size(), 65u) << "the last one is not run";
  const json cut = found({"-n", "12", "--beams", "2", "--stop", " was"});
  EXPECT_THAT(cut["text"].get<std::string>(), Not(HasSubstr(" was")));
  EXPECT_EQ(cut["stopped"], "stop_text");
}

TEST(BeamSearch, HasTheSameBitsOnOtherProcessors) {
  setenv("LLMC_CROSS_DIR", cross_folder().c_str(), 1);
  if (find_emulator("qemu-aarch64").empty()) LLMC_MISSING_CROSS("needs qemu-aarch64");
  const std::vector<std::string> options{"-n", "12", "--beams", "3", "--early-stopping", "never"};
  const json here = found(options);
  EXPECT_EQ(found(options, "arm64")["beams"], here["beams"]);
  EXPECT_EQ(found(options, "lasx")["beams"], here["beams"]);
}

TEST(BeamSearch, SearchesTextsOfASource) {
  testing::TemporaryFolder folder;
  testing::write_tiny_encoder_decoder(folder.path());
  const auto run = [&](const std::string& config, const std::string& ids) {
    EXPECT_TRUE(write_file(folder.path() / "generation_config.json", config).ok());
    const ProgramRun ran =
        llmc({"run", folder.path().string(), "--source-ids", ids, "-n", "6", "-t", "1", "--beams",
              "3", "--target", "generic", "--cflag=-O0", "--json"});
    EXPECT_EQ(ran.code, 0) << ran.err;
    return json::parse(last_line(ran.out), nullptr, false);
  };
  const json free = run(R"({"decoder_start_token_id": 2})", "5,17,3");
  ASSERT_EQ(free["beams"].size(), 3u);
  EXPECT_NE(run(R"({"decoder_start_token_id": 2})", "5,17,4")["beams"], free["beams"]);
  const std::string first = free["ids"][0].dump(), second = free["ids"][1].dump();
  const json without = run(R"({"decoder_start_token_id": 2, "suppress_tokens": [)" + second +
                               R"(], "begin_suppress_tokens": [)" + first + "]}",
                           "5,17,3");
  for (const json& beam : without["beams"]) {
    EXPECT_NE(beam["ids"][0].dump(), first);
    for (const json& id : beam["ids"]) EXPECT_NE(id.dump(), second);
  }
}

TEST(BeamSearch, OptionsThatDoNotFitAreRefused) {
  for (const std::vector<std::string>& others : {std::vector<std::string>{"--top-k", "3"},
                                                 {"--temp", "1"},
                                                 {"--seed", "4"},
                                                 {"--grammar", "root ::= \"a\""},
                                                 {"--logprobs", "2"},
                                                 {"--context-shift"},
                                                 {"--cfg-scale", "2"}}) {
    std::vector<std::string> options{"--beams", "2"};
    options.insert(options.end(), others.begin(), others.end());
    const ProgramRun ran = search(options);
    EXPECT_EQ(ran.code, 2);
    EXPECT_THAT(ran.err, HasSubstr(" cannot be combined with --beams")) << others[0];
  }
  EXPECT_THAT(search({"--length-penalty", "2"}).err, HasSubstr("needs --beams"));
  EXPECT_THAT(search({"--beams", "2", "-n", "0"}).err, HasSubstr("at least one token"));
  EXPECT_THAT(search({"--beams", "2", "--early-stopping", "maybe"}).err,
              HasSubstr("--early-stopping takes false, true or never, not 'maybe'"));
  testing::TemporaryFolder folder;
  const std::string bundle = (folder.path() / "b").string();
  ASSERT_EQ(llmc({"compile", tinyfable().string(), "-o", bundle, "--target", "generic",
                  "--cflag=-O0", "--ctx", "64", "-q"})
                .code,
            0);
  const ProgramRun few = llmc({"run", bundle, "-p", "a", "--beams", "2"});
  EXPECT_EQ(few.code, 2);
  EXPECT_THAT(few.err, HasSubstr("compile it with --sequences=2 --batch=2"));
}

}  // namespace
}  // namespace llmc::tests
#endif
