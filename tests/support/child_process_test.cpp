#include "compiler/support/child_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <thread>

namespace llmc {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kLong{60'000};

std::span<const std::byte> bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::unique_ptr<ChildProcess> started(const std::vector<std::string>& argv) {
  auto child = ChildProcess::start(argv);
  EXPECT_TRUE(child.ok());
  return child.ok() ? *std::move(child) : nullptr;
}

TEST(ChildProcess, IsTalkedToWhileItRuns) {
  const auto child = started({"cat"});
  for (const std::string text : {"one", "and another"}) {
    ASSERT_TRUE(child->send(bytes(text)));
    std::string back(text.size(), ' ');
    ASSERT_TRUE(child->receive(std::as_writable_bytes(std::span(back)), kLong));
    EXPECT_EQ(back, text);
  }
  const ChildProcess::End& end = child->end(kLong);
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_FALSE(end.was_killed);
  EXPECT_FALSE(child->send(bytes("x")));
}

TEST(ChildProcess, LastWordsAndExitCode) {
  const auto child = started({"sh", "-c", "printf ab; echo sorry >&2; exit 3"});
  std::string back(4, ' ');
  EXPECT_FALSE(child->receive(std::as_writable_bytes(std::span(back)), kLong)) << "only two come";
  const ChildProcess::End& end = child->end(kLong);
  EXPECT_EQ(end.exit_code, 3);
  EXPECT_EQ(end.standard_error, "sorry\n");
}

TEST(ChildProcess, OneThatIsGoneIsNoSignalForUs) {
  const auto child = started({"true"});
  const std::string much(1 << 20, 'x');
  // The socket accepts only what its buffer holds. SIGPIPE would end this program.
  while (child->send(bytes(much))) {
  }
  EXPECT_EQ(child->end(kLong).exit_code, 0);
}

TEST(ChildProcess, MuchOnStandardErrorBlocksNobody) {
  const auto child =
      started({"sh", "-c", "head -c 1000000 /dev/zero | tr '\\0' e >&2; printf done; cat"});
  std::string back(4, ' ');
  ASSERT_TRUE(child->receive(std::as_writable_bytes(std::span(back)), kLong));
  EXPECT_EQ(back, "done");
  EXPECT_EQ(child->end(kLong).standard_error.size(), std::size_t{64} << 10);
}

TEST(ChildProcess, StubbornOnesAreKilled) {
  const auto child = started({"sh", "-c", "trap '' TERM; sleep 1000"});
  std::string back(1, ' ');
  EXPECT_FALSE(child->receive(std::as_writable_bytes(std::span(back)), milliseconds(20)));
  const ChildProcess::End& end = child->end(milliseconds(20));
  EXPECT_TRUE(end.was_killed);
  EXPECT_EQ(end.exit_code, 128 + 9);
}

TEST(ChildProcess, WhatOneLeavesBehindIsKilled) {
  const auto child = started({"sh", "-c", "sleep 347 & echo $!; exit 3"});
  std::string pid;
  for (char c = 0; c != '\n'; pid += c)
    ASSERT_TRUE(child->receive(std::as_writable_bytes(std::span(&c, 1)), kLong));
  EXPECT_EQ(child->end(kLong).exit_code, 3);
  const std::string stat = "/proc/" + pid.substr(0, pid.size() - 1) + "/stat";
  // The process is gone, or dead and not yet reaped by its new parent.
  const auto alive = [&stat] {
    std::ifstream file(stat);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    return !text.empty() && text.find(") Z ") == text.npos;
  };
  for (int i = 0; i < 500 && alive(); ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_FALSE(alive());
}

TEST(ChildProcess, AMissingProgramIsNamed) {
  const auto child = ChildProcess::start({"/nonexistent/emulator"});
  ASSERT_FALSE(child.ok());
  EXPECT_EQ(child.error().first().kind, ErrorKind::kToolchain);
  EXPECT_THAT(child.error().first().message, ::testing::HasSubstr("/nonexistent/emulator"));
}

}  // namespace
}  // namespace llmc
