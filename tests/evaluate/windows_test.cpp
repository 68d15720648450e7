#include "compiler/evaluate/windows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>

namespace llmc::evaluate {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ids = std::vector<std::int32_t>;

/// 100, 101, …: what a token is says where it stands.
Ids text_of(std::size_t tokens) {
  Ids text(tokens);
  std::iota(text.begin(), text.end(), 100);
  return text;
}

Windows cut(std::size_t tokens, const WindowOptions& options, std::uint32_t context = 64) {
  auto windows = Windows::cut(text_of(tokens), options, context);
  EXPECT_TRUE(windows.ok()) << format(windows.error().first());
  return *std::move(windows);
}

/// The tokens of a window that are counted.
Ids counted(const Windows& windows, std::size_t index) {
  const Windows::Window window = windows.at(index);
  return Ids(window.tokens.begin() + static_cast<std::ptrdiff_t>(window.first),
             window.tokens.end());
}

Diagnostic refused(std::size_t tokens, const WindowOptions& options, std::uint32_t context = 64) {
  const auto windows = Windows::cut(text_of(tokens), options, context);
  EXPECT_FALSE(windows.ok());
  return windows.ok() ? Diagnostic{} : windows.error().first();
}

TEST(Windows, CountTheSecondHalfAsLlamaCppDoes) {
  // A text of 1 + 17 tokens: two windows of 8, what is left is not read. llama.cpp counts the
  // predictions made at places n/2 … n - 2, which are of tokens n/2 + 1 … n - 1.
  const Windows windows = cut(17, {.size = 8, .bos = 1});
  ASSERT_EQ(windows.count(), 2u);
  EXPECT_THAT(windows.at(0).tokens, ElementsAre(1, 100, 101, 102, 103, 104, 105, 106));
  EXPECT_THAT(windows.at(1).tokens, ElementsAre(1, 108, 109, 110, 111, 112, 113, 114))
      << "107 gave its place to the beginning token";
  EXPECT_THAT(counted(windows, 0), ElementsAre(104, 105, 106));
  EXPECT_THAT(counted(windows, 1), ElementsAre(112, 113, 114));
  EXPECT_EQ(windows.width(), 8u);
}

TEST(Windows, OfOddLengthHaveTheirMiddleInTheFirstHalf) {
  const Windows windows = cut(14, {.size = 7});
  ASSERT_EQ(windows.count(), 2u);
  EXPECT_THAT(windows.at(1).tokens, ElementsAre(107, 108, 109, 110, 111, 112, 113));
  EXPECT_THAT(counted(windows, 1), ElementsAre(111, 112, 113));
}

TEST(Windows, CountEveryTokenOfTheTextOnce) {
  for (const std::size_t tokens : {1u, 6u, 7u, 8u, 14u, 15u, 40u}) {
    const Windows windows = cut(tokens, {.size = 8, .scored = ScoredTokens::kAll, .bos = 1});
    Ids all;
    for (std::size_t i = 0; i < windows.count(); ++i) {
      EXPECT_EQ(windows.at(i).tokens.front(), 1);
      EXPECT_LE(windows.at(i).tokens.size(), 8u);
      for (const std::int32_t token : counted(windows, i)) all.push_back(token);
    }
    EXPECT_EQ(all, text_of(tokens));
  }
}

TEST(Windows, WithoutABeginningTokenTheFirstOfAWindowIsNotPredicted) {
  const Windows windows = cut(9, {.size = 4, .scored = ScoredTokens::kAll});
  ASSERT_EQ(windows.count(), 2u) << "108 would be alone";
  EXPECT_THAT(windows.at(1).tokens, ElementsAre(104, 105, 106, 107));
  EXPECT_THAT(counted(windows, 1), ElementsAre(105, 106, 107));
  EXPECT_EQ(cut(10, {.size = 4, .scored = ScoredTokens::kAll}).count(), 3u);
}

TEST(Windows, WithAStrideCountTheLastTokensOfLongerOnes) {
  // 6 + 4/2 tokens, 4 apart, the last 4 counted: each token once from place 4 on.
  const Windows windows = cut(18, {.size = 6, .stride = 4, .bos = 1});
  EXPECT_EQ(windows.width(), 8u);
  ASSERT_EQ(windows.count(), 3u);
  EXPECT_THAT(windows.at(0).tokens, ElementsAre(1, 100, 101, 102, 103, 104, 105, 106));
  EXPECT_THAT(windows.at(1).tokens, ElementsAre(1, 104, 105, 106, 107, 108, 109, 110));
  EXPECT_THAT(counted(windows, 0), ElementsAre(103, 104, 105, 106));
  EXPECT_THAT(counted(windows, 1), ElementsAre(107, 108, 109, 110));
  EXPECT_THAT(counted(windows, 2), ElementsAre(111, 112, 113, 114));
  EXPECT_EQ(cut(19, {.size = 6, .stride = 4, .bos = 1}).count(), 4u) << "it ends with the text";
}

TEST(Windows, AreNoMoreThanAskedFor) {
  EXPECT_EQ(cut(64, {.size = 8, .max_windows = 3}).count(), 3u);
  EXPECT_EQ(cut(16, {.size = 8, .max_windows = 3}).count(), 2u);
}

TEST(Windows, WithoutASizeAreOf512TokensOrTheContext) {
  EXPECT_EQ(cut(600, {}, 2048).width(), 512u);
  EXPECT_EQ(cut(600, {}, 64).width(), 64u);
  EXPECT_EQ(cut(600, {.stride = 64}, 2048).width(), 544u);
  EXPECT_EQ(cut(600, {.stride = 64}, 384).width(), 384u) << "there is room for what a stride adds";
}

TEST(Windows, ThatAreImpossibleAreMistakesOfTheCommandLine) {
  const auto usage = [](const Diagnostic& d, const std::string& words) {
    EXPECT_EQ(d.kind, ErrorKind::kUsage);
    EXPECT_THAT(d.message, HasSubstr(words));
    EXPECT_NE(d.hint, "");
  };
  usage(refused(200, {.size = 65}), "a window of 65 tokens does not fit the context of 64");
  usage(refused(200, {.size = 60, .stride = 10}), "a window of 65 tokens");
  usage(refused(200, {.size = 2}), "empty second half");
  usage(refused(200, {.size = 4, .stride = 8}), "--ppl-stride 8");
  EXPECT_THAT(refused(200, {.size = 65}).hint, ::testing::Not(HasSubstr("--ppl-stride")));
  EXPECT_THAT(refused(200, {.size = 60, .stride = 10}).hint, HasSubstr("--ppl-stride"));
}

TEST(Windows, NeedATextOfOne) {
  const auto too_short = [](const Diagnostic& d, const std::string& words) {
    EXPECT_EQ(d.kind, ErrorKind::kBadInput);
    EXPECT_THAT(d.message, HasSubstr(words));
  };
  too_short(refused(7, {.size = 8}), "the text has 7 tokens, but a window needs 8");
  EXPECT_THAT(refused(7, {.size = 8}).hint, HasSubstr("--count all"));
  EXPECT_EQ(cut(7, {.size = 8, .bos = 1}).count(), 1u) << "with the beginning token it is enough";
  too_short(refused(8, {.size = 8, .stride = 2}), "a window needs 9");
  EXPECT_THAT(refused(8, {.size = 8, .stride = 2}).hint, HasSubstr("--ppl-stride"));
  too_short(refused(0, {.scored = ScoredTokens::kAll, .bos = 1}), "0 tokens");
  too_short(refused(1, {.scored = ScoredTokens::kAll}), "a window needs 2");
}

}  // namespace
}  // namespace llmc::evaluate
