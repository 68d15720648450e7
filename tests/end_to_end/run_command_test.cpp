// `llmc run` as people who know llama.cpp use it: what is printed, how much, and what happens when
// the context is full.
#include "tests/end_to_end/run_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "compiler/support/file.h"
#include "compiler/support/subprocess.h"

#ifdef LLMC_PROGRAM
namespace llmc::tests {
namespace {

namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::size_t kContext = 64;

TEST_F(RunCommand, PrintsTheGeneratedTextAlone) {
  const ProgramRun whole = run({"-p", kPrompt, "-n", "8"});
  const ProgramRun alone = run({"-p", kPrompt, "-n", "8", "--no-display-prompt"});
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_EQ(kPrompt + alone.out, whole.out);
  EXPECT_EQ(alone.out, result({"-p", kPrompt, "-n", "8"})["text"].get<std::string>() + "\n");
}

TEST_F(RunCommand, ContinuesASavedText) {
  const std::string state = file("state", "");
  const auto text = [](Arguments more) {
    more.insert(more.end(), {"--temp", "0.9", "--seed", "4"});
    return result(more)["text"].get<std::string>();
  };
  const std::string all = text({"-p", kPrompt, "-n", "12"});
  const std::string first = text({"-p", kPrompt, "-n", "5", "--save-state", state});
  EXPECT_EQ(first + text({"-p", "", "-n", "7", "--load-state", state}), all);
  const ProgramRun forged = run({"-p", "", "--load-state", file("forged", "state")});
  EXPECT_EQ(forged.code, 3) << forged.err;
  EXPECT_THAT(forged.err, HasSubstr("/forged: the bytes are not a saved state"));
  EXPECT_THAT(run({"-p", "x", "--load-state", file("forged", "state")}).out, "")
      << "the prompt is printed when nothing can be refused any more";
  const ProgramRun missing = run({"-p", "", "--load-state", state + "-not"});
  EXPECT_EQ(missing.code, 3) << missing.err;
}

TEST_F(RunCommand, ChecksThePlaceOfAStateBeforeItGenerates) {
  const auto refused = [](const std::string& state, const char* message) {
    const ProgramRun ran = run({"-p", kPrompt, "-n", "5", "--save-state", state});
    EXPECT_EQ(ran.code, 3) << state;
    EXPECT_EQ(ran.out, "") << "nothing was generated";
    EXPECT_THAT(ran.err, HasSubstr(message));
  };
  refused("/nowhere/state",
          "/nowhere/state: the folder /nowhere does not exist\nhint: create it, "
          "or use another --save-state");
  refused(folder_->path().string(), "--save-state takes the name of a file");
}

TEST_F(RunCommand, EndsTheLineBeforeAnError) {
  const Arguments options{"-p", kPrompt, "-n", "5", "--temp", "0"};
  Arguments more = options;
  more.insert(more.end(), {"--save-state", (folder_->path() / std::string(300, 'x')).string()});
  const ProgramRun ran = run(more);
  EXPECT_EQ(ran.code, 3) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("File name too long"));
  EXPECT_EQ(ran.out, run(options).out) << "whole lines";
}

TEST_F(RunCommand, TakesSmallerChunks) {
  const auto hash = [](const char* chunk) {
    return result({"-p", kPrompt, "-n", "4", "--chunk", chunk})["logits_hash"];
  };
  EXPECT_EQ(hash("1"), hash("3"));
  const ProgramRun large = run({"-p", kPrompt, "--chunk", "1000"});
  EXPECT_EQ(large.code, 2);
  EXPECT_THAT(large.err, HasSubstr("--chunk 1000: the model was compiled for at most"));
}

TEST_F(RunCommand, AnUnknownOptionIsNamedWithTheOneItResembles) {
  const auto refused = [](const Arguments& more) {
    const ProgramRun ran = run(more);
    EXPECT_EQ(ran.code, 2) << ran.err;
    return ran.err;
  };
  EXPECT_EQ(refused({"--tmep", "5"}),
            "llmc: error: llmc run has no option --tmep\nhint: did you mean --temp?\n");
  EXPECT_EQ(refused({"--tmep=5"}),
            "llmc: error: llmc run has no option --tmep\nhint: did you mean --temp?\n");
  EXPECT_EQ(refused({"--nothing-like-it"}),
            "llmc: error: llmc run has no option --nothing-like-it\n"
            "hint: llmc run --help lists the options\n");
  EXPECT_THAT(refused({"more", "words"}), HasSubstr("unexpected argument 'more'"));
  const ProgramRun after_dashes = llmc({"run", bundle(), "--", "-p"});
  EXPECT_EQ(after_dashes.code, 2);
  EXPECT_THAT(after_dashes.err, HasSubstr("unexpected argument '-p'"));
  EXPECT_THAT(llmc({"--nothing", "run", bundle()}).err, HasSubstr("llmc has no option --nothing"));
  EXPECT_THAT(refused({"-p", "x", "--grammar", ""}), HasSubstr("--grammar: is empty"));
  EXPECT_THAT(llmc({"run", "", "-p", "x"}).err, HasSubstr("MODEL is empty"));
  EXPECT_THAT(llmc({"inspect", ""}).err, HasSubstr("the path is empty"));
}

TEST_F(RunCommand, OptionsThatChangeNothingWithoutATemperatureAreTold) {
  const auto told = [](Arguments more) {
    more.insert(more.end(), {"-p", kPrompt, "-n", "1"});
    const ProgramRun ran = run(more);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return ran.err;
  };
  EXPECT_THAT(told({"--top-k", "5"}), HasSubstr("--top-k has no effect: temperature 0"));
  EXPECT_THAT(told({"-s", "5", "--mirostat", "2"}), HasSubstr("--seed, --mirostat have no effect"));
  EXPECT_THAT(told({"--top-k", "5", "-q"}), Not(HasSubstr("nothing")));
  EXPECT_THAT(told({"--top-k", "5", "--temp", "0.8"}), Not(HasSubstr("nothing")));
  EXPECT_THAT(told({"--top-k", "5", "--temp", "0"}), Not(HasSubstr("llama.cpp")));
  EXPECT_THAT(told({"--repeat-penalty", "1.1"}), Not(HasSubstr("nothing")));
  EXPECT_THAT(told({"--top-k", "0", "--top-p", "1"}), Not(HasSubstr("nothing")));
  // These take the likeliest token out.
  EXPECT_THAT(told({"--xtc-probability", "1", "-s", "3"}), Not(HasSubstr("nothing")));
  EXPECT_THAT(told({"--typical", "0.2"}), Not(HasSubstr("nothing")));
}

TEST_F(RunCommand, ABundleWithoutATokenizerIsNotSaidToBeNoModel) {
  const testing::TemporaryFolder folder;
  const fs::path path = folder.path() / "fable";
  fs::copy(bundle(), path, fs::copy_options::recursive);
  const auto plan = read_file(path / "tinyfable.plan.json");
  ASSERT_TRUE(plan.ok());
  json facts = json::parse(*plan);
  facts.erase("tokenizer");
  ASSERT_TRUE(write_file(path / "tinyfable.plan.json", facts.dump()).ok());
  const ProgramRun ran = llmc({"run", path.string(), "-p", "x"});
  EXPECT_EQ(ran.code, 3) << ran.err;
  EXPECT_THAT(ran.err,
              ::testing::AllOf(HasSubstr("the bundle has no tokenizer"), HasSubstr("--ids")));
  EXPECT_EQ(llmc({"run", path.string(), "--ids", "1,2", "-n", "1"}).code, 0);
}

TEST_F(RunCommand, OneLastLineBreakOfAPromptsFileIsNoPartOfIt) {
  const std::string one = file("one.txt", std::string(kPrompt) + "\n");
  const std::string two = file("two.txt", std::string(kPrompt) + "\n\n");
  const json given = result({"-p", kPrompt, "-n", "8"});
  EXPECT_EQ(result({"-f", one, "-n", "8"})["prompt_ids"], given["prompt_ids"]);
  EXPECT_EQ(result({"-f", two, "-n", "8"})["prompt_ids"],
            result({"-p", std::string(kPrompt) + "\n", "-n", "8"})["prompt_ids"]);
  EXPECT_NE(result({"-f", two, "-n", "8"})["prompt_ids"], given["prompt_ids"]);
}

TEST_F(RunCommand, CountsAsLlamaCppDoes) {
  const ProgramRun none = run({"-p", kPrompt, "-n", "0"});
  EXPECT_EQ(none.code, 0);
  EXPECT_EQ(none.out, std::string(kPrompt) + "\n");
  EXPECT_THAT(none.err, HasSubstr("generated: 0 tokens"));
  const std::size_t prompt = result({"-p", kPrompt, "-n", "0"})["prompt_ids"].size();
  for (const char* count : {"-1", "-2"}) {
    const json full = result({"-p", kPrompt, "-n", count, "--ignore-eos"});
    EXPECT_EQ(full["stopped"], "context") << count;
    // The last one found no room any more.
    EXPECT_EQ(full["ids"].size(), kContext - prompt + 1) << count;
  }
  const ProgramRun bad = run({"-p", kPrompt, "-n", "-3"});
  EXPECT_EQ(bad.code, 2);
  EXPECT_THAT(bad.err, HasSubstr("--n-predict takes a whole number from -2"));
  const ProgramRun chat = llmc({"chat", bundle(), "-n", "0"});
  EXPECT_EQ(chat.code, 2);
  EXPECT_THAT(chat.err, HasSubstr("hint: use -n -1"));
}

TEST_F(RunCommand, ADrawnSeedIsToldAndRepeats) {
  const Arguments usual{"-p", kPrompt, "-n", "20", "--temp", "1.5", "--ignore-eos"};
  const auto with = [&](Arguments more) {
    more.insert(more.begin(), usual.begin(), usual.end());
    return more;
  };
  const json first = result(with({"-s", "-1"})), second = result(with({"--seed=-1"}));
  EXPECT_NE(first["seed"], second["seed"]) << "one in 2^32";
  const std::string seed = first["seed"].dump();
  EXPECT_EQ(result(with({"-s", seed}))["ids"], first["ids"]);
  const ProgramRun told = run(with({"-s", "-1"}));
  const std::size_t at = told.err.find("; seed ");
  ASSERT_NE(at, std::string::npos) << told.err;
  const std::string named = told.err.substr(at + 7, told.err.find('\n', at) - at - 7);
  EXPECT_EQ(run(with({"-s", named})).out, told.out);
  EXPECT_THAT(run(with({"-s", "7"})).err, Not(HasSubstr("seed"))) << "it was given";
}

/// Greedy ids of a text that moves up when the context is full are those of the text that is left.
TEST_F(RunCommand, AFullContextMovesUpWhenAsked) {
  const Arguments usual{"-p",           kPrompt,           "-n",     "70",
                        "--ignore-eos", "--context-shift", "--keep", "2"};
  const json shifted = result(usual);
  EXPECT_EQ(shifted["stopped"], "length");
  const std::vector<std::int32_t> made = shifted["ids"];
  std::vector<std::int32_t> text = shifted["prompt_ids"];
  ASSERT_EQ(made.size(), 70u);
  ASSERT_EQ(text.front(), 1) << "the beginning token, which stays besides the two";
  const std::size_t room = kContext - text.size();
  text.insert(text.end(), made.begin(), made.begin() + static_cast<std::ptrdiff_t>(room));
  const std::size_t kept = 3, dropped = (kContext - kept + 1) / 2;
  text.erase(text.begin() + kept, text.begin() + kept + dropped);
  text.push_back(made[room]);  // what found no room
  const std::vector<std::int32_t> rest(made.begin() + static_cast<std::ptrdiff_t>(room) + 1,
                                       made.end());
  const std::size_t left = std::min(rest.size(), kContext - text.size());
  ASSERT_GE(left, 8u);
  const auto expected = ids({"--ids", list(text), "-n", std::to_string(left), "--ignore-eos"});
  EXPECT_EQ(
      std::vector<std::int32_t>(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(left)),
      expected);

  Arguments emulated = usual, until_full = usual, off = usual;
  emulated.insert(emulated.end(), {"--emulator", "env"});
  EXPECT_EQ(ids(emulated), made) << "in a program of its own";
  until_full[3] = "-2";
  EXPECT_EQ(result(until_full)["stopped"], "context");
  off.erase(off.end() - 2, off.end());
  off.emplace_back("--no-context-shift");
  EXPECT_EQ(result(off)["stopped"], "context");
  // Nothing may go: the text ends as without the option.
  std::vector<std::int32_t> full(kContext, 40);
  EXPECT_EQ(result({"--ids", list(full), "-n", "4", "--context-shift", "--keep", "-1"})["stopped"],
            "context");
}

TEST_F(RunCommand, WhatDoesNotMoveUpSaysSo) {
  const auto refused = [&](Arguments more, const char* words) {
    more.insert(more.begin(), {"-p", kPrompt});
    const ProgramRun ran = run(more);
    EXPECT_EQ(ran.code, 2) << words;
    EXPECT_EQ(ran.out, "");
    EXPECT_THAT(ran.err, HasSubstr(words));
    EXPECT_THAT(ran.err, HasSubstr("\nhint: "));
  };
  refused({"--keep", "4"}, "--keep needs --context-shift");
  refused({"--context-shift", "--grammar", "root ::= \"a\""}, "cannot be combined with a grammar");
  refused({"--context-shift", "--keep", "-2"}, "--keep takes a whole number from -1");
}

TEST_F(RunCommand, SaysThatAGrammarsTextIsIncomplete) {
  const std::string digits = "root ::= [0-9]{12} \".\"";
  const ProgramRun cut = run({"-p", kPrompt, "-n", "3", "--grammar", digits});
  EXPECT_EQ(cut.code, 0) << cut.err;
  EXPECT_THAT(cut.err, HasSubstr("stopped at -n, and the grammar's text is incomplete"));
  const ProgramRun whole = run({"-p", kPrompt, "-n", "40", "--grammar", digits});
  EXPECT_THAT(whole.err, HasSubstr("the grammar's text is complete"));
  EXPECT_THAT(whole.err, Not(HasSubstr("incomplete")));
  const ProgramRun full = run({"-p", kPrompt, "-n", "-1", "--grammar", "root ::= [a-z ]{4000}"});
  EXPECT_THAT(full.err, HasSubstr("is full, and the grammar's text may be incomplete"));
}

TEST_F(RunCommand, AGrammarThatIsNoneSaysHowRulesAreWritten) {
  const ProgramRun rule = run({"-p", kPrompt, "--grammar", "root = \"yes\" | \"no\""});
  EXPECT_EQ(rule.code, 3);
  EXPECT_THAT(rule.err, HasSubstr("neither a file nor a grammar"));
  EXPECT_THAT(rule.err, HasSubstr("hint: write rules as name ::= "));
  const ProgramRun schema = run({"-p", kPrompt, "-j", "\"type\": \"object\""});
  EXPECT_EQ(schema.code, 3);
  EXPECT_THAT(schema.err, HasSubstr("neither a file nor a schema"));
  const ProgramRun missing = run({"-p", kPrompt, "--grammar", "no-such-file.gbnf"});
  EXPECT_EQ(missing.code, 3);
  EXPECT_THAT(missing.err, HasSubstr("no-such-file.gbnf: cannot be opened"));
}

TEST_F(RunCommand, AReaderThatHasGoneIsNoError) {
  const Arguments endless{"run", bundle(), "-p",           kPrompt,
                          "-n",  "-1",     "--ignore-eos", "--context-shift"};
  const Arguments table{"tokenize", bundle(), "--c-table"};
  // It goes while a text is written as it comes, or has gone before anything is written: a table
  // that fits a pipe whole would not meet it else.
  const std::string going =
      "exec 3>&1; { \"$@\"; echo \"code $?\" >&3; } | head -c 1 >/dev/null; exec 3>&-";
  const std::string gone = "mkfifo '" + (folder_->path() / "pipe").string() +
                           "' 2>/dev/null; cd '" + folder_->path().string() +
                           "'; exec 5<>pipe 6>pipe 5<&-; \"$@\" >&6; echo \"code $?\"";
  for (const auto& [script, command] :
       {std::pair{going, endless}, std::pair{gone, endless}, std::pair{gone, table}}) {
    Arguments argv{"timeout", "120", "sh", "-c", script, "sh", LLMC_PROGRAM};
    argv.insert(argv.end(), command.begin(), command.end());
    const auto ran = run_command(argv);
    ASSERT_TRUE(ran.ok());
    EXPECT_EQ(ran->standard_error, "") << command[0];
    EXPECT_EQ(ran->standard_output, "code 141\n") << command[0] << ": 128 + SIGPIPE";
  }
}

TEST_F(RunCommand, AnOutputThatCannotBeWrittenEndsTheText) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "/dev/full is not here";
  const std::vector<Arguments> counts{{"-n", "-1", "--context-shift"},
                                      {"-n", "-1", "--context-shift", "--no-display-prompt"},
                                      {"-n", "8"},
                                      {"-n", "0"},
                                      {"-n", "8", "--json"}};
  for (const Arguments& count : counts) {
    Arguments argv{"timeout", "120",          "sh",  "-c",     "exec \"$@\" > /dev/full",
                   "sh",      LLMC_PROGRAM,   "run", bundle(), "-p",
                   kPrompt,   "--ignore-eos", "-t",  "1"};
    argv.insert(argv.end(), count.begin(), count.end());
    const auto ran = run_command(argv);
    ASSERT_TRUE(ran.ok());
    EXPECT_EQ(ran->exit_code, 3) << count.back();
    EXPECT_EQ(ran->standard_error,
              "llmc: error: standard output: cannot be written\nhint: the disk may be full\n")
        << count.back();
  }
}

