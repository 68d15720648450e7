#include <gtest/gtest.h>

#include "runtime/hosted/tokenizer/base64.h"
#include "runtime/hosted/tokenizer/split_patterns.h"
#include "runtime/hosted/tokenizer/tables.h"
#include "runtime/hosted/tokenizer/unicode.h"
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

TEST(TextIndex, FindsTheLongestEntry) {
  const std::string pool =
      "a\x80"
      "ababcd\xFF";
  const IndexRecord records[] = {
      {{2, 2}, 1, 0}, {{4, 4}, 2, 0}, {{0, 2}, 4, 0}, {{8, 1}, 3, 0}};  // in order of their bytes
  const TextIndex index(pool.data(), records);
  EXPECT_EQ(index.longest("abcde")->value, 2u);
  EXPECT_EQ(index.longest("abce")->value, 1u);
  EXPECT_EQ(index.longest("\xFFx")->value, 3u);
  EXPECT_EQ(index.longest("a\x80")->value, 4u);
  EXPECT_EQ(index.longest("a"), nullptr);
  EXPECT_EQ(index.longest(""), nullptr);
  EXPECT_EQ(TextIndex().longest("a"), nullptr);
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

TEST(SplitPatterns, SpellBytesAsGpt2Does) {
  EXPECT_EQ(spelling_of('A'), 0x41u);
  EXPECT_EQ(spelling_of(' '), 0x120u);
  EXPECT_EQ(spelling_of(0), 0x100u);
  EXPECT_EQ(spelling_of(0x7F), 0x121u);
  EXPECT_EQ(spelling_of(0xA0), 0x142u);
  EXPECT_EQ(spelling_of(0xAD), 0x143u);
  EXPECT_EQ(spelling_of(0xFF), 0xFFu);
}

}  // namespace
}  // namespace llmc::hosted
