// llmc chat as scripts and people meet it, on the shipped model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "compiler/support/file.h"
#include "compiler/support/subprocess.h"
#include "tests/end_to_end/chat_command.h"
#include "tests/end_to_end/models.h"

#ifdef LLMC_PROGRAM
namespace llmc::tests {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Ran = ChatRun;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST_F(ChatCommand, WithoutATemplateTextIsContinuedAsRunDoes) {
  const Ran ran = chat({bundle("plain"), "-n", "24"}, "Once upon a time\n");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("no chat template"));
  EXPECT_THAT(ran.err, HasSubstr("tokens/s"));
  const auto reference = run_command({LLMC_PROGRAM, "run", bundle("plain"), "-p",
                                      "Once upon a time", "-n", "24", "-q", "--temp", "0"});
  EXPECT_EQ("Once upon a time" + ran.out, reference->standard_output);
  // In two parts: an empty message continues the text. All tokens are kept.
  const Ran parts = chat({bundle("plain"), "-n", "12", "--json"}, "Once upon a time\n\n");
  const auto lines = parts.lines();
  ASSERT_EQ(lines.size(), 2u) << parts.out << parts.err;
  EXPECT_EQ(lines[0]["text"].get<std::string>() + lines[1]["text"].get<std::string>() + "\n",
            ran.out);
  EXPECT_EQ(lines[1]["prompt_tokens"], 1) << "the last token of the first part";
}

TEST_F(ChatCommand, ABundleKeepsTheTemplateAndSeveralTurnsTheCache) {
  ASSERT_TRUE(fs::exists(folder_->path() / "talker/talker.chat.json"));
  EXPECT_FALSE(fs::exists(folder_->path() / "plain/plain.chat.json"));
  const Ran ran = chat({bundle("talker"), "-n", "16", "--json", "-sys", "Tell the truth."},
                       "Who are you?\nAnd \\\nwhy?\n\"\"\"\nSeveral\nlines\"\"\"\n");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.err, Not(HasSubstr("no chat template")));
  const auto lines = ran.lines();
  ASSERT_EQ(lines.size(), 3u) << ran.out;
  EXPECT_EQ(lines[0]["kept_tokens"], 0);
  EXPECT_GE(lines[1]["kept_tokens"].get<int>(), lines[0]["prompt_tokens"].get<int>());
  EXPECT_LT(lines[2]["prompt_tokens"].get<int>(), lines[2]["kept_tokens"].get<int>());
}

TEST_F(ChatCommand, QuotesAloneInALineAreNoPartOfTheMessage) {
  const std::vector<std::string> arguments{bundle("talker"), "-n", "8", "--json", "--temp", "0"};
  const Ran below = chat(arguments, "\"\"\"\nSeveral\nlines\"\"\"\n");
  ASSERT_EQ(below.lines().size(), 1u) << below.err;
  EXPECT_EQ(below.lines()[0]["prompt_tokens"],
            chat(arguments, "\"\"\"Several\nlines\"\"\"\n").lines()[0]["prompt_tokens"]);
}

TEST_F(ChatCommand, SavedConversationsGoOnWithTheSameTokens) {
  const std::string file = (folder_->path() / "saved.json").string();
  const std::string first = "Who are you?\nAnd then?\n", last = "What happened?\n";
  const std::vector<std::string> arguments{bundle("talker"), "-n", "16", "--json",
                                           "--temp",         "1",  "-s", "3"};
  const Ran whole = chat(arguments, first + last);
  const Ran begun = chat(arguments, first + "/save " + file + "\n");
  ASSERT_EQ(begun.code, 0) << begun.err;
  EXPECT_THAT(begun.err, HasSubstr("saved 4 messages"));
  const Ran resumed = chat(arguments, "/load " + file + "\n" + last);
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  ASSERT_EQ(whole.lines().size(), 3u);
  ASSERT_EQ(resumed.lines().size(), 1u);
  EXPECT_EQ(resumed.lines()[0]["text"], whole.lines()[2]["text"]);
}

