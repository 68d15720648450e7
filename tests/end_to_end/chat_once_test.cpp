// One answer and no more: `chat -p`, `run --chat`; and what says how answers are made: the model's
// files and `chat --config`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/end_to_end/chat_command.h"
#include "tests/end_to_end/last_line.h"
#include "tests/end_to_end/program.h"

#ifdef LLMC_PROGRAM
namespace llmc::tests {
namespace {

using Arguments = std::vector<std::string>;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

Arguments joined(Arguments first, const Arguments& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

TEST_F(ChatCommand, AnswersOneMessageAndEnds) {
  const Arguments usual{bundle("talker"), "-n", "16", "--temp", "0", "--system", "Tell the truth."};
  const ChatRun said = chat(usual, "Who are you?\n");
  ASSERT_EQ(said.code, 0) << said.err;
  const ProgramRun once = llmc(joined({"chat", "-p", "Who are you?"}, usual));
  EXPECT_EQ(once.code, 0) << once.err;
  EXPECT_EQ(once.out, said.out);
  EXPECT_THAT(once.err, HasSubstr("16 tokens, "));
  EXPECT_THAT(once.err, Not(HasSubstr("/help")));
  const ProgramRun lines = llmc(joined({"chat", "-p", "Who are you?", "--json"}, usual));
  EXPECT_EQ(json::parse(lines.out)["tokens"], 16);
  // What would be a command is a message here.
  const ProgramRun slash = llmc(joined({"chat", "-p", "/quit"}, usual));
  EXPECT_THAT(slash.err, HasSubstr("16 tokens, "));
  // Without a template the text is continued.
  const ProgramRun plain =
      llmc({"chat", bundle("plain"), "-p", "Once upon a time", "-n", "8", "--temp", "0"});
  EXPECT_THAT(plain.err, HasSubstr("no chat template: the prompt is continued"));
  EXPECT_THAT(plain.out, HasSubstr(", there was"));
  EXPECT_THAT(plain.err, Not(HasSubstr("--system")));
  EXPECT_THAT(llmc({"chat", bundle("plain"), "-p", "Hi", "-n", "1", "--system", "Once"}).err,
              HasSubstr("the text of --system goes before it as it is"));
  const ProgramRun full = llmc(joined({"chat", "-p", std::string(4000, 'x')}, usual));
  EXPECT_EQ(full.code, 3) << "an error has its code";
}

TEST_F(ChatCommand, RunAnswersThroughTheTemplateWhenAsked) {
  const Arguments usual{bundle("talker"), "-p", "Who are you?", "-n", "16", "--temp", "0"};
  const ProgramRun answer = llmc(joined({"chat"}, usual));
  const ProgramRun run = llmc(joined({"run", "--chat"}, usual));
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(run.out, answer.out) << "the answer alone";
  EXPECT_NE(run.out, "\n");
  const json bare = json::parse(last_line(llmc(joined({"run", "--json"}, usual)).out));
  const json asked = json::parse(last_line(llmc(joined({"run", "--chat", "--json"}, usual)).out));
  EXPECT_GT(asked["prompt_ids"].size(), bare["prompt_ids"].size());
  const ProgramRun none = llmc({"run", "--chat", bundle("plain"), "-p", "Hi"});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("has no chat template"));
  EXPECT_EQ(llmc({"run", "--chat", bundle("talker"), "--ids", "1,2"}).code, 2);
}

TEST_F(ChatCommand, ATextThatEndsAtOnceIsToldAndChatOffered) {
  // A bias makes the model end its text at once.
  const Arguments ends{"-p", "Who are you?", "-n", "8", "-l", "2+1e6"};
  const ProgramRun bare = llmc(joined({"run", bundle("talker")}, ends));
  EXPECT_EQ(bare.code, 0);
  EXPECT_EQ(bare.out, "Who are you?\n");
  EXPECT_THAT(bare.err, HasSubstr("no text was generated: the model stopped immediately"));
  EXPECT_THAT(bare.err, HasSubstr("use --chat for an answer"));
  const ProgramRun plain = llmc(joined({"run", bundle("plain")}, ends));
  EXPECT_THAT(plain.err, HasSubstr("no text was generated"));
  EXPECT_THAT(plain.err, Not(HasSubstr("--chat"))) << "there is no template";
  const ProgramRun asked = llmc(joined({"run", "--chat", bundle("talker")}, ends));
  EXPECT_THAT(asked.err, HasSubstr("no text was generated"));
  EXPECT_THAT(asked.err, Not(HasSubstr("--chat")));
  const ProgramRun some = llmc({"run", bundle("talker"), "-p", "Once", "-n", "4"});
  EXPECT_THAT(some.err, Not(HasSubstr("no text was generated")));
}

TEST_F(ChatCommand, SamplingIsLlamaCppsUnlessTheModelRecommendsAnother) {
  const auto ids = [&](const std::string& name, const Arguments& more) {
    const ProgramRun ran = llmc(joined({"run", bundle(name), "-p", "Once upon a time", "-n", "24",
                                        "-s", "3", "--ignore-eos", "--json"},
                                       more));
    EXPECT_EQ(ran.code, 0) << ran.err;
    return json::parse(last_line(ran.out))["ids"];
  };
  const Arguments llama_cpp{"--temp", "0.8", "--top-k", "40", "--top-p", "0.95", "--min-p", "0.05"};
  EXPECT_EQ(ids("plain", {}), ids("plain", llama_cpp));
  EXPECT_NE(ids("plain", {}), ids("plain", {"--temp", "0"}));
  // generation_config.json was compiled into the bundle.
  EXPECT_EQ(ids("talker", {}), ids("plain", {"--temp", "0.5", "--top-k", "7"}));
  EXPECT_NE(ids("talker", {}), ids("plain", {}));
  EXPECT_EQ(ids("talker", {"--temp", "0.8", "--top-k", "40"}), ids("plain", {}))
      << "what is given counts";
  const Arguments chat_options{"-p", "Once", "-n", "24", "-s", "3", "-q", "--no-template"};
  const ProgramRun chat = llmc(joined({"chat", bundle("talker")}, chat_options));
  const ProgramRun same =
      llmc(joined({"chat", bundle("plain"), "--temp", "0.5", "--top-k", "7"}, chat_options));
  EXPECT_EQ(chat.out, same.out);
  const ProgramRun told = llmc({"run", bundle("talker"), "-p", "x", "-n", "1", "-v"});
  EXPECT_THAT(told.err, HasSubstr("the model recommends --temp 0.5, --top-k 7"));
}

TEST_F(ChatCommand, AConfigurationGivesOptions) {
  const auto config = [&](const std::string& text) {
    const auto path = folder_->path() / "config.json";
    EXPECT_TRUE(write_file(path, text).ok());
    return path.string();
  };
  const auto once = [&](const Arguments& more) {
    return llmc(joined({"chat", bundle("talker"), "-p", "Who are you?"}, more));
  };
  const ProgramRun options = once({"--system", "Tell the truth.", "-n", "12", "--temp", "0.9", "-s",
                                   "5", "--stop", "e", "--stop", "zzz", "--json"});
  ASSERT_EQ(options.code, 0) << options.err;
  const std::string file =
      config(R"({"system": "Tell the truth.", "n_predict": 12, "temp": 0.9, "seed": 5,
                 "stop": ["e", "zzz"], "json": true, "no-template": false})");
  const ProgramRun configured = once({"--config", file});
  ASSERT_EQ(configured.code, 0) << configured.err;
  const auto text = [](const ProgramRun& ran) { return json::parse(ran.out)["text"]; };
  EXPECT_EQ(text(configured), text(options));
  EXPECT_NE(text(once({"--config", file, "--temp", "0", "--stop", "zzz"})), text(options));