TEST(StandardOutput, AHelpTextThatCannotBeWrittenIsAnError) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "/dev/full is not here";
  for (const char* const arguments : {"--help", "plan --help", "--version"}) {
    const auto ran = run_command(
        {"sh", "-c", std::string("\"$0\" ") + arguments + " > /dev/full", LLMC_PROGRAM});
    ASSERT_TRUE(ran.ok());
    EXPECT_EQ(ran->exit_code, 3) << arguments;
    EXPECT_THAT(ran->standard_error, HasSubstr("standard output: cannot be written"));
  }
}

TEST(StandardError, AFailureToWriteKeepsTheExitCode) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "/dev/full is not here";
  const auto ran =
      run_command({"sh", "-c", "\"$0\" compile nothere -o x 2> /dev/full", LLMC_PROGRAM});
  ASSERT_TRUE(ran.ok());
  EXPECT_EQ(ran->exit_code, 3);
}

TEST_F(RunCommand, TakesASystemPromptForWhatItCompiles) {
  const std::string text = file("system.txt", "Once upon a time\n");
  const Arguments usual{"-p", ", there was a fox", "-n", "12", "--json", "-t", "1", "--temp", "0"};
  const Arguments compile{"--target", "generic", "--cflag=-O0", "--ctx", "64"};
  Arguments model{"run", tinyfable().string(), "--system-prompt", text};
  model.insert(model.end(), compile.begin(), compile.end());
  model.insert(model.end(), usual.begin(), usual.end());
  const ProgramRun ran = llmc(model);
  ASSERT_EQ(ran.code, 0) << ran.err;
  const std::string with = (folder_->path() / "with").string();
  Arguments compiled{"compile", tinyfable().string(), "--system-prompt", text, "-o", with, "-q"};
  compiled.insert(compiled.end(), compile.begin(), compile.end());
  ASSERT_EQ(llmc(compiled).code, 0);
  Arguments bundled{"run", with};
  bundled.insert(bundled.end(), usual.begin(), usual.end());
  const json here = json::parse(last_line(ran.out));
  const json there = json::parse(last_line(llmc(bundled).out));
  EXPECT_GT(here["system_prompt_tokens"], 1);
  for (const char* same : {"system_prompt_tokens", "prompt_ids", "ids", "logits_hash"})
    EXPECT_EQ(here[same], there[same]) << same;
  EXPECT_NE(here["prompt_ids"][0], 1) << "no beginning token in the middle";
  const ProgramRun refused = run({"-p", "x", "--system-prompt", text});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--system-prompt cannot change a compiled bundle"));

  // `ppl` measures the text by itself: every window begins empty.
  const std::string said =
      file("text.txt", std::string(40, 'a') + " fox and a crow met in a wood. " +
                           "The fox was sly and the crow was proud.");
  const Arguments measure{"--text", said, "-c", "32", "--json"};
  Arguments behind{"ppl", with}, alone{"ppl", bundle()};
  behind.insert(behind.end(), measure.begin(), measure.end());
  alone.insert(alone.end(), measure.begin(), measure.end());
  const ProgramRun one = llmc(behind), other = llmc(alone);
  ASSERT_EQ(one.code, 0) << one.err;
  EXPECT_EQ(json::parse(one.out)["perplexity"], json::parse(other.out)["perplexity"]);
}

