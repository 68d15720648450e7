#include <gtest/gtest.h>

#include "runtime/hosted/tokenizer/base64.h"
#include "runtime/hosted/tokenizer/prefix_index.h"
#include "runtime/hosted/tokenizer/pretokenizer.h"
#include "runtime/hosted/tokenizer/utf8.h"
#include "runtime/hosted/tokenizer/wire_reader.h"

namespace llmc::hosted {
namespace {

using namespace std::string_literals;

TEST(Utf8, DecodesWholeCharactersOnly) {
  EXPECT_EQ(decode_utf8("a").code_point, 0x61u);
  EXPECT_EQ(decode_utf8("\u00e4x").code_point, 0xE4u);
  EXPECT_EQ(decode_utf8("\u2581").bytes, 3u);
  EXPECT_EQ(decode_utf8("\U0001F600").code_point, 0x1F600u);
  EXPECT_EQ(decode_utf8("\U0010FFFF").bytes, 4u);
  EXPECT_EQ(decode_utf8("\0"s).bytes, 1u);
  for (const auto& bad : {""s, "\x80"s, "\xC0\x80"s, "\xC1\xBF"s, "\xE0\x9F\xBF"s, "\xED\xA0\x80"s,
                          "\xF0\x8F\xBF\xBF"s, "\xF4\x90\x80\x80"s, "\xF5\x80\x80\x80"s,
                          "\xE2\x96"s, "\xE2\x96z"s, "\xFF"s}) {
    EXPECT_EQ(decode_utf8(bad).bytes, 0u);
  }
}

TEST(Utf8, StreamsWholeCharacters) {
  const std::string text = "a\u00e4\u2581\U0001F600z";
  for (std::size_t step = 1; step <= text.size(); ++step) {
    std::string pending, out;
    for (std::size_t i = 0; i < text.size(); i += step) {
      pending += text.substr(i, step);
      const std::string whole = take_whole_utf8(pending, false);
      for (std::string_view rest = whole; !rest.empty();) {
        const std::size_t bytes = decode_utf8(rest).bytes;
        ASSERT_GT(bytes, 0u);
        rest.remove_prefix(bytes);
      }
      ASSERT_LE(pending.size(), 3u);
      out += whole;
    }
    EXPECT_EQ(out + take_whole_utf8(pending, true), text);
  }
}

TEST(Utf8, StreamReplacesWhatIsNoUtf8) {
  const std::string r(kReplacement);
  std::string pending =
      "\x80"
      "a\xE2\x96";
  EXPECT_EQ(take_whole_utf8(pending, false), r + "a");
  pending += "b";
  EXPECT_EQ(take_whole_utf8(pending, false), r + r + "b");
  pending = "\xF0\x9F\x98";
  EXPECT_EQ(take_whole_utf8(pending, false), "");
  EXPECT_EQ(take_whole_utf8(pending, true), r + r + r);
  EXPECT_TRUE(pending.empty());
}

TEST(Base64, StandardVectors) {  // RFC 4648, section 10
  EXPECT_EQ(decode_base64(""), "");
  EXPECT_EQ(decode_base64("Zg=="), "f");
  EXPECT_EQ(decode_base64("Zm8="), "fo");
  EXPECT_EQ(decode_base64("Zm9v"), "foo");
  EXPECT_EQ(decode_base64("Zm9vYmFy"), "foobar");
  EXPECT_EQ(decode_base64("AP/+"), "\0\xFF\xFE"s);
  for (const char* bad : {"Z", "Zg", "Zg=", "Zg===", "====", "Z===", "Zm=v",
                          "Zh==", "Zm9=", "Zm9v\n", "Zm 9", "Z-_v", "=m9v"}) {
    EXPECT_EQ(decode_base64(bad), std::nullopt) << bad;
  }
}

TEST(PrefixIndex, FindsTheLongestEntry) {
  const PrefixIndex index({{"ab", 1}, {"abcd", 2}, {"", 9}, {"ab", 5}, {"\xFF", 3}, {"a\x80", 4}});
  EXPECT_EQ(index.longest("abcde")->second, 2);
  EXPECT_EQ(index.longest("abce")->second, 1);  // the lower id of two alike
  EXPECT_EQ(index.longest("\xFFx")->second, 3);
  EXPECT_EQ(index.longest("a\x80")->second, 4);
  EXPECT_EQ(index.longest("a"), nullptr);
  EXPECT_EQ(index.longest(""), nullptr);
  EXPECT_EQ(PrefixIndex().longest("a"), nullptr);
}

TEST(WireReader, ReadsFieldsAndRefusesDamage) {
  const std::string message = "\x08\x96\x01\x12\x03"s + "abc\x1d\x00\x00\x80\x3f"s;
  WireReader reader(message);
  const auto first = reader.next();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->number, 1u);
  EXPECT_EQ(first->value, 150u);
  EXPECT_EQ(reader.next()->bytes, "abc");
  EXPECT_EQ(reader.next()->value, 0x3f800000u);
  EXPECT_FALSE(reader.next());
  EXPECT_FALSE(reader.failed());
  for (const auto& bad : {"\x08"s,
                          "\x12\x05"
                          "abc"s,
                          "\x1d\x00"s, "\x09\x00"s, "\x0b"s, "\x00\x01"s,
                          "\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x02"s, "\x0f\x01"s,
                          "\x12\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"s}) {
    WireReader damaged(bad);
    while (damaged.next()) {
    }
    EXPECT_TRUE(damaged.failed());
    EXPECT_FALSE(damaged.next());
  }
}

std::vector<std::string> words(std::string_view text, SplitPattern pattern = SplitPattern::kQwen2) {
  std::vector<std::string> found;
  while (!text.empty()) {
    const std::size_t bytes = first_word(text, pattern);
    EXPECT_GT(bytes, 0u);
    EXPECT_LE(bytes, text.size());
    found.emplace_back(text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
  return found;
}

using Words = std::vector<std::string>;

TEST(Pretokenizer, SplitsAsThePatternDoes) {
  EXPECT_EQ(words("Hello world!"), (Words{"Hello", " world", "!"}));
  EXPECT_EQ(words("we'Ve it's 'lLx 'x"), (Words{"we", "'Ve", " it", "'s", " '", "lLx", " '", "x"}));
  EXPECT_EQ(words("ab12 3"), (Words{"ab", "1", "2", " ", "3"}));
  EXPECT_EQ(words("a  b"), (Words{"a", " ", " b"}));
  EXPECT_EQ(words("a   "), (Words{"a", "   "}));
  EXPECT_EQ(words("a \n\n  b"), (Words{"a", " \n\n", " ", " b"}));
  EXPECT_EQ(words("x!?\r\n\ny"), (Words{"x", "!?\r\n\n", "y"}));
  EXPECT_EQ(words("\nabc"), (Words{"\n", "abc"}));
  EXPECT_EQ(words("\tabc\t\tdef"), (Words{"\tabc", "\t", "\tdef"}));
  EXPECT_EQ(words("(abc) -"), (Words{"(abc", ")", " -"}));
  EXPECT_EQ(words("\u00bd\u4e00\u3000x"), (Words{"\u00bd", "\u4e00", "\u3000x"}));
  EXPECT_EQ(words("\xff\xe4 a"), (Words{"\xff\xe4", " a"}));
}

TEST(Pretokenizer, SplitsAsGpt2sPatternDoes) {
  const auto split = [](std::string_view text) { return words(text, SplitPattern::kGpt2); };
  EXPECT_EQ(split("Hello world!"), (Words{"Hello", " world", "!"}));
  EXPECT_EQ(split("we've 'Ve"), (Words{"we", "'ve", " '", "Ve"}));
  EXPECT_EQ(split("ab12 345"), (Words{"ab", "12", " 345"}));
  EXPECT_EQ(split("a \n\nb"), (Words{"a", " \n", "\n", "b"}));
  EXPECT_EQ(split("\tx  "), (Words{"\t", "x", "  "}));
  EXPECT_EQ(split("x!?\n"), (Words{"x", "!?", "\n"}));
}

TEST(Pretokenizer, SplitsAsLlama3sPatternDoes) {
  const auto split = [](std::string_view text) { return words(text, SplitPattern::kLlama3); };
  EXPECT_EQ(split("a1234567 8"), (Words{"a", "123", "456", "7", " ", "8"}));
  EXPECT_EQ(split("it'S \n x"), (Words{"it", "'S", " \n", " x"}));
}

TEST(Pretokenizer, UnicodeClasses) {
  for (const std::uint32_t c : {0x41u, 0xAAu, 0xDFu, 0x3B1u, 0x5D0u, 0x4E00u, 0xAC00u, 0x1D400u})
    EXPECT_TRUE(is_letter(c) && !is_number(c) && !is_space(c)) << c;
  for (const std::uint32_t c : {0x30u, 0xB2u, 0xBDu, 0x660u, 0x2167u, 0x1F100u})
    EXPECT_TRUE(is_number(c) && !is_letter(c) && !is_space(c)) << c;
  for (const std::uint32_t c : {0x9u, 0x20u, 0x85u, 0xA0u, 0x2003u, 0x3000u})
    EXPECT_TRUE(is_space(c) && !is_letter(c) && !is_number(c)) << c;
  for (const std::uint32_t c : {0x0u, 0x1Cu, 0x21u, 0x5Fu, 0x300u, 0x200Bu, 0x1F600u, 0x10FFFFu})
    EXPECT_FALSE(is_letter(c) || is_number(c) || is_space(c)) << c;
}

}  // namespace
}  // namespace llmc::hosted
