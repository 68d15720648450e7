// --lookup and --draft: texts of several tokens per pass beside those of single steps.
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "compiler/support/file.h"
#include "tests/end_to_end/cross.h"
#include "tests/end_to_end/last_line.h"
#include "tests/end_to_end/models.h"
#include "tests/end_to_end/program.h"
#include "tests/support_onnx/tiny_encoder_decoder.h"
#include "tests/support_onnx/tiny_recurrent.h"

#ifdef LLMC_PROGRAM
namespace llmc::tests {
namespace {

namespace fs = std::filesystem;

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

/// A text that repeats itself, and its bundle with a batch of 8.
class Lookup : public ::testing::Test {
 protected:
  static constexpr const char* kPrompt =
      "Clara had a red ball. She liked the ball. Clara had a red ball. She liked the ball. Clara "
      "had";

  static std::string compiled(driver::CompileOptions options) {
    options.cflags = {"-O1"};  // thousands of tokens are generated
    const auto made = driver::compile_model(options);
    if (!made.ok()) expect_ok(made.error());
    return options.out_dir.string();
  }
  static const std::string& bundle() {
    static const testing::TemporaryFolder folder;
    static const std::string path = [] {
      auto options = quick(tinyfable(), folder.path() / "fable");
      options.batch = 8;
      return compiled(options);
    }();
    return path;
  }
  /// The same model with other weights, as one that drafts.
  static const std::string& draft() {
    static const testing::TemporaryFolder folder;
    static const std::string path = [] {
      auto options = quick(tinyfable(), folder.path() / "draft");
      options.quant = ir::WeightFormat::kQ4;
      return compiled(options);
    }();
    return path;
  }

