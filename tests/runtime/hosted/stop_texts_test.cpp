// Stop texts and recommended sampling: the C functions of hosted.h and their implementation.
#include "runtime/hosted/chat/stop_texts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "llmc/hosted.h"
#include "runtime/hosted/tokenizer/utf8.h"

namespace llmc::hosted {
namespace {

using ::testing::HasSubstr;

/// The text before the first match, by looking at every prefix; the whole text without one.
std::string before_first_match(const std::string& text, const std::vector<std::string>& stops) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::size_t longest = 0;
    for (const std::string& stop : stops)
      if (text.substr(0, end).ends_with(stop)) longest = std::max(longest, stop.size());
    if (longest > 0) return text.substr(0, end - longest);
  }
  return text;
}

TEST(StopTextsTest, AreFoundHoweverTheyAreCut) {
  const std::string text = "one ##two ###three";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    StopTexts stops({"###", "never"});
    std::string given = stops.add(text.substr(0, cut));
    given += stops.add(text.substr(cut));
    EXPECT_TRUE(stops.found());
    given += stops.finish();
    EXPECT_EQ(given, "one ##two ") << cut;
  }
  StopTexts byte_by_byte({"aab"});
  std::string given;
  for (const char c : std::string("aaab rest")) given += byte_by_byte.add(std::string(1, c));
  EXPECT_EQ(given, "a") << "the first a is free once another follows";
  EXPECT_TRUE(byte_by_byte.found());
}

TEST(StopTextsTest, WhatOnlyBeginsLikeOneIsGivenOut) {
  StopTexts stops({"stop", ""});
  EXPECT_EQ(stops.add("st"), "");
  EXPECT_EQ(stops.add("ate st"), "state ");
  EXPECT_FALSE(stops.found());
  EXPECT_EQ(stops.finish(), "st");
  StopTexts both({"bc", "abcd"});
  EXPECT_EQ(both.add("xabc"), "xa") << "the one that ends first";
  EXPECT_TRUE(both.found());
}

TEST(StopTextsTest, DoNotDependOnHowTheTextIsCut) {
  std::mt19937 random(7);
  const auto letters = [&](std::size_t least, std::size_t most) {
    std::string text;
    for (std::size_t n = least + random() % (most - least + 1); n > 0; --n)
      text += static_cast<char>('a' + random() % 2);
    return text;
  };
  int found = 0;
  for (int round = 0; round < 2000; ++round) {
    const std::vector<std::string> stops{letters(1, 7), letters(3, 9), letters(5, 5)};
    const std::string text = letters(0, 24);
    StopTexts matcher(stops);
    std::string given;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t count = 1 + random() % 6;
      given += matcher.add(std::string_view(text).substr(at, count));
      at += count;
    }
    const bool ended = matcher.found();
    given += matcher.finish();
    EXPECT_EQ(given, before_first_match(text, stops))
        << text << ": " << stops[0] << " " << stops[1];
    found += ended ? 1 : 0;
  }
  EXPECT_GT(found, 500);
  EXPECT_LT(found, 2000);
}