TEST_F(ChatCommand, ASavedCacheIsNotRunAgain) {
  const std::string file = (folder_->path() / "cached.json").string();
  const std::vector<std::string> arguments{bundle("talker"), "-n", "16", "--json",
                                           "--temp",         "1",  "-s", "3"};
  const Ran begun = chat(arguments, "Who are you?\n/save --cache " + file + "\n");
  ASSERT_EQ(begun.code, 0) << begun.err;
  EXPECT_THAT(begun.err, HasSubstr("of cache to"));
  const std::string last = "What happened?\n";
  const Ran resumed = chat(arguments, "/load " + file + "\n" + last);
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  ASSERT_EQ(resumed.lines().size(), 1u) << resumed.out;
  const int kept = resumed.lines()[0]["kept_tokens"].get<int>();
  EXPECT_GE(kept, begun.lines()[0]["prompt_tokens"].get<int>());
  EXPECT_THAT(resumed.err, HasSubstr("the cache has "));
  // Another bundle of the same weights takes it, one of others says why it does not.
  const fs::path cache = file + ".cache";
  const std::string elsewhere = "/load " + file + "\nx\n";
  const Ran other = chat({bundle("plain"), "-n", "4"}, elsewhere);
  ASSERT_EQ(other.code, 0) << other.err;
  EXPECT_THAT(other.err, HasSubstr("the cache has "));
  EXPECT_THAT(other.err, Not(HasSubstr("cannot be used")));
  compile(tinyfable(), "finer", "512", "q8");
  const Ran foreign = chat({bundle("finer"), "-n", "4"}, elsewhere);
  ASSERT_EQ(foreign.code, 0) << foreign.err;
  EXPECT_THAT(
      foreign.err,
      HasSubstr("cannot be used: the saved state belongs to another model or cache format;"));
  // Of a damaged one and without, the tokens are run.
  ASSERT_TRUE(write_file(cache, std::string_view("no state")).ok());
  for (const bool there : {true, false}) {
    if (!there) fs::remove(cache);
    const Ran again = chat(arguments, "/load " + file + "\n" + last);
    ASSERT_EQ(again.code, 0) << again.err;
    EXPECT_THAT(again.err, HasSubstr("cannot be used"));
    EXPECT_EQ(again.lines()[0]["kept_tokens"], 0);
    EXPECT_EQ(again.lines()[0]["text"], resumed.lines()[0]["text"]);
  }
  for (const auto& [name, before] : {std::pair{"plain", &other}, std::pair{"finer", &foreign}}) {
    const Ran without = chat({bundle(name), "-n", "4"}, elsewhere);
    EXPECT_THAT(without.err, HasSubstr("cannot be used: cannot open: ")) << name;
    EXPECT_EQ(without.out, before->out) << name;
  }
}

TEST_F(ChatCommand, TheOptionOfSaveIsAWordAndTakesAFile) {
  const std::string file = (folder_->path() / "tab.json").string();
  const fs::path wrong = fs::current_path() / "--cache";
  for (const char* const none : {"/save --cache\n", "/save --cache \t\n"}) {
    const Ran ran = chat({bundle("plain")}, none);
    EXPECT_EQ(ran.code, 2) << none;
    EXPECT_THAT(ran.err, HasSubstr("/save --cache needs a file"));
    EXPECT_FALSE(fs::exists(wrong)) << none;
  }
  const Ran tab = chat({bundle("plain"), "-n", "4"}, "Once\n/save --cache\t" + file + "\n");
  EXPECT_EQ(tab.code, 0) << tab.err;
  EXPECT_TRUE(fs::exists(file));
  EXPECT_TRUE(fs::exists(file + ".cache"));
  // A word that only begins like it is a name.
  const std::string folder = folder_->path().string();
  const auto named =
      run_command({"sh", "-c", "cd '" + folder + "' && echo '/save --cached' | \"$0\" chat \"$1\"",
                   LLMC_PROGRAM, bundle("plain")});
  ASSERT_TRUE(named.ok());
  EXPECT_EQ(named->exit_code, 0) << named->standard_error;
  EXPECT_TRUE(fs::exists(folder_->path() / "--cached"));
}