  /// `lookup`: tokens of a pass, or a bundle that drafts.
  static nlohmann::json text_of(std::vector<std::string> arguments, const std::string& lookup) {
    arguments.insert(arguments.begin(), {"run", bundle(), "--json", "-q",
                                         lookup.size() > 2 ? "--draft" : "--lookup", lookup});
    const ProgramRun ran = llmc(arguments);
    EXPECT_EQ(ran.code, 0) << ran.err;
    nlohmann::json line = nlohmann::json::parse(last_line(ran.out));
    for (const char* rate :
         {"tokens_per_second", "prompt_tokens_per_second", "seed", "tokens_per_pass"})
      line.erase(rate);
    return line;
  }
};

/// The number after `name` in the closing note.
double tokens_per_pass(const ProgramRun& ran, const std::string& name) {
  EXPECT_EQ(ran.code, 0) << ran.err;
  const std::size_t at = ran.err.find(name + ": ");
  EXPECT_NE(at, std::string::npos) << ran.err;
  return at == std::string::npos ? 0 : std::stod(ran.err.substr(at + name.size() + 2));
}

TEST_F(Lookup, TextsLogitsAndStatesAreThoseOfSingleSteps) {
  const testing::TemporaryFolder folder;
  const std::string state = (folder.path() / "state").string();
  const std::vector<std::vector<std::string>> runs{
      {"-p", kPrompt, "-n", "60", "--temp", "0"},
      {"-p", kPrompt, "-n", "300", "--temp", "0.6", "--seed", "3", "--repeat-penalty", "1.1"},
      {"-p", kPrompt, "-n", "60", "--temp", "0", "--stop", "."},
      {"-p", kPrompt, "-n", "-2", "--temp", "0", "--ignore-eos"},
      {"-p", kPrompt, "-n", "40", "--temp", "0.8", "--seed", "4", "--mirostat", "2"},
      {"-p", "", "-n", "8", "--temp", "0", "--logit-bias", "2+100"},
      {"--special", "-p", "Clara had a red ball. She</s>Clara had a red ball. She</s>Clara", "-n",
       "40", "--temp", "0", "--grammar", "root ::= \" had a red ball. She\""},
      {"-p", "[", "-n", "60", "--temp", "0", "--grammar",
       "root ::= [[] ([0-9] \",\"){3,24} \"]\""}};
  for (std::vector<std::string> run : runs) {
    run.insert(run.end(), {"--save-state", state});
    const nlohmann::json steps = text_of(run, "1");
    const auto expected = read_file(state);
    const std::string shown = fmt::format("{}", fmt::join(run, " "));
    ASSERT_TRUE(expected.ok());
    for (const std::string& lookup : {draft(), std::string("8")}) {
      EXPECT_EQ(text_of(run, lookup), steps) << lookup << ": " << shown;
      const auto saved = read_file(state);
      ASSERT_TRUE(saved.ok());
      EXPECT_TRUE(*saved == *expected) << lookup << ": " << shown;
    }
    // A run that loads either state generates the same tokens.
    const std::vector<std::string> more{"-p",           "",    "-n",           "8",  "--temp", "0",
                                        "--load-state", state, "--save-state", state};
    const nlohmann::json rest = text_of(more, "8");
    ASSERT_TRUE(write_file(state, *expected).ok());
    EXPECT_EQ(text_of(more, "1"), rest) << shown;
  }
}

TEST_F(Lookup, PassesAreFewerThanTokens) {
  const ProgramRun ran = llmc({"run", bundle(), "-p", kPrompt, "-n", "60", "--temp", "0",
                               "--lookup", "8", "--grammar", "root ::= (\" had a red ball.\"){9}"});
  const double tokens = tokens_per_pass(ran, "lookup");
  EXPECT_GT(tokens, 1.2);
  const ProgramRun json =
      llmc({"run", bundle(), "-p", kPrompt, "-n", "60", "--temp", "0", "--lookup", "8", "--grammar",
            "root ::= (\" had a red ball.\"){9}", "--json", "-q"});
  ASSERT_EQ(json.code, 0) << json.err;
  EXPECT_NEAR(nlohmann::json::parse(last_line(json.out)).at("tokens_per_pass"), tokens, 0.01);
}

TEST_F(Lookup, ChatShowsTokensPerPass) {
  const testing::TemporaryFolder folder;
  const auto chat = [&](const std::string& more) {
    return run_program(
        {write_script(folder.path() / "chat",
                      fmt::format("printf '{}\\n/stats\\n' | {} chat {} -n 40 --temp 0 {}", kPrompt,
                                  LLMC_PROGRAM, bundle(), more))});
  };
  const ProgramRun shown = chat("--lookup 8");
  ASSERT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(shown.err,
              ContainsRegex("tokens/s; lookup: [1-8]\\.[0-9][0-9] tokens per pass; prompt"));
  EXPECT_THAT(shown.out,
              ContainsRegex("answers  .* tokens/s; lookup: [1-8]\\.[0-9][0-9] tokens per"));
  const ProgramRun json = chat("--json --draft " + draft());
  ASSERT_EQ(json.code, 0) << json.err;
  std::istringstream lines(json.out);
  std::string answer, stats;
  ASSERT_TRUE(std::getline(lines, answer) && std::getline(lines, stats)) << json.out;
  const double tokens = nlohmann::json::parse(answer).at("tokens_per_pass");
  EXPECT_GE(tokens, 1);
  EXPECT_EQ(nlohmann::json::parse(stats).at("stats").at("tokens_per_pass"), tokens);
  EXPECT_THAT(chat("").err, Not(HasSubstr("per pass")));
}

TEST_F(Lookup, DraftsOfAModelAreAppended) {
  // The first passes have drafts, later ones where that is faster.
  for (const char* temperature : {"0", "0.8"}) {
    const ProgramRun ran = llmc({"run", bundle(), "-p", kPrompt, "-n", "60", "--temp", temperature,
                                 "--seed", "5", "--draft", draft()});
    EXPECT_GT(tokens_per_pass(ran, "draft"), 1.04) << temperature;
  }
}

TEST_F(Lookup, DraftsFollowTheTokenThatIsAlreadyKnown) {
  // This draft model seldom guesses the next token, but tokens after a known one.
  const ProgramRun ran = llmc({"run", bundle(), "-p", kPrompt, "-n", "7", "--temp", "1.2", "--seed",
                               "5", "--ignore-eos", "--draft", draft()});
  EXPECT_GT(tokens_per_pass(ran, "draft"), 1.04);
}

TEST_F(Lookup, ADraftModelThatFailsLeavesTheText) {
  const testing::TemporaryFolder folder;
  auto options = quick(tinyfable(), folder.path() / "small");
  options.pool = 1;  // of 32 tokens
  const std::string small = compiled(options);
  for (const char* prompt : {"Clara had", kPrompt}) {
    const std::vector<std::string> run{"-p", prompt, "-n", "60", "--temp", "0"};
    EXPECT_EQ(text_of(run, small), text_of(run, "1")) << prompt;
  }
}

TEST_F(Lookup, OptionsOfTheModelAreNotThoseOfTheDraft) {
  // Sources are of the encoder.
  const testing::TemporaryFolder folder;
  testing::write_tiny_encoder_decoder(folder.path());
  const ModelFolder decoder({.vocabulary = 24});
  const auto ids = [&](const std::vector<std::string>& more) {
    std::vector<std::string> run{"run",
                                 folder.path().string(),
                                 "--source-ids",
                                 "3,4,5",
                                 "--ids",
                                 "2",
                                 "-n",
                                 "6",
                                 "--temp",
                                 "0",
                                 "-q",
                                 "--ignore-eos",
                                 "--target",
                                 "generic",
                                 "--cflag=-O0",
                                 "--source-ctx",
                                 "16",
                                 "--sources",
                                 "2"};
    run.insert(run.end(), more.begin(), more.end());
    const ProgramRun ran = llmc(run);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return ran.out;
  };
  EXPECT_EQ(ids({"--draft", decoder.path().string()}), ids({}));
  // The context may be longer than the one that the draft was trained for.
  const ModelFolder large({.vocabulary = 1100});
  const ProgramRun ran =
      llmc({"run", large.path().string(), "--ids", "5", "-n", "4", "-c", "512", "--target",
            "generic", "--cflag=-O0", "--quant", "q4", "--draft", tinyfable().string()});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.err, Not(HasSubstr("was trained for")));
}

TEST_F(Lookup, SaysWhereDraftsAreNotUsed) {
  const testing::TemporaryFolder folder;
  const std::string recurrent = (folder.path() / "model.onnx").string();
  testing::tiny_recurrent({}).save(recurrent);
  const auto said = [](std::vector<std::string> run, std::string_view draft) {
    run.insert(run.end(), {"-n", "4", "--target", "generic", "--cflag=-O0"});
    run.insert(run.end(),
               {draft.empty() ? "--lookup" : "--draft", draft.empty() ? "8" : std::string(draft)});
    const ProgramRun ran = llmc(run);
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_THAT(ran.err, Not(HasSubstr("per pass")));
    return ran.err;
  };
  const std::vector<std::string> run{"run", recurrent, "--ids", "1,2"};
  EXPECT_THAT(said(run, {}), HasSubstr("--lookup has no effect on a model with recurrent states"));
  EXPECT_THAT(said(run, recurrent), HasSubstr("--draft has no effect on a model with"));
  const ProgramRun mirostat = llmc({"run", bundle(), "-p", "Clara", "-n", "4", "--temp", "0.8",
                                    "--mirostat", "2", "--draft", draft()});
  EXPECT_EQ(mirostat.code, 0) << mirostat.err;
  EXPECT_THAT(mirostat.err, HasSubstr("--draft has no effect with --mirostat"));
  EXPECT_THAT(mirostat.err, Not(HasSubstr("per pass")));
}

TEST_F(Lookup, RefusesModelsThatCannotDraft) {
  const testing::TemporaryFolder folder;
  const auto refused = [&](const std::string& draft, int code) {
    const ProgramRun ran = llmc({"run", bundle(), "-p", kPrompt, "-n", "4", "--draft", draft});
    EXPECT_EQ(ran.code, code) << ran.err;
    EXPECT_EQ(ran.out, "") << "the prompt is printed when the model is ready";
    return ran.err;
  };
  const ModelFolder other;
  EXPECT_THAT(refused(compiled(quick(other.path(), folder.path() / "other")), 2),
              HasSubstr("its vocabulary has"));
  EXPECT_THAT(refused("", 2), HasSubstr("--draft is empty"));
  // Before the model is compiled.
  const std::string none = (folder.path() / "none").string();
  const ProgramRun early = llmc({"run", other.path().string(), "--ids", "1", "--no-cache", "--cc",
                                 "/bin/false", "--draft", none});
  EXPECT_EQ(early.code, 3) << early.err;
  EXPECT_THAT(early.err, HasSubstr(none));
  // Of another kind.
  const ModelFolder small({.vocabulary = 24});
  const auto refused_by_small = [&](const fs::path& draft) {
    const ProgramRun ran = llmc({"run", small.path().string(), "--ids", "1", "-n", "4", "--target",
                                 "generic", "--cflag=-O0", "--draft", draft.string()});
    EXPECT_EQ(ran.code, 2) << ran.err;
    EXPECT_THAT(ran.err, HasSubstr(draft.string()));
    return ran.err;
  };
  testing::write_tiny_encoder_decoder(folder.path() / "s2s");
  EXPECT_THAT(refused_by_small(folder.path() / "s2s"), HasSubstr("it is an encoder-decoder"));
  testing::tiny_recurrent({}).save(folder.path() / "model.onnx");
  EXPECT_THAT(refused_by_small(folder.path() / "model.onnx"), HasSubstr("it has recurrent states"));
}

TEST_F(Lookup, AConversationIsThatOfSingleSteps) {
  const testing::TemporaryFolder folder;
  const fs::path input = folder.path() / "input", config = folder.path() / "config.json";
  const std::string text(kPrompt);
  ASSERT_TRUE(write_file(input, text + "\n" + text + "\n\n/reset\n" + text + "\n").ok());
  const auto answers = [&](const std::string& lookup, const std::string& stop) {
    const std::string name = lookup.size() > 2 ? "draft" : "lookup";
    const std::string value = lookup.size() > 2 ? "\"" + lookup + "\"" : lookup;
    EXPECT_TRUE(write_file(config, "{\"" + name + "\": " + value + "}").ok());
    return output_of({"sh", "-c",
                      "exec " LLMC_PROGRAM " chat '" + bundle() +
                          "' -q --no-template -n 16 --temp 0.5 " + "--seed 8 --stop '" + stop +
                          "' --config '" + config.string() + "' < '" + input.string() + "'"});
  };
  for (const char* stop : {"nothing", "said", "a"}) {
    const std::string steps = answers("1", stop);
    EXPECT_EQ(answers("8", stop), steps) << stop;
    EXPECT_EQ(answers(draft(), stop), steps) << stop;
  }
}

TEST_F(Lookup, RefusesWhatItDoesNotWorkWith) {
  const auto refused = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"run", bundle(), "-p", kPrompt, "--lookup", "8"});
    const ProgramRun ran = llmc(more);
    EXPECT_EQ(ran.code, 2) << ran.err;
    return ran.err;
  };
  EXPECT_THAT(refused({"--logprobs", "2"}), HasSubstr("--logprobs"));
  EXPECT_THAT(refused({"--beams", "2"}), HasSubstr("--beams"));
  EXPECT_THAT(refused({"--cfg-scale", "2", "--cfg-negative-prompt", "x"}),
              HasSubstr("--cfg-scale"));
  const ProgramRun emulated = llmc({"run", tinyfable().string(), "-p", kPrompt, "--target=lasx",
                                    "--cflag=-O1", "--draft", draft(), "-n", "1"},
                                   {"LLMC_CROSS_DIR=" + cross_folder().string()});
  EXPECT_NE(emulated.code, 0);
  if (executable(**target::find("lasx")))
    EXPECT_THAT(emulated.err, HasSubstr("--draft needs a model that runs in this process"));
  const ProgramRun single =
      llmc({"run", bundle(), "-p", kPrompt, "--lookup", "1", "--draft", draft()});
  EXPECT_EQ(single.code, 2) << single.err;
  EXPECT_THAT(single.err, HasSubstr("--draft has no effect"));
  const ProgramRun many = llmc({"run", bundle(), "-p", kPrompt, "--lookup", "9"});
  EXPECT_EQ(many.code, 2) << many.err;
  EXPECT_THAT(many.err, HasSubstr("--batch=9, or use --lookup 8"));
}

TEST_F(Lookup, HasTheSameTextUnderAnEmulator) {
  const auto lasx = target::find("lasx");
  ASSERT_TRUE(lasx.ok());
  if (!executable(**lasx)) LLMC_MISSING_CROSS(without_emulator(**lasx));
  const auto text = [&](const std::string& lookup) {
    const ProgramRun ran =
        llmc({"run", tinyfable().string(), "-q", "--target=lasx", "--cflag=-O1", "-p", kPrompt,
              "-n", "24", "--temp", "0", "--json", "--lookup", lookup},
             {"LLMC_CROSS_DIR=" + cross_folder().string()});
    EXPECT_EQ(ran.code, 0) << ran.err;
    return nlohmann::json::parse(last_line(ran.out))["logits_hash"];
  };
  const std::vector<std::string> run{"-p", kPrompt, "-n", "24", "--temp", "0"};
  EXPECT_EQ(text("4"), text_of(run, "1")["logits_hash"]);
}

}  // namespace
}  // namespace llmc::tests
#endif
