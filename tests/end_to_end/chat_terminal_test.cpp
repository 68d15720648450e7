// llmc chat on a terminal: keys, Ctrl-C and pasted text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/end_to_end/chat_command.h"
#include "tests/end_to_end/terminal.h"

#ifdef LLMC_PROGRAM
namespace llmc::tests {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kPasteBegins = "\x1b[200~";
constexpr const char* kPasteEnds = "\x1b[201~";

TEST_F(ChatCommand, OnATerminalCtrlCStopsTheAnswerAndNotTheProgram) {
  // Tokens at random end the text once in a thousand.
  Terminal terminal({LLMC_PROGRAM, "chat", bundle("plain"), "--temp", "100", "-s", "1"},
                    {"TERM=xterm", "NO_COLOR=1"});
  ASSERT_TRUE(terminal.wait_for("> ")) << terminal.shown();
  terminal.type("Once upon a time\r");
  ASSERT_TRUE(terminal.wait_for("time\r\n")) << terminal.shown();
  ASSERT_TRUE(terminal.wait_for(" ")) << terminal.shown();  // of the answer
  terminal.type("\x03");
  ASSERT_TRUE(terminal.wait_for("stopped")) << terminal.shown();
  ASSERT_TRUE(terminal.wait_for("> ")) << terminal.shown();
  terminal.type("/stats\r");
  ASSERT_TRUE(terminal.wait_for("answers       1:")) << terminal.shown();
  ASSERT_TRUE(terminal.wait_for("> ")) << terminal.shown();
  terminal.type("\x03");
  ASSERT_TRUE(terminal.wait_for("Ctrl-C again")) << terminal.shown();
  ASSERT_TRUE(terminal.wait_for("> ")) << terminal.shown();
  terminal.type("\x03");
  EXPECT_EQ(terminal.wait_for_end(), 0) << terminal.shown();
}

TEST_F(ChatCommand, ASignalLeavesTheTerminalAsItWas) {
#ifndef LLMC_HAVE_LIBEDIT
  GTEST_SKIP() << "llmc was built without libedit";
#endif
  for (const int signal : {SIGTERM, SIGHUP}) {
    Terminal terminal({LLMC_PROGRAM, "chat", bundle("plain"), "-n", "4"},
                      {"TERM=xterm", "NO_COLOR=1"});
    ASSERT_TRUE(terminal.wait_for("> ")) << terminal.shown();
    terminal.type("a");
    ASSERT_TRUE(terminal.wait_for("a")) << terminal.shown();
    EXPECT_FALSE(terminal.is_as_usual()) << "the line is edited here";
    terminal.send(signal);
    EXPECT_EQ(terminal.wait_for_end(), 128 + signal);
    EXPECT_TRUE(terminal.is_as_usual());
  }
}

TEST_F(ChatCommand, ASignalInTheBackgroundLeavesAnotherProgramsTerminalAlone) {
  // Ctrl-Z gives the terminal back to the shell, which sets it otherwise: without an echo.
  Terminal terminal({"/bin/sh", "-c",
                     "set -m; \"$@\"; stty sane -echo; kill -TERM %1; bg %1; wait %1; "
                     "echo \"ended $?\"; read line",
                     "sh", LLMC_PROGRAM, "chat", bundle("plain"), "-n", "4"},
                    {"TERM=xterm", "NO_COLOR=1"});
  ASSERT_TRUE(terminal.wait_for("> ")) << terminal.shown();
  terminal.type("\x1a");
  ASSERT_TRUE(terminal.wait_for("ended 143")) << terminal.shown();
  EXPECT_FALSE(terminal.is_as_usual());
}

TEST_F(ChatCommand, OnATerminalLinesAreEditedAndCtrlDLeaves) {
#ifndef LLMC_HAVE_LIBEDIT
  GTEST_SKIP() << "llmc was built without libedit";
#endif
  Terminal terminal({LLMC_PROGRAM, "chat", bundle("plain"), "-n", "4"},
                    {"TERM=xterm", "NO_COLOR=1", "LC_ALL=C"});
  ASSERT_TRUE(terminal.wait_for("> ")) << terminal.shown();
  // Backspace over a character of two bytes; then to the line's start (Ctrl-A), and on.
  terminal.type("help\xC3\xA9\x7f\x01/\r");
  ASSERT_TRUE(terminal.wait_for("/reset               forget")) << terminal.shown();
  ASSERT_TRUE(terminal.wait_for("> ")) << terminal.shown();
  terminal.type("\x1b[A\r");  // the line before
  ASSERT_TRUE(terminal.wait_for("/reset               forget")) << terminal.shown();
  ASSERT_TRUE(terminal.wait_for("> ")) << terminal.shown();
  terminal.type("never said\x03");  // takes the line back
  ASSERT_TRUE(terminal.wait_for("^C")) << terminal.shown();
  ASSERT_TRUE(terminal.wait_for("> ")) << terminal.shown();
  terminal.type("/stats\r");
  ASSERT_TRUE(terminal.wait_for("messages      0")) << terminal.shown();
  ASSERT_TRUE(terminal.wait_for("> ")) << terminal.shown();
  terminal.type("\x04");
  EXPECT_EQ(terminal.wait_for_end(), 0) << terminal.shown();
  EXPECT_THAT(terminal.shown(), Not(HasSubstr("\x1b[1;32m"))) << "NO_COLOR";
}

TEST_F(ChatCommand, OnlyThePromptHasItsColour) {
  Terminal terminal({LLMC_PROGRAM, "chat", bundle("plain"), "-n", "4"},
                    {"TERM=xterm", "NO_COLOR=", "LC_ALL=C"});
  ASSERT_TRUE(terminal.wait_for("\x1b[1;32m>\x1b[0m")) << terminal.shown();
  terminal.type("\x04");
  EXPECT_EQ(terminal.wait_for_end(), 0) << terminal.shown();
}

/// Types a paste of four lines, says it, and expects one message of it.
void expect_one_pasted_message(Terminal& terminal, const std::string& line_break,
                               const std::filesystem::path& saved) {
  ASSERT_TRUE(terminal.wait_for("> ")) << terminal.shown();
  std::string lines;
  for (const char* line : {"one", "two", "", "four"})
    lines += (lines.empty() ? "" : line_break) + line;
  terminal.type("Count: " + (kPasteBegins + lines) + kPasteEnds + "!\r");
  ASSERT_TRUE(terminal.wait_for("tokens/s")) << terminal.shown();
  ASSERT_TRUE(terminal.wait_for("> ")) << terminal.shown();
  terminal.type("/stats\r");
  ASSERT_TRUE(terminal.wait_for("messages      2")) << terminal.shown();
  ASSERT_TRUE(terminal.wait_for("> ")) << terminal.shown();
  terminal.type("/save " + saved.string() + "\r");
  ASSERT_TRUE(terminal.wait_for("saved 2 messages")) << terminal.shown();
  const auto text = read_file(saved);
  ASSERT_TRUE(text.ok());
  EXPECT_THAT(*text, HasSubstr("Count: one\\ntwo\\n\\nfour!"));
  ASSERT_TRUE(terminal.wait_for("> ")) << terminal.shown();
  terminal.type("\x04");
  EXPECT_EQ(terminal.wait_for_end(), 0) << terminal.shown();
}

TEST_F(ChatCommand, PastedLinesAreOneMessage) {
#ifndef LLMC_HAVE_LIBEDIT
  GTEST_SKIP() << "llmc was built without libedit";
#endif
  Terminal terminal({LLMC_PROGRAM, "chat", bundle("plain"), "-n", "4"},
                    {"TERM=xterm", "NO_COLOR=1"});
  expect_one_pasted_message(terminal, "\r", folder_->path() / "pasted.json");
  const std::size_t asked = terminal.shown().find("\x1b[?2004h");
  ASSERT_NE(asked, std::string::npos) << "the terminal marks pastes only when asked";
  EXPECT_GT(terminal.shown().rfind("\x1b[?2004l"), asked) << "and not after the program";
}

TEST_F(ChatCommand, PastedLinesAreOneMessageWithoutALineEditor) {
  Terminal terminal({LLMC_PROGRAM, "chat", bundle("plain"), "-n", "4"},
                    {"TERM=dumb", "NO_COLOR=1"});
  expect_one_pasted_message(terminal, "\n", folder_->path() / "pasted_plain.json");
  EXPECT_THAT(terminal.shown(), Not(HasSubstr("2004h")));
}

TEST_F(ChatCommand, TypingAfterCtrlCMakesTheNextOneAFirst) {
#ifndef LLMC_HAVE_LIBEDIT
  GTEST_SKIP() << "llmc was built without libedit";
#endif
  Terminal terminal({LLMC_PROGRAM, "chat", bundle("plain"), "--temp", "100", "-s", "1"},
                    {"TERM=xterm", "NO_COLOR=1"});
  ASSERT_TRUE(terminal.wait_for("> ")) << terminal.shown();
  terminal.type("Once upon a time\r");
  ASSERT_TRUE(terminal.wait_for("time\r\n")) << terminal.shown();
  ASSERT_TRUE(terminal.wait_for(" ")) << terminal.shown();
  terminal.type("\x03");  // of the answer
  ASSERT_TRUE(terminal.wait_for("stopped")) << terminal.shown();
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(terminal.wait_for("> ")) << terminal.shown();
    terminal.type("\x03");
    ASSERT_TRUE(terminal.wait_for("Ctrl-C again")) << terminal.shown();
    ASSERT_TRUE(terminal.wait_for("> ")) << terminal.shown();
    terminal.type("never said");
    ASSERT_TRUE(terminal.wait_for("said")) << terminal.shown();
    terminal.type("\x03");  // takes the line back, and nothing else
    ASSERT_TRUE(terminal.wait_for("^C")) << terminal.shown();
  }
  ASSERT_TRUE(terminal.wait_for("> ")) << terminal.shown();
  terminal.type("/stats\r");
  ASSERT_TRUE(terminal.wait_for("answers       1:")) << terminal.shown();
  EXPECT_THAT(terminal.shown(), Not(HasSubstr("said> "))) << "the line is drawn once";
}

TEST_F(ChatCommand, ASignalTakesTheRequestForMarkedPastesBack) {
#ifndef LLMC_HAVE_LIBEDIT
  GTEST_SKIP() << "llmc was built without libedit";
#endif
  Terminal terminal({LLMC_PROGRAM, "chat", bundle("plain"), "-n", "4"},
                    {"TERM=xterm", "NO_COLOR=1"});
  ASSERT_TRUE(terminal.wait_for("> ")) << terminal.shown();
  EXPECT_THAT(terminal.shown(), Not(HasSubstr("\x1b[?2004l")));
  terminal.send(SIGTERM);
  EXPECT_EQ(terminal.wait_for_end(), 128 + SIGTERM);
  EXPECT_THAT(terminal.shown(), HasSubstr("\x1b[?2004l"));
}

}  // namespace
}  // namespace llmc::tests
#endif
