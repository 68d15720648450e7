#include "compiler/emit/wrap.h"

#include <gtest/gtest.h>

#include "compiler/emit/commented_lines.h"

namespace llmc::emit {
namespace {

const std::string kWord30 = "abcdefghijklmnopqrstuvwxyz0123";

TEST(Wrapped, ShortLinesStayAsTheyAre) {
  const std::string text = "\n  f(a,\n    b);\n\n" + std::string(100, 'x') + "\ny";
  EXPECT_EQ(wrapped(text), text);
}

TEST(Wrapped, ArgumentsAreAlignedWithTheBracket) {
  EXPECT_EQ(wrapped("  f(" + kWord30 + ", " + kWord30 + ", " + kWord30 + ", g(1, 2));\n"),
            "  f(" + kWord30 + ", " + kWord30 + ", " + kWord30 + ",\n    g(1, 2));\n");
  EXPECT_EQ(wrapped("  f<T>(a, {.x = " + kWord30 + ", .y = 1, .z = " + kWord30 +
                    ", .w = " + kWord30 + ", .last = 1});\n"),
            "  f<T>(a,\n       {.x = " + kWord30 + ", .y = 1, .z = " + kWord30 +
                ",\n        .w = " + kWord30 + ", .last = 1});\n");
}

TEST(Wrapped, FarBracketsHaveTheirContentInTheNextLine) {
  const std::string name(70, 'f');
  EXPECT_EQ(wrapped("  " + name + "(" + kWord30 + ", " + kWord30 + ", " + kWord30 + ");"),
            "  " + name + "(\n      " + kWord30 + ", " + kWord30 + ",\n      " + kWord30 + ");");
}

TEST(Wrapped, TheStatementOfAConditionHasItsOwnLine) {
  EXPECT_EQ(wrapped("  if (!f(" + kWord30 + ", " + kWord30 + ", a)) return " + kWord30 + ";\n"),
            "  if (!f(" + kWord30 + ", " + kWord30 + ", a))\n    return " + kWord30 + ";\n");
}

TEST(Wrapped, OperatorsEndALine) {
  EXPECT_EQ(wrapped("  const float y = " + kWord30 + " + " + kWord30 + " * " + kWord30 + ";"),
            "  const float y = " + kWord30 + " +\n      " + kWord30 + " * " + kWord30 + ";");
  const std::string name(70, 'f');
  EXPECT_EQ(wrapped("  " + name + "(" + kWord30 + " + " + kWord30 + kWord30 + " * " + kWord30 +
                    kWord30 + ");"),
            "  " + name + "(\n      " + kWord30 + " +\n      " + kWord30 + kWord30 + " *\n      " +
                kWord30 + kWord30 + ");");
}

TEST(Wrapped, NothingFollowsBracesOfSeveralLines) {
  EXPECT_EQ(
      wrapped("  f({.x = " + kWord30 + ", .y = " + kWord30 + ", .z = " + kWord30 + "}, 2);"),
      "  f({.x = " + kWord30 + ", .y = " + kWord30 + ",\n     .z = " + kWord30 + "},\n    2);");
}

TEST(Wrapped, CommentsStayComments) {
  EXPECT_EQ(wrapped("  // " + kWord30 + " " + kWord30 + " " + kWord30 + " bcdef\n"),
            "  // " + kWord30 + " " + kWord30 + " " + kWord30 + "\n  // bcdef\n");
  EXPECT_EQ(wrapped("f(" + kWord30 + ", " + kWord30 + ", " + kWord30 + ");  // a, b\n"),
            "// a, b\nf(" + kWord30 + ", " + kWord30 + ", " + kWord30 + ");\n");
  EXPECT_EQ(wrapped("/* " + kWord30 + " " + kWord30 + " " + kWord30 + " abc */\n"),
            "/* " + kWord30 + " " + kWord30 + " " + kWord30 + "\n   abc */\n");
}

TEST(Wrapped, LiteralsAndMacrosStayWhole) {
  const std::string literal = "\"" + kWord30 + ", // " + kWord30 + "\\\", f(" + kWord30 + ", a)\"";
  EXPECT_EQ(wrapped("  f(" + literal + ", 2);\n"), "  f(" + literal + ",\n    2);\n");
  EXPECT_EQ(wrapped("#define F " + literal + "\n"), "#define F " + literal + "\n");
}

/// Returns the text without spaces, line breaks and marks of line comments.
std::string without_spaces(std::string text) {
  for (std::size_t at; (at = text.find("//")) != text.npos;) text.erase(at, 2);
  std::erase_if(text, [](char c) { return c == ' ' || c == '\n'; });
  return text;
}

TEST(Wrapped, OnlySpacesChange) {
  const std::string words = kWord30 + " " + kWord30 + " " + kWord30 + " " + kWord30;
  const std::string arguments = kWord30 + ", " + kWord30 + ", " + kWord30 + ", " + kWord30;
  for (const std::string& text :
       {"if (f(" + arguments + "))return 1;", "for (;" + arguments + ";)f();",
        "/*batch=*/f(" + arguments + ");",
        "/* " + words + "\n   " + words + "\n   http://" + words + " */\nint x;", "// " + words,
        "x = \"" + words + "\" \"" + words + "\";"}) {
    EXPECT_EQ(without_spaces(wrapped(text)), without_spaces(text)) << text;
  }
}

TEST(CommentedLines, AreAlignedAndFit) {
  CommentedLines lines;
  lines.add_offset("x", 0, "f32[4]  ");
  lines.add_offset("longer_name", 64, "");
  lines.add_offset("y", 128, "f32[4]  " + kWord30 + " " + kWord30 + kWord30 + kWord30);
  EXPECT_EQ(lines.text(),
            "constexpr uint64_t kX = 0;            // f32[4]\n"
            "constexpr uint64_t kLongerName = 64;\n"
            "constexpr uint64_t kY = 128;          // f32[4]  " +
                kWord30 +
                "\n"
                "                                      // ..." +
                (kWord30 + kWord30).substr(4) + "\n");
}

TEST(CommentedLines, LongCodeFollowsItsComment) {
  CommentedLines lines;
  lines.add_offset("x", 0, "f32[4]  x");
  lines.add_offset(kWord30, 64, kWord30 + " " + kWord30);
  const std::string code = "constexpr uint64_t kAbcdefghijklmnopqrstuvwxyz0123 = 64;\n";
  EXPECT_EQ(lines.text(), "// f32[4]  x\nconstexpr uint64_t kX = 0;\n// " + kWord30 + " " +
                              kWord30 + "\n" + code);
}

}  // namespace
}  // namespace llmc::emit
