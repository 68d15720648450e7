// What `llmc run` prints while it generates, and what ends it: JSON lines, stop texts, notes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/end_to_end/run_command.h"

#ifdef LLMC_PROGRAM
namespace llmc::tests {
namespace {

using Arguments = std::vector<std::string>;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

/// Checks that the lines say the same as the last one.
void expect_streamed(const std::vector<json>& lines) {
  ASSERT_GE(lines.size(), 2u);
  json ids = json::array();
  std::string text;
  for (const json& line : lines) {
    if (&line == &lines.back()) continue;
    EXPECT_FALSE(line.contains("done")) << line;
    if (line.contains("id")) ids.push_back(line["id"]);
    text += line["text"].get<std::string>();
  }
  EXPECT_EQ(lines.back()["done"], true);
  EXPECT_EQ(lines.back()["ids"], ids);
  EXPECT_EQ(lines.back()["text"], text);
}

TEST_F(RunCommand, JsonIsALineForEachTokenThenASummary) {
  const auto plain = lines({});
  ASSERT_EQ(plain.size(), 25u);
  expect_streamed(plain);
  EXPECT_FALSE(plain[0].contains("logprob"));
  for (const char* key : {"prompt_ids", "logits_hash", "stopped", "target", "seed",
                          "tokens_per_second", "prompt_tokens_per_second"})
    EXPECT_TRUE(plain.back().contains(key)) << key;
  const auto said = lines({"--logprobs", "2"});
  expect_streamed(said);
  EXPECT_EQ(said[3]["logprob"], said.back()["logprobs"][3]["logprob"]);
  EXPECT_EQ(said[3]["top_logprobs"].size(), 2u);
}

TEST_F(RunCommand, StopTextsEndTheTextAndAreNotPrinted) {
  const std::string whole = lines({}).back()["text"];
  ASSERT_GT(whole.size(), 30u);
  // Across the borders of tokens: each place in the text.
  for (const std::size_t at : {0, 1, 5, 12, 20}) {
    const std::string stop = whole.substr(at, 6);
    const auto stopped = lines({"--stop", "never there", "--stop", stop});
    expect_streamed(stopped);
    EXPECT_EQ(stopped.back()["stopped"], "stop_text");
    EXPECT_EQ(stopped.back()["text"], whole.substr(0, whole.find(stop))) << stop;
    EXPECT_LT(stopped.size(), 25u);
  }
  const std::string stop = whole.substr(8, 4);
  const ProgramRun text = run_prompt({"--reverse-prompt", stop, "--temp", "0"});
  EXPECT_EQ(text.out, "Once upon a time" + whole.substr(0, whole.find(stop)) + "\n");
  EXPECT_THAT(text.err, HasSubstr("ended with a stop text"));
  // What only begins like one is printed at the end.
  const auto almost = lines({"--stop", whole.substr(whole.size() - 4) + "\x01"});
  expect_streamed(almost);
  EXPECT_EQ(almost.back()["text"], whole);
  EXPECT_EQ(almost.back()["stopped"], "length");
  for (const char* bad : {"", "\xC3"}) {
    const ProgramRun refused = run_prompt({"--stop", bad});
    EXPECT_EQ(refused.code, 2);
    EXPECT_THAT(refused.err, HasSubstr("--stop needs"));
  }
}

TEST_F(RunCommand, ControlTokensThatAreReadAsTextAreTold) {
  const auto told = [&](Arguments more) {
    more.insert(more.begin(), {"run", bundle(), "-n", "1"});
    return llmc(more).err;
  };
  const char* const words =
      "the prompt spells control tokens (<s>), which are read as plain text; "
      "--special reads them as tokens";
  EXPECT_THAT(told({"-p", "One <s> two"}), HasSubstr(words));
  EXPECT_THAT(told({"-p", "One <s> two", "--special"}), Not(HasSubstr("control tokens")));
  EXPECT_THAT(told({"-p", "One < s> two"}), Not(HasSubstr("control tokens")));
  EXPECT_THAT(told({"-p", "One <s> two", "-q"}), Not(HasSubstr("control tokens")));
}

TEST_F(RunCommand, TheSeedIsDrawnAndTold) {
  const ProgramRun first = run_prompt({});
  const std::size_t at = first.err.find("; seed ");
  ASSERT_NE(at, std::string::npos) << first.err;
  const std::string seed = first.err.substr(at + 7, first.err.find('\n', at) - at - 7);
  EXPECT_EQ(run_prompt({"-s", seed}).out, first.out);
  EXPECT_THAT(run_prompt({"--temp", "0"}).err, Not(HasSubstr("seed"))) << "nothing is drawn";
}

}  // namespace
}  // namespace llmc::tests
#endif