TEST_F(ChatCommand, CommandsAnswer) {
  const Ran ran =
      chat({bundle("talker"), "-n", "8", "-q"},
           "/help\n/system Be brief.\n/system\nHi\n/stats\n/reset\n/stats\n/quit\nNo\n");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("/reset               forget"));
  EXPECT_THAT(ran.out, HasSubstr("Be brief.\n"));
  EXPECT_THAT(ran.out, HasSubstr("messages      3\n"));
  EXPECT_THAT(ran.out, HasSubstr("context       0 of 512 tokens\nmessages      1\n"));
}

TEST_F(ChatCommand, CommandsAreLinesOfJson) {
  const Ran ran = chat({bundle("talker"), "-n", "8", "--json", "-sys", "Be brief."},
                       "/help\n/system\nHi\n/stats\n/system \"\"\n/system\n");
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto lines = ran.lines();  // throws where one is none
  ASSERT_EQ(lines.size(), 5u) << ran.out;
  EXPECT_THAT(lines[0].value("help", ""), HasSubstr("/reset               forget"));
  EXPECT_EQ(lines[1].value("system", ""), "Be brief.");
  EXPECT_TRUE(lines[2].contains("text"));
  EXPECT_EQ(lines[3]["stats"]["messages"], 3);
  EXPECT_EQ(lines[3]["stats"]["answers"], 1);
  EXPECT_EQ(lines[3]["stats"]["context"], 512);
  EXPECT_EQ(lines[4].value("system", "x"), "");
}

TEST_F(ChatCommand, EndsWhenStandardOutputIsFull) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "/dev/full is not here";
  for (const char* const json : {"", "--json"}) {
    const fs::path input = folder_->path() / "said";
    ASSERT_TRUE(write_file(input, "One\nTwo\nThree\n").ok());
    const auto ran = run_command({"sh", "-c",
                                  std::string("exec \"$0\" chat \"$1\" -n 4 ") + json + " < '" +
                                      input.string() + "' > /dev/full",
                                  LLMC_PROGRAM, bundle("plain")});
    ASSERT_TRUE(ran.ok());
    EXPECT_EQ(ran->exit_code, 3);
    const std::string& err = ran->standard_error;
    EXPECT_THAT(err, HasSubstr("standard output: cannot be written"));
    EXPECT_EQ(err.find("prompt: "), err.rfind("prompt: ")) << "one answer at most: " << err;
  }
}

TEST_F(ChatCommand, AReaderThatHasGoneEndsItWithoutAMessage) {
  // The pipe's reader is gone before anything is written.
  const auto ran = run_command(
      {"sh", "-c",
       "cd '" + folder_->path().string() +
           "' && mkfifo pipe && exec 5<>pipe 6>pipe 5<&-; printf 'One\nTwo\n' > two; \"$0\" chat "
           "\"$1\" -n 4 -q < two >&6; echo \"code $?\"",
       LLMC_PROGRAM, bundle("plain")});
  ASSERT_TRUE(ran.ok());
  EXPECT_EQ(ran->standard_output, "code 141\n") << "128 + SIGPIPE";
  EXPECT_EQ(ran->standard_error, "");
}

TEST_F(ChatCommand, ALineWithoutAnEndIsRefused) {
  const Ran ran = chat({bundle("plain")}, std::string((16 << 20) + (1 << 18), 'x') + "\n/stats\n");
  EXPECT_EQ(ran.code, 3);
  EXPECT_THAT(ran.err, HasSubstr("longer than 16"));
  EXPECT_EQ(ran.out, "");
  // Many lines of one text add up as well.
  std::string lines = "\"\"\"\n";
  for (int i = 0; i < 18; ++i) lines += std::string(1 << 20, 'x') + "\n";
  EXPECT_EQ(chat({bundle("plain")}, lines).code, 3);
}

