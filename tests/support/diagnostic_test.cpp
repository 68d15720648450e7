#include "compiler/support/diagnostic.h"

#include <gtest/gtest.h>

#include "compiler/support/result.h"

namespace llmc {
namespace {

TEST(Diagnostic, SaysWhereWhatAndWhatToDo) {
  Diagnostic d;
  d.file = "block_3.onnx";
  d.node = "/attn/MatMul";
  d.op = "MatMul";
  d.message = "inner dims differ";
  d.hint = "export again";
  EXPECT_EQ(format(d),
            "llmc: error: block_3.onnx: node '/attn/MatMul' (op MatMul): inner dims differ\n"
            "hint: export again");
  d.hint.clear();
  d.op.clear();
  EXPECT_EQ(format(d), "llmc: error: block_3.onnx: node '/attn/MatMul': inner dims differ");
  d.node.clear();
  EXPECT_EQ(format(d), "llmc: error: block_3.onnx: inner dims differ");
  d.file.clear();
  EXPECT_EQ(format(d), "llmc: error: inner dims differ");
  d.op = "Foo";
  EXPECT_EQ(format(d), "llmc: error: op Foo: inner dims differ");
}

TEST(Diagnostic, NamesCannotDriveTheTerminal) {
  EXPECT_EQ(printable("plain name é 語"), "plain name é 語");
  EXPECT_EQ(printable("a\x1b[31mb\n\r\t"), "a\\x1b[31mb\\x0a\\x0d\\x09");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");           // not UTF-8, truncated
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");           // overlong
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(printable("\u202egnp.exe"), "\\xe2\\x80\\xaegnp.exe");  // right-to-left override
  EXPECT_EQ(printable("\u009b31m"), "\\xc2\\x9b31m");               // an 8-bit control sequence
  EXPECT_EQ(printable("abcdef", 5), "abcde…");
  EXPECT_EQ(printable(std::string(10'000, 'x')).size(), 203u);
  // Never truncated inside a character or an escape.
  EXPECT_EQ(printable("ééé", 3), "é…");
  EXPECT_EQ(printable("\x01\x01", 5), "\\x01…");
  Diagnostic d;
  d.node = "*/ int x; /*\n";
  d.message = "bad\x07";
  EXPECT_EQ(format(d), "llmc: error: node '*/ int x; /*\\x0a': bad\\x07");
}

TEST(Diagnostic, WhatACompilerPrintedStaysInLines) {
  Diagnostic d;
  d.message = "clang failed\n  a.cpp:1: error\x1b[31m\n    ^~~\nllmc: error: not this";
  d.hint = "x";
  EXPECT_EQ(format(d),
            "llmc: error: clang failed\n  a.cpp:1: error\\x1b[31m\n    ^~~\\x0allmc: error: not "
            "this\nhint: x");
}

TEST(Diagnostic, KindsAreTheExitCodes) {
  EXPECT_EQ(exit_code(ErrorKind::kInternal), 1);
  EXPECT_EQ(exit_code(ErrorKind::kUsage), 2);
  EXPECT_EQ(exit_code(ErrorKind::kBadInput), 3);
  EXPECT_EQ(exit_code(ErrorKind::kUnsupported), 4);
  EXPECT_EQ(exit_code(ErrorKind::kOverBudget), 5);
  EXPECT_EQ(exit_code(ErrorKind::kToolchain), 6);
  EXPECT_EQ(exit_code(ErrorKind::kMismatch), 7);
}

Result<int> half_of(int n) {
  if (n % 2 != 0) {
    Diagnostic d;
    d.message = "odd";
    return d;
  }
  return n / 2;
}

Result<int> quarter_of(int n) {
  LLMC_TRY(const int half, half_of(n));
  LLMC_TRY(const int quarter, half_of(half));
  return quarter;
}

TEST(Result, PassesErrorsUp) {
  EXPECT_EQ(quarter_of(8).value(), 2);
  ASSERT_FALSE(quarter_of(6).ok());
  EXPECT_EQ(quarter_of(6).error().first().message, "odd");
  auto named = Error(half_of(1).error()).in_file("a.onnx");
  EXPECT_EQ(named.first().file, "a.onnx");
  EXPECT_EQ(std::move(named).in_file("b.onnx").first().file, "a.onnx");
}

TEST(ResultDeathTest, TheWrongSideAborts) {
  EXPECT_DEATH((void)half_of(1).value(), "broken invariant");
  EXPECT_DEATH((void)half_of(2).error(), "broken invariant");
  EXPECT_DEATH((void)Error(std::vector<Diagnostic>{}), "broken invariant");
}

}  // namespace
}  // namespace llmc