TEST_F(RunCommand, TheContextOfABundlesWindowsIsTheirSize) {
  const auto measured = [&](Arguments more) {
    more.insert(more.begin(), {"ppl", bundle(), "--text", (tinyfable() / "heldout.txt").string(),
                               "--chunks", "2", "--json"});
    const ProgramRun ran = llmc(more);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return std::pair(json::parse(ran.out, nullptr, false)["window"], ran.err);
  };
  const auto [window, quiet] = measured({"--window", "32"});
  EXPECT_EQ(window, 32);
  EXPECT_EQ(quiet, "");
  const auto [former, note] = measured({"-c", "32"});
  EXPECT_EQ(former, 32);
  EXPECT_THAT(note, HasSubstr("use --window 32"));
  EXPECT_EQ(measured({}).first, 64) << "the bundle's context, which is less than 512";
}

TEST_F(RunCommand, PlansWarnOfSizesThatCanHardlyBeMeant) {
  const std::string model = tinyfable().string();
  const auto plan = [&](Arguments more) {
    more.insert(more.begin(), {"plan", model, "--target", "generic", "--ctx", "256"});
    const ProgramRun ran = llmc(more);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return ran.err;
  };
  EXPECT_EQ(plan({"--sequences", "4", "--batch", "4", "--pool", "8"}), "");
  const std::string batch = plan({"--batch", "8", "--sequences", "2"});
  EXPECT_THAT(batch, HasSubstr("note: --batch 8 is more than --sequences 2"));
  EXPECT_THAT(batch, HasSubstr("hint: --sequences 8"));
  const std::string pool = plan({"--pool", "2", "--sequences", "4"});
  EXPECT_THAT(pool, HasSubstr("warning: --pool 2 holds 64 tokens, and the context is 256"));
  EXPECT_THAT(pool, HasSubstr("hint: --pool 8 "));
  EXPECT_THAT(plan({"--pool", "9"}), HasSubstr("--pool 9 is more than the sequence"));
  EXPECT_EQ(plan({"--pool", "2", "-q"}), "");
}

}  // namespace
}  // namespace llmc::tests
#endif
