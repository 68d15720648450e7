#include "runtime/hosted/tokenizer/unicode.h"

#include <gtest/gtest.h>

#include <array>

#include "runtime/hosted/tokenizer/utf8.h"

/// The long constants are hashes of what Python 3.11's unicodedata gives for the same texts.
namespace llmc::hosted {
namespace {

constexpr std::uint64_t kStart = 0xcbf29ce484222325;

/// FNV-1a.
std::uint64_t hash(std::string_view text, std::uint64_t so_far) {
  for (const char c : text) so_far = (so_far ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return so_far;
}

std::string utf8(std::uint32_t c) {
  std::string text;
  append_utf8(c, text);
  return text;
}

/// Unicode 15 has these in addition to 14, which the constants are of.
bool newer_than_14(std::uint32_t c) {
  static constexpr std::uint32_t kAdded[][2] = {
      {0xCF3, 0xCF3},     {0xECE, 0xECE},     {0x10EFD, 0x10EFF}, {0x1123F, 0x11241},
      {0x11B00, 0x11B09}, {0x11F00, 0x11F10}, {0x11F12, 0x11F3A}, {0x11F3E, 0x11F59},
      {0x1342F, 0x1342F}, {0x13439, 0x13455}, {0x1B132, 0x1B132}, {0x1B155, 0x1B155},
      {0x1D2C0, 0x1D2D3}, {0x1DF25, 0x1DF2A}, {0x1E030, 0x1E06D}, {0x1E08F, 0x1E08F},
      {0x1E4D0, 0x1E4F9}, {0x1F6DC, 0x1F6DC}, {0x1F774, 0x1F776}, {0x1F77B, 0x1F77F},
      {0x1F7D9, 0x1F7D9}, {0x1FA75, 0x1FA77}, {0x1FA87, 0x1FA88}, {0x1FAAD, 0x1FAAF},
      {0x1FABB, 0x1FABD}, {0x1FABF, 0x1FABF}, {0x1FACE, 0x1FACF}, {0x1FADA, 0x1FADB},
      {0x1FAE8, 0x1FAE8}, {0x1FAF7, 0x1FAF8}, {0x2B739, 0x2B739}};
  for (const auto& range : kAdded)
    if (c >= range[0] && c <= range[1]) return true;
  return false;
}

template <class Each>
void for_assigned(Each&& each) {
  for (std::uint32_t c = 0; c < 0x30000; ++c) {
    const Category category = category_of(c);
    if (category != Category::kCn && category != Category::kCs && !newer_than_14(c)) each(c);
  }
}

struct Form {
  NormalForm form;
  std::uint64_t characters, sequences;
};

class NormalForms : public testing::TestWithParam<Form> {};

TEST_P(NormalForms, OfEveryCharacter) {
  std::uint64_t sum = kStart;
  for_assigned(
      [&](std::uint32_t c) { sum = hash(normalize_unicode(utf8(c), GetParam().form), sum); });
  EXPECT_EQ(sum, GetParam().characters);
}

TEST_P(NormalForms, OfSequences) {
  static constexpr std::uint32_t kPool[] = {
      0x61,    0x41,    0x65,   0x20,   0x300,  0x301, 0x323, 0x328, 0x345,
      0x1100,  0x1161,  0x11a8, 0xac00, 0xac01, 0x5d0, 0x5b0, 0x5bc, 0x3099,
      0x304b,  0x1e9b,  0xfb01, 0x212b, 0x958,  0x93c, 0x915, 0x334, 0x1d16d,
      0x1d165, 0x1d158, 0xdc4,  0xdd9,  0xdca,  0x6de, 0x7a,  0x338, 0x3d};
  std::uint32_t state = 1;
  const auto random = [&](std::uint32_t below) {
    state = (state * 1103515245 + 12345) & 0x7fffffff;
    return (state >> 8) % below;
  };
  std::uint64_t sum = kStart;
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (std::uint32_t n = 1 + random(9); n > 0; --n) append_utf8(kPool[random(36)], text);
    sum = hash(normalize_unicode(text, GetParam().form), sum);
  }
  EXPECT_EQ(sum, GetParam().sequences);
}

TEST_P(NormalForms, LeaveWhatIsNoUtf8WhereItIs) {
  const std::string text = "a\xff\xcc\x81\xe2\x98 \xc3";
  EXPECT_EQ(normalize_unicode(text, GetParam().form), text);
  EXPECT_EQ(normalize_unicode("", GetParam().form), "");
}

TEST_P(NormalForms, OfALongRunOfMarksTakeNotLong) {
  std::string text = "a";
  for (int i = 0; i < 200000; ++i) text += i % 2 == 0 ? "\u0301" : "\u0323";
  EXPECT_EQ(normalize_unicode(normalize_unicode(text, GetParam().form), GetParam().form),
            normalize_unicode(text, GetParam().form));
}

INSTANTIATE_TEST_SUITE_P(
    Unicode, NormalForms,
    testing::Values(Form{NormalForm::kNfc, 0x4711e978c321bef8, 0x1d0e7f5abbd6a0e2},
                    Form{NormalForm::kNfd, 0x59506e89e7cac2e2, 0x392c8a12d2eea356},
                    Form{NormalForm::kNfkc, 0xb10320219b88cdb6, 0x983986ec221426e0},
                    Form{NormalForm::kNfkd, 0x8f73a5de4bacac25, 0x30710354b84efd21}),
    [](const auto& info) {
      return std::string(
          std::array{"Nfc", "Nfd", "Nfkc", "Nfkd"}[static_cast<std::size_t>(info.param.form)]);
    });

TEST(Unicode, SmallLetters) {
  std::uint64_t sum = kStart;
  for_assigned([&](std::uint32_t c) {
    std::string text;
    append_lower(c, text);
    sum = hash(text, sum);
  });
  EXPECT_EQ(sum, 0x80e49b3e97abb36f);
}

TEST(Unicode, Classes) {
  const auto letter = [](std::uint32_t c) { return is_in(c, kLetters); };
  const auto number = [](std::uint32_t c) { return is_in(c, kNumbers); };
  for (const std::uint32_t c : {0x41u, 0xAAu, 0xDFu, 0x3B1u, 0x5D0u, 0x4E00u, 0xAC00u, 0x1D400u})
    EXPECT_TRUE(letter(c) && !number(c) && !is_space(c) && is_word(c)) << c;
  for (const std::uint32_t c : {0x30u, 0xB2u, 0xBDu, 0x660u, 0x2167u, 0x1F100u})
    EXPECT_TRUE(number(c) && !letter(c) && !is_space(c)) << c;
  for (const std::uint32_t c : {0x9u, 0x20u, 0x85u, 0xA0u, 0x2003u, 0x3000u})
    EXPECT_TRUE(is_space(c) && !letter(c) && !number(c) && !is_word(c)) << c;
  for (const std::uint32_t c : {0x0u, 0x1Cu, 0x21u, 0x300u, 0x200Bu, 0x1F600u, 0x10FFFFu})
    EXPECT_FALSE(letter(c) || number(c) || is_space(c)) << c;
  for (const std::uint32_t c : {0x5Fu, 0x300u, 0x200Du, 0x24B6u}) EXPECT_TRUE(is_word(c)) << c;
}

TEST(Unicode, GraphemeClusters) {
  const auto first = [](std::string_view text) {
    return std::string(text.substr(0, first_grapheme(text)));
  };
  EXPECT_EQ(first("ab"), "a");
  EXPECT_EQ(first("e\u0301\u0323x"), "e\u0301\u0323");
  EXPECT_EQ(first("\r\nx"), "\r\n");
  EXPECT_EQ(first("\n\u0301"), "\n");
  EXPECT_EQ(first("\u1100\u1161\u11a8\u1100"), "\u1100\u1161\u11a8");
  EXPECT_EQ(first("\u0600ab"), "\u0600a");
  EXPECT_EQ(first("\u0915\u0903x"), "\u0915\u0903");
  EXPECT_EQ(first("\U0001F1E9\U0001F1EA\U0001F1E9"), "\U0001F1E9\U0001F1EA");
  EXPECT_EQ(first("\u00a9\u200d\u00aex"), "\u00a9\u200d\u00ae");
  EXPECT_EQ(first("a\u200d\u00ae"), "a\u200d");
  EXPECT_EQ(first("\xffz"), "\xff");
}

}  // namespace
}  // namespace llmc::hosted