TEST(StopTextsTest, TakeLinearTime) {
  // A text that nearly matches at every place.
  StopTexts matcher({std::string(200'000, 'a') + "b"});
  std::string given;
  for (int i = 0; i < 400'000; ++i) given += matcher.add("a");
  EXPECT_EQ(given.size(), 200'000u);
  EXPECT_EQ(matcher.add("b"), "");
  EXPECT_TRUE(matcher.found());
}

TEST(StopTextsC, WithholdAndFind) {
  const char* const texts[] = {"\u00e4!", "User:"};
  llmc_stop_texts* stops = nullptr;
  ASSERT_EQ(llmc_stop_texts_create(texts, 2, &stops), LLMC_OK);
  const auto add = [&](const char* piece) {
    const char* text = nullptr;
    size_t bytes = 0;
    EXPECT_EQ(llmc_stop_texts_add(stops, piece, std::strlen(piece), &text, &bytes), LLMC_OK);
    EXPECT_EQ(std::strlen(text), bytes);
    EXPECT_TRUE(is_utf8(text));
    return std::string(text);
  };
  EXPECT_EQ(add("Hi \u00e4"), "Hi ") << "it may become a stop text";
  EXPECT_EQ(add("?\nUs"), "\u00e4?\n");
  EXPECT_EQ(llmc_stop_texts_found(stops), 0);
  EXPECT_EQ(add("er: more"), "");
  EXPECT_NE(llmc_stop_texts_found(stops), 0);
  EXPECT_EQ(add("after"), "") << "nothing follows a stop text";
  const char* rest = nullptr;
  ASSERT_EQ(llmc_stop_texts_finish(stops, &rest, nullptr), LLMC_OK);
  EXPECT_STREQ(rest, "");
  EXPECT_EQ(llmc_stop_texts_found(stops), 0) << "ready for another text";
  EXPECT_EQ(add("x U"), "x ");
  ASSERT_EQ(llmc_stop_texts_finish(stops, &rest, nullptr), LLMC_OK);
  EXPECT_STREQ(rest, "U") << "the text ended there";
  llmc_stop_texts_free(stops);
  llmc_stop_texts_free(nullptr);
}

TEST(StopTextsC, RefusesWhatIsNoText) {
  llmc_stop_texts* stops = nullptr;
  for (const char* bad : {"", "\xC3", "\xA4!"}) {
    const char* const texts[] = {"good", bad};
    EXPECT_EQ(llmc_stop_texts_create(texts, 2, &stops), LLMC_ERROR_ARGUMENT);
    EXPECT_EQ(stops, nullptr);
  }
  const char* const missing[] = {nullptr};
  EXPECT_EQ(llmc_stop_texts_create(missing, 1, &stops), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_stop_texts_create(nullptr, 1, &stops), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_stop_texts_create(nullptr, 0, nullptr), LLMC_ERROR_ARGUMENT);
  const char* text = nullptr;
  EXPECT_EQ(llmc_stop_texts_add(nullptr, "a", 1, &text, nullptr), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_stop_texts_finish(nullptr, &text, nullptr), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_stop_texts_found(nullptr), 0);
  ASSERT_EQ(llmc_stop_texts_create(nullptr, 0, &stops), LLMC_OK);
  EXPECT_EQ(llmc_stop_texts_add(stops, nullptr, 1, &text, nullptr), LLMC_ERROR_ARGUMENT);
  ASSERT_EQ(llmc_stop_texts_add(stops, "abc", 3, &text, nullptr), LLMC_OK);
  EXPECT_STREQ(text, "abc") << "nothing ends it";
  llmc_stop_texts_free(stops);
}

TEST(SamplingC, TakesWhatTheModelRecommends) {
  const auto path = std::filesystem::temp_directory_path() /
                    (std::to_string(getpid()) + ".recommended.chat.json");
  const auto load = [&](const std::string& content, llmc_sampling& sampling, char* message) {
    std::ofstream(path, std::ios::binary) << content;
    return llmc_sampling_load(path.c_str(), &sampling, message, message != nullptr ? 200 : 0);
  };
  llmc_sampling sampling{};
  sampling.top_p = 0.95f;
  sampling.top_k = 40;
  EXPECT_EQ(
      load(R"({"llmc_chat": 1, "sampling": {"temperature": 0.6, "top_k": 20}})", sampling, nullptr),
      LLMC_OK);
  EXPECT_FLOAT_EQ(sampling.temperature, 0.6f);
  EXPECT_EQ(sampling.top_k, 20);
  EXPECT_FLOAT_EQ(sampling.top_p, 0.95f) << "nothing is said of it";
  char message[200];
  const llmc_sampling before = sampling;
  for (const char* bad : {R"({"llmc_chat": 1, "sampling": {"temperature": -1}})",
                          R"({"llmc_chat": 1, "sampling": {"top_k": 1.5}})",
                          R"({"llmc_chat": 1, "sampling": {"top_k": "20"}})",
                          R"({"llmc_chat": 1, "sampling": {"seed": 1}})",
                          R"({"llmc_chat": 1, "sampling": []})", "{"}) {
    EXPECT_EQ(load(bad, sampling, message), LLMC_ERROR_FORMAT) << bad;
    EXPECT_THAT(message, HasSubstr("recommended.chat.json: ")) << bad;
    EXPECT_EQ(std::memcmp(&sampling, &before, sizeof sampling), 0) << bad;
  }
  std::filesystem::remove(path);
  EXPECT_EQ(llmc_sampling_load(path.c_str(), &sampling, message, sizeof message), LLMC_ERROR_FILE);
  EXPECT_EQ(llmc_sampling_load(nullptr, &sampling, nullptr, 0), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_sampling_load(path.c_str(), nullptr, nullptr, 0), LLMC_ERROR_ARGUMENT);
}

}  // namespace
}  // namespace llmc::hosted