  const auto refused = [&](const std::string& content, const std::string& words) {
    const ProgramRun ran = once({"--config", config(content)});
    EXPECT_EQ(ran.code, 3) << content;
    EXPECT_EQ(ran.out, "") << content;
    EXPECT_THAT(ran.err, HasSubstr("config.json: ")) << content;
    EXPECT_THAT(ran.err, HasSubstr(words)) << content;
    EXPECT_THAT(ran.err, HasSubstr("\nhint: ")) << content;
  };
  refused("{\n  x", "is not valid JSON: line 2, column 3");
  refused("[]", "is not a JSON object");
  refused(R"({"top_q": 3})", "unknown option 'top_q'\nhint: did you mean 'top_");
  refused(R"({"config": "x"})", "unknown option 'config'");
  refused(R"({"": 1})", "unknown option ''");
  refused(R"({"temp": -1})", "'temp': --temp takes a number from 0 to 100");
  refused(R"({"temp": null})", "'temp' is not a value for this option");
  refused(R"({"temp": "0"})", "'temp' is not a value for this option");
  refused(R"({"system": 5})", "'system' is not a value for this option");
  refused(R"({"stop": "a"})",
          "'stop' is not a list\nhint: --stop may be repeated: write {\"stop\"");
  refused(R"({"temp": [1, 2]})", "'temp' is not a value for this option");
  refused(R"({"context_shift": 1})", "'context_shift' is neither true nor false");
  refused(R"({"no_template": true, "chat_template_file": "x"})", " cannot be combined with ");
  EXPECT_EQ(once({"--config", "/nowhere.json"}).code, 3);
  const ProgramRun of_folder = once({"--config", folder_->path().string()});
  EXPECT_EQ(of_folder.code, 3);
  EXPECT_THAT(of_folder.err, AllOf(HasSubstr("is a folder"), HasSubstr("\nhint: --config needs")));
  EXPECT_EQ(once({"--config", config(R"({"ctx": 64})")}).code, 2) << "settled in a bundle";
}

}  // namespace
}  // namespace llmc::tests
#endif
