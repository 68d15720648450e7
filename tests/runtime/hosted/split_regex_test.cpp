#include "runtime/hosted/tokenizer/split_regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "runtime/hosted/tokenizer/split_patterns.h"
#include "tests/support/load.h"

/// Regular expressions that split text.
namespace llmc::hosted {
namespace {

using testing::HasSubstr;
using Pieces = std::vector<std::string>;

SplitRegex compiled(std::string_view expression) {
  SplitRegex regex;
  const Problem problem = regex.compile(expression);
  EXPECT_TRUE(problem.empty()) << expression << ": " << problem.text;
  return regex;
}

/// The matches in a text, one after the other; characters between them are left out.
Pieces found(const SplitRegex& regex, std::string_view text, bool byte_level = false) {
  Pieces pieces;
  RegexMatcher matcher(regex, byte_level);
  matcher.set_text(text);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = matcher.match(at);
    EXPECT_LE(bytes, text.size() - at);
    if (bytes > 0) pieces.emplace_back(text.substr(at, bytes));
    at += bytes > 0 ? bytes : matcher.character(at);
  }
  return pieces;
}
Pieces found(std::string_view expression, std::string_view text) {
  return found(compiled(expression), text);
}

/// What a pattern that leaves nothing out splits a text into.
Pieces words(std::string_view text, std::string_view name = "qwen2") {
  const Pieces pieces = found(*pattern_named(name), text);
  std::string joined;
  for (const std::string& piece : pieces) joined += piece;
  EXPECT_EQ(joined, text);
  return pieces;
}

TEST(SplitPatterns, SplitAsThePatternDoes) {
  EXPECT_EQ(words("Hello world!"), (Pieces{"Hello", " world", "!"}));
  EXPECT_EQ(words("we'Ve it's 'lLx 'x"),
            (Pieces{"we", "'Ve", " it", "'s", " '", "lLx", " '", "x"}));
  EXPECT_EQ(words("ab12 3"), (Pieces{"ab", "1", "2", " ", "3"}));
  EXPECT_EQ(words("a  b"), (Pieces{"a", " ", " b"}));
  EXPECT_EQ(words("a   "), (Pieces{"a", "   "}));
  EXPECT_EQ(words("a \n\n  b"), (Pieces{"a", " \n\n", " ", " b"}));
  EXPECT_EQ(words("x!?\r\n\ny"), (Pieces{"x", "!?\r\n\n", "y"}));
  EXPECT_EQ(words("\nabc"), (Pieces{"\n", "abc"}));
  EXPECT_EQ(words("\tabc\t\tdef"), (Pieces{"\tabc", "\t", "\tdef"}));
  EXPECT_EQ(words("(abc) -"), (Pieces{"(abc", ")", " -"}));
  EXPECT_EQ(words("\u00bd\u4e00\u3000x"), (Pieces{"\u00bd", "\u4e00", "\u3000x"}));
  EXPECT_EQ(words("\xff\xe4 a"), (Pieces{"\xff\xe4", " a"}));
}

TEST(SplitPatterns, SplitAsGpt2sPatternDoes) {
  const auto split = [](std::string_view text) { return words(text, "gpt2"); };
  EXPECT_EQ(split("Hello world!"), (Pieces{"Hello", " world", "!"}));
  EXPECT_EQ(split("we've 'Ve"), (Pieces{"we", "'ve", " '", "Ve"}));
  EXPECT_EQ(split("ab12 345"), (Pieces{"ab", "12", " 345"}));
  EXPECT_EQ(split("a \n\nb"), (Pieces{"a", " \n", "\n", "b"}));
  EXPECT_EQ(split("\tx  "), (Pieces{"\t", "x", "  "}));
  EXPECT_EQ(split("x!?\n"), (Pieces{"x", "!?", "\n"}));
}

TEST(SplitPatterns, SplitAsLlama3sPatternDoes) {
  const auto split = [](std::string_view text) { return words(text, "llama3"); };
  EXPECT_EQ(split("a1234567 8"), (Pieces{"a", "123", "456", "7", " ", "8"}));
  EXPECT_EQ(split("it'S \n x"), (Pieces{"it", "'S", " \n", " x"}));
}

TEST(SplitPatterns, SplitAsO200ksPatternDoes) {
  const auto split = [](std::string_view text) { return words(text, "o200k_base"); };
  EXPECT_EQ(split("HTMLParser isN'T"), (Pieces{"HTMLParser", " is", "N'T"}));
  EXPECT_EQ(split("camelCase ABC abcDEF"), (Pieces{"camel", "Case", " ABC", " abc", "DEF"}));
  EXPECT_EQ(split("a//b\n/ 12345"), (Pieces{"a", "//", "b", "\n", "/", " ", "123", "45"}));
  // A letter without case may end a run of capitals; a mark may stand for the sign in front.
  EXPECT_EQ(split("AB\u4e00CD"), (Pieces{"AB\u4e00", "CD"}));
  EXPECT_EQ(split("\u0301a \u0301"), (Pieces{"\u0301a", " \u0301"}));
}

// DeepSeek V3's three splits, as its tokenizer.json has them: line ends are themselves.
constexpr std::string_view kDeepSeekWords =
    "[!\"#$%&'()*+,\\-./"
    ":;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+";

TEST(SplitPatterns, SplitAsDeepSeeksPatternDoes) {
  EXPECT_EQ(found(kDeepSeekWords, "Hello, world!\n\n  x=foo(bar)"),
            (Pieces{"Hello", ",", " world", "!\n\n", " ", " x", "=foo", "(bar", ")"}));
  EXPECT_EQ(found(kDeepSeekWords, " \u00abun\u00bb \u20ac\r\n\r\n a"),
            (Pieces{" \u00ab", "un", "\u00bb", " \u20ac\r\n\r\n", " a"}));
  EXPECT_EQ(found("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", "a\u4e00\u3042b\u30a2"),
            (Pieces{"\u4e00\u3042", "\u30a2"}));
  EXPECT_EQ(found(R"(\p{N}{1,3})", "12345 \u00bd"), (Pieces{"123", "45", "\u00bd"}));
}

TEST(SplitRegex, MatchesWhatItDescribes) {
  EXPECT_EQ(found("a|ab|b", "ab"), (Pieces{"a", "b"}));  // the first alternative, not the longest
  EXPECT_EQ(found("(?:ab|a)b", "ab abb"), (Pieces{"ab", "abb"}));
  EXPECT_EQ(found("a*ab", "aaab b"), (Pieces{"aaab"}));
  EXPECT_EQ(found("a{2,3}", "aaaaa a"), (Pieces{"aaa", "aa"}));
  EXPECT_EQ(found("a{2,}", "aaaaa a"), (Pieces{"aaaaa"}));
  EXPECT_EQ(found("ba{,2}", "baaa"), (Pieces{"baa"}));
  EXPECT_EQ(found("a{2", "a{2"), (Pieces{"a{2"}));
  EXPECT_EQ(found("a{1,2}+b", "aaaab"), (Pieces{"aaaab"}));  // a repetition of the repetition
  EXPECT_EQ(found("ba{2}?", "baaa b"), (Pieces{"baa", "b"}));
  EXPECT_EQ(found("a+?b?", "aab"), (Pieces{"a", "ab"}));
  EXPECT_EQ(found("a++a|b", "aab"), (Pieces{"b"}));
  EXPECT_EQ(found("(?>a+)b|a", "aac"), (Pieces{"a", "a"}));
  EXPECT_EQ(found("[a-c&&[^b]]+", "abcab"), (Pieces{"a", "ca"}));
  EXPECT_EQ(found("[]a-]+", "]b-a"), (Pieces{"]", "-a"}));
  EXPECT_EQ(found("[^[a-y]]", "az"), (Pieces{"z"}));
  EXPECT_EQ(found(R"([\x41\x{42}\u0043]+)", "ABCD"), (Pieces{"ABC"}));
  EXPECT_EQ(found(R"(\P{Lu}\p{^Lu}.)", "a\n\nabc"), (Pieces{"\n\na"}));
  EXPECT_EQ(found("(?i)'s|k", "'S 's K \u212a '\u017f"),
            (Pieces{"'S", "'s", "K", "\u212a", "'\u017f"}));
  EXPECT_EQ(found("a(?i)b|c", "aB C aC"), (Pieces{"aB", "aC"}));  // up to the group's end
  EXPECT_EQ(found("(?i:a)b", "Ab AB"), (Pieces{"Ab"}));
  EXPECT_EQ(found("^a|b$", "a\nab\nb a"), (Pieces{"a", "a", "b"}));
  EXPECT_EQ(found(R"(\Aa|b\z)", "aa b\nb"), (Pieces{"a", "b"}));
  EXPECT_EQ(found(R"(b\Z)", "b\nb\n"), (Pieces{"b"}));
  EXPECT_EQ(found(R"(\ba)", "a aa ba"), (Pieces{"a", "a"}));
  EXPECT_EQ(found("(?<=\u00e9)a|(?<!b)c", "\u00e9aac bc"), (Pieces{"a", "c"}));
  // Digits in groups of three from the end.
  EXPECT_EQ(found(R"(\d{1,3}(?=(?:\d{3})*(?!\d)))", "1234567 12 123"),
            (Pieces{"1", "234", "567", "12", "123"}));
}

TEST(SplitRegex, WordsAreOnigurumasWords) {
  // Outside of brackets the numbers of Latin-1 are words, join controls are none.
  EXPECT_EQ(found(R"(\w+)", "a\u00bd\u00b2 \u2460\u24b6\u200d"),
            (Pieces{"a\u00bd\u00b2", "\u24b6"}));
  EXPECT_EQ(found(R"([\w]+)", "a\u00bd\u00b2 \u24b6"), (Pieces{"a", "\u24b6"}));
  EXPECT_EQ(found(R"(\W)", "a\u00bd\u200d"), (Pieces{"\u200d"}));
  EXPECT_EQ(found(R"(\b\u00bd)", "a\u00bd \u00bd"), (Pieces{"\u00bd"}));
}

TEST(SplitRegex, BytesThatAreNotUtf8AreUnassignedCharacters) {
  EXPECT_EQ(found("[^a]", "\xff\xe4 a"), (Pieces{"\xff", "\xe4", " "}));
  EXPECT_EQ(found(R"([\p{L}\s])", "\xff\xe4 a"), (Pieces{" ", "a"}));
}

TEST(SplitRegex, ReadsBytesAsTheirSpellings) {
  // A blank is U+0120 there, a letter; é's bytes are Ã and ©.
  EXPECT_EQ(found(compiled(R"(\p{L}+)"), "a b\xc3\xa9", true), (Pieces{"a b\xc3"}));
  EXPECT_EQ(found(compiled(R"(\p{S})"), "a b\xc3\xa9", true), (Pieces{"\xa9"}));
}

TEST(SplitRegex, RefusesByName) {
  const auto refused = [](std::string_view expression) {
    SplitRegex regex;
    const Problem problem = regex.compile(expression);
    EXPECT_TRUE(problem.unsupported) << expression;
    return problem.text;
  };
  EXPECT_THAT(refused(R"((a)\1)"), HasSubstr("'\\1'"));
  EXPECT_THAT(refused(R"(\X)"), HasSubstr("'\\X'"));
  EXPECT_THAT(refused(R"(\p{Klingon})"), HasSubstr("'\\p{Klingon}'"));
  EXPECT_THAT(refused("[[:alpha:]]"), HasSubstr("'[:'"));
  EXPECT_THAT(refused("(?x)a"), HasSubstr("'(?x'"));
  EXPECT_THAT(refused("(?<name>a)"), HasSubstr("'(?<'"));
  EXPECT_THAT(refused("(?<=ab)c"), HasSubstr("lookbehind"));
  EXPECT_THAT(refused("(?:ab)++"), HasSubstr("possessive"));
  EXPECT_THAT(refused("(?>ab)"), HasSubstr("'(?>'"));
  EXPECT_THAT(refused("(?:a*)*b"), HasSubstr("unbounded repetition"));
  EXPECT_THAT(refused("a*"), HasSubstr("match nothing"));
  EXPECT_THAT(refused("a|"), HasSubstr("match nothing"));
  EXPECT_THAT(refused("a{1001}"), HasSubstr("a count above 1000"));
  EXPECT_THAT(refused("(?:(?:ab){900}){900}"), HasSubstr("so large a pattern"));
  EXPECT_THAT(refused("(?i:\u00e9)"), HasSubstr("in either case"));
  EXPECT_THAT(refused("(?i:ss)"), HasSubstr("'ss'"));
  EXPECT_THAT(refused(std::string(100, '(') + "a" + std::string(100, ')')), HasSubstr("nested"));
  EXPECT_THAT(refused(std::string(9000, 'a')), HasSubstr("8192 bytes"));
  std::string kinds;
  for (char32_t c = 0x4e00; c < 0x4e00 + 300; ++c) {
    kinds += static_cast<char>(0xE4);
    kinds += static_cast<char>(0xB8 + ((c - 0x4e00) >> 6));
    kinds += static_cast<char>(0x80 | (c & 0x3F));
  }
  EXPECT_THAT(refused(kinds), HasSubstr("so many kinds"));
}

TEST(SplitRegex, ALineFeedOfAByteLevelTextEndsNoLine) {
  const auto split = [](std::string_view expression, bool byte_level) {
    return found(compiled(expression), "ab\nab\n", byte_level);
  };
  EXPECT_EQ(split("^a", false), (Pieces{"a", "a"}));
  EXPECT_EQ(split("^a", true), Pieces{"a"});
  EXPECT_EQ(split("b$", false), (Pieces{"b", "b"}));
  EXPECT_EQ(split("b$", true), Pieces{});
  EXPECT_EQ(split("b\\Z", false), Pieces{"b"});
  EXPECT_EQ(split("b\\Z", true), Pieces{});
  EXPECT_EQ(split("\u010a$", true), Pieces{"\n"});
}

TEST(SplitRegex, SaysWhatIsWrong) {
  for (const char* const expression :
       {"(a", "a)", "[a", "a|*", "[b-a]", R"(\x{110000})", "\\", "+", R"(\p{L)", "\xff", "[a",
        "[a-", R"([\)", "(?", "(?i", "(?="}) {
    SplitRegex regex;
    EXPECT_FALSE(regex.compile(expression).empty()) << expression;
  }
}

TEST(SplitRegex, EndsOnEveryExpression) {
  // For any file: no crash, and no match outside of the text.
  std::mt19937 random(7);
  const std::vector<std::string> parts = {"a",    "b", "\\s", "\\p{L}", "[^a]", "(",     ")",
                                          "(?:",  "|", "*",   "+",      "?",    "{2}",   "{1,}",
                                          "[",    "]", "(?=", "(?!",    "^",    "$",     "\\b",
                                          "(?i)", "-", "&&",  ".",      "(?<=", "\u00e9"};
  std::size_t good = 0;
  const std::size_t count = tests::load(3000);
  for (std::size_t i = 0; i < count; ++i) {
    std::string expression;
    for (std::size_t n = 1 + random() % 9; n > 0; --n) expression += parts[random() % parts.size()];
    SplitRegex regex;
    if (!regex.compile(expression).empty()) continue;
    ++good;
    found(regex, "aab \u00e9\n ba\xff(-&");
  }
  EXPECT_GT(good, count / 15);
}

TEST(SplitRegex, TakesTimeLinearInTheText) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::string> expressions = {"a*b|a",
                                          "(?:a|b)*c|a",
                                          "(?:a+)+c|a",
                                          "(?:a|aa)*c|a",
                                          "a++b|a",
                                          "(?=a*b)b|a",
                                          "(?=(?:a|b)*)a",
                                          "(?=(?:a|b)+c)a|a",
                                          R"(\s*[\r\n]|\s)",
                                          "(?:a?){30}(?:a){30}c|a",
                                          std::string(kDeepSeekWords)};
  for (const char* const name : {"gpt2", "r50k_base", "p50k_base", "llama3", "cl100k_base", "qwen2",
                                 "qwen3-next", "o200k_base", "tekken", "bloom"})
    expressions.emplace_back(*pattern_named(name));
  for (const std::string& expression : expressions) {
    const SplitRegex regex = compiled(expression);
    for (const std::string piece : {"a", "A", " ", "\n", "1", "!", "\u0301", "\u4e00", "\xff", "'",
                                    " \n", "aA", "\u0301A", "'s", "\u017f"}) {
      std::string text;
      while (text.size() < 20000) text += piece;
      found(regex, text);
    }
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

TEST(SplitPatterns, HaveNames) {
  EXPECT_TRUE(pattern_named("o200k_base"));
  EXPECT_EQ(pattern_named("p50k_base"), pattern_named("r50k_base"));
  EXPECT_EQ(pattern_named(""), std::nullopt);
  EXPECT_EQ(pattern_named("o300k"), std::nullopt);
}

}  // namespace
}  // namespace llmc::hosted