TEST_F(ChatCommand, MistakesEndAScriptWithTheirCode) {
  EXPECT_EQ(chat({bundle("plain")}, "/nosuch\n").code, 2);
  EXPECT_EQ(chat({bundle("plain")}, "/load\n").code, 2);
  EXPECT_THAT(chat({bundle("plain")}, "/stats now\n").err, HasSubstr("/stats takes no argument"));
  EXPECT_EQ(chat({bundle("plain")}, "/load /nowhere/at/all\n").code, 3);
  EXPECT_EQ(chat({bundle("plain")}, "/load " + bundle("plain") + "/plain.plan.json\n").code, 3);
  const Ran full = chat({bundle("talker"), "-n", "8"}, std::string(4000, 'x') + "\nHi\n");
  EXPECT_EQ(full.code, 3);
  EXPECT_THAT(full.err, HasSubstr("do not fit the context of 512"));
  EXPECT_THAT(full.err, HasSubstr("hint: write a shorter message"));
  EXPECT_THAT(full.err, HasSubstr("--ctx"));
  const fs::path file = folder_->path() / "bad.jinja";
  ASSERT_TRUE(write_file(file, "\n{{ messages | nonsense }}").ok());
  const Ran bad = chat({bundle("talker"), "--chat-template-file", file.string()}, "Hi\n");
  EXPECT_EQ(bad.code, 4);
  EXPECT_THAT(bad.err, HasSubstr("line 2: the filter 'nonsense' is not supported"));
  EXPECT_THAT(bad.err, HasSubstr("--no-template"));
  fs::copy(bundle("talker"), folder_->path() / "damaged", fs::copy_options::recursive);
  ASSERT_TRUE(write_file(folder_->path() / "damaged/talker.chat.json", "{").ok());
  const Ran damaged = chat({bundle("damaged")}, "Hi\n");
  EXPECT_EQ(damaged.code, 3);
  EXPECT_THAT(damaged.err, HasSubstr("damaged bundle"));
}

TEST_F(ChatCommand, AFullContextIsSaid) {
  const Ran ran =
      chat({bundle("talker"), "--no-template", "--temp", "100", "-s", "5"}, "Once\n\n\n\n\n");
  EXPECT_THAT(ran.err, ::testing::AnyOf(HasSubstr("the context of 512 tokens is full"),
                                        HasSubstr("the text has ended")));
}

TEST_F(ChatCommand, AFullContextForgetsTheOldestTurns) {
  const std::string file = (folder_->path() / "shifted.json").string();
  std::string said;
  for (int day = 0; day < 12; ++day) said += "Tell me of day " + std::to_string(day) + ".\n";
  const std::vector<std::string> arguments{bundle("talker"), "-n", "70", "--json",
                                           "--context-shift"};
  const Ran ran = chat(arguments, said + "/save " + file + "\nAnd then?\n");
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto lines = ran.lines();
  ASSERT_EQ(lines.size(), 13u);
  int forgotten = 0;
  for (const json& line : lines) {
    EXPECT_NE(line["stopped"], "context");
    EXPECT_LE(line["context_tokens"].get<int>(), 512);
    forgotten += line["forgotten_messages"].get<int>();
  }
  EXPECT_GT(forgotten, 0);
  // As if there had never been more than what is left.
  const Ran fresh = chat(arguments, "/load " + file + "\nAnd then?\n");
  ASSERT_EQ(fresh.lines().size(), 1u) << fresh.err;
  EXPECT_EQ(fresh.lines()[0]["text"], lines[12]["text"]);
  const Ran refused = chat({bundle("talker"), "-n", "70", "--json", "--no-context-shift"}, said);
  EXPECT_EQ(refused.code, 3) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("--context-shift"));
}

}  // namespace
}  // namespace llmc::tests
#endif
