#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/hosted/tokenizer/json_parts.h"
#include "runtime/hosted/tokenizer/spec.h"

/// Hugging Face's tokenizer.json: what is read, and what is refused.
namespace llmc::hosted {
namespace {

using Ids = std::vector<std::int32_t>;
using ::testing::HasSubstr;

/// How GPT-2's files spell a byte.
std::string spelling(unsigned byte) {
  const auto itself = [](unsigned b) {
    return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
  };
  unsigned point = byte;
  if (!itself(byte)) {
    point = 256;
    for (unsigned b = 0; b < byte; ++b) point += itself(b) ? 0 : 1;
  }
  if (point < 128) return std::string(1, static_cast<char>(point));
  return {static_cast<char>(0xC0 | point >> 6), static_cast<char>(0x80 | (point & 63))};
}

/// Bytes 0 … 255 are ids 0 … 255; then "ab" 256, "abc" 257, " a" 258, "bc" 259; <end> 260 is
/// special, <tag> 261 is not.
Json small() {
  Json vocabulary;
  for (unsigned byte = 0; byte < 256; ++byte) vocabulary[spelling(byte)] = byte;
  const std::string space = spelling(' ');
  vocabulary["ab"] = 256;
  vocabulary["abc"] = 257;
  vocabulary[space + "a"] = 258;
  vocabulary["bc"] = 259;
  const auto added = [](int id, const char* content, bool special) {
    return Json{{"id", id}, {"content", content}, {"special", special}, {"lstrip", false}};
  };
  return {{"normalizer", nullptr},
          {"added_tokens", {added(260, "<end>", true), added(261, "<tag>", false)}},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
          {"post_processor", nullptr},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model",
           {{"type", "BPE"},
            {"vocab", vocabulary},
            {"merges", {"b c", "a b", Json{"ab", "c"}, space + " a"}}}}};
}

Outcome<std::unique_ptr<Tokenizer>> parsed(const std::string& json, const char* config = "") {
  const auto spec = read_tokenizer_json(json, {.config = config}, "t.json");
  if (!spec) return spec.failure();
  return make_tokenizer(*spec, "t.json");
}

std::unique_ptr<Tokenizer> made(const Json& json, const char* config = "") {
  auto tokenizer = parsed(json.dump(), config);
  EXPECT_TRUE(tokenizer.ok()) << (tokenizer.ok() ? "" : tokenizer.failure().message);
  return tokenizer.ok() ? std::move(*tokenizer) : nullptr;
}

TEST(TokenizerJson, JoinsPairsInTheOrderOfTheList) {
  const auto tokenizer = made(small());
  ASSERT_NE(tokenizer, nullptr);
  // "b c" stands before "a b", so "abc" is never reached from "ab".
  EXPECT_EQ(tokenizer->encode("abc"), (Ids{'a', 259}));
  EXPECT_EQ(tokenizer->encode("ab a"), (Ids{256, 258}));
  EXPECT_EQ(tokenizer->decode(Ids{256, 258, 260}), "ab a");
  Json whole_words = small();
  whole_words["model"]["ignore_merges"] = true;
  EXPECT_EQ(made(whole_words)->encode("abc"), (Ids{257}));
}

TEST(TokenizerJson, FindsAddedTokensFirst) {
  const auto tokenizer = made(small(), R"({"eos_token": {"content": "<end>"}})");
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->encode("a<tag>b"), (Ids{'a', 261, 'b'}));
  EXPECT_EQ(tokenizer->encode("a<end>", {.parse_special = true}), (Ids{'a', 260}));
  EXPECT_EQ(tokenizer->encode("<end>").size(), 5u);
  EXPECT_TRUE(tokenizer->is_stop(260));
  EXPECT_FALSE(tokenizer->is_stop(261));
}

TEST(TokenizerJson, ReadsTheTemplate) {
  Json json = small();
  const Json token = {{"SpecialToken", {{"id", "<end>"}, {"type_id", 0}}}};
  json["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", {token, {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}, token, token}},
      {"special_tokens", {{"<end>", {{"id", "<end>"}, {"ids", {260}}}}}}};
  EXPECT_EQ(made(json)->encode("a"), (Ids{260, 'a'}));
  EXPECT_EQ(made(json)->encode("a", {.add_suffix = true}), (Ids{260, 'a', 260, 260}));
  json["post_processor"] = {{"type", "BertProcessing"}, {"cls", {"a", 97}}, {"sep", {"b", 98}}};
  EXPECT_EQ(made(json)->encode("c", {.add_suffix = true}), (Ids{'a', 'c', 'b'}));
}

TEST(TokenizerJson, AddedTokensTakeTheirSurroundings) {
  Json json = small();
  auto& added = json["added_tokens"];
  added = {{{"id", 260}, {"content", "<l>"}, {"lstrip", true}, {"special", true}},
           {{"id", 261}, {"content", "<r>"}, {"rstrip", true}, {"normalized", false}},
           {{"id", 262}, {"content", "word"}, {"single_word", true}, {"normalized", false}},
           {{"id", 263}, {"content", "Up"}, {"normalized", true}}};
  json["normalizer"] = {{"type", "Lowercase"}};
  const auto tokenizer = made(json);
  ASSERT_NE(tokenizer, nullptr);
  const EncodeOptions special{.parse_special = true};
  EXPECT_EQ(tokenizer->encode("x \t\u3000<l> y", special), (Ids{'x', 260, ' ', 'y'}));
  EXPECT_EQ(tokenizer->encode("x <r> \n y", special), (Ids{'x', ' ', 261, 'y'}));
  EXPECT_EQ(tokenizer->encode("(word)", special), (Ids{'(', 262, ')'}));
  EXPECT_EQ(tokenizer->encode("words", special), (Ids{'w', 'o', 'r', 'd', 's'}));
  // Looked for in normalized text, where it is "up" itself.
  EXPECT_EQ(tokenizer->encode("xUPx", special), (Ids{'x', 263, 'x'}));
  EXPECT_EQ(tokenizer->encode("<L>", special).size(), 3u);
}

std::string refusal(const Json& json) {
  const auto tokenizer = parsed(json.dump());
  return tokenizer.ok() ? "" : tokenizer.failure().message;
}

TEST(TokenizerJson, RefusesWhatItWouldHaveToGuess) {
  const auto changed = [](auto change) {
    Json json = small();
    change(json);
    return refusal(json);
  };
  EXPECT_THAT(changed([](Json& j) { j["normalizer"] = {{"type", "Nmt"}}; }), HasSubstr("Nmt"));
  EXPECT_THAT(changed([](Json& j) {
                j["normalizer"] = {
                    {"type", "Replace"}, {"pattern", {{"Regex", "a+"}}}, {"content", "b"}};
              }),
              HasSubstr("'a+'"));
  EXPECT_THAT(changed([](Json& j) { j["model"]["type"] = "WordLevel"; }), HasSubstr("WordLevel"));
  EXPECT_THAT(changed([](Json& j) { j["model"]["dropout"] = 0.1; }), HasSubstr("dropout"));
  EXPECT_THAT(changed([](Json& j) { j["model"]["end_of_word_suffix"] = "</w>"; }),
              HasSubstr("end_of_word_suffix"));
  EXPECT_THAT(changed([](Json& j) { j["model"]["byte_fallback"] = true; }),
              HasSubstr("byte_fallback"));
  EXPECT_THAT(changed([](Json& j) { j["pre_tokenizer"] = {{"type", "UnicodeScripts"}}; }),
              HasSubstr("UnicodeScripts"));
  EXPECT_THAT(changed([](Json& j) { j["pre_tokenizer"] = {{"type", "Metaspace"}}; }),
              HasSubstr("ByteLevel in only one"));
  EXPECT_THAT(changed([](Json& j) {
                j["pre_tokenizer"] = {{"type", "Split"},
                                      {"pattern", {{"Regex", R"((\w)\1)"}}},
                                      {"behavior", "Isolated"}};
              }),
              HasSubstr(R"('(\w)\1': '\1' is not supported)"));
  EXPECT_THAT(changed([](Json& j) { j["decoder"] = nullptr; }), HasSubstr("decoder"));
  EXPECT_THAT(changed([](Json& j) { j["post_processor"] = {{"type", "Other"}}; }),
              HasSubstr("Other"));
}

TEST(TokenizerJson, WhatThereIsNotIsToldFromDamage) {
  Json unknown = small();
  unknown["pre_tokenizer"] = {{"type", "UnicodeScripts"}};
  EXPECT_TRUE(parsed(unknown.dump()).failure().unsupported);
  Json damaged = small();
  damaged["model"].erase("vocab");
  EXPECT_FALSE(parsed(damaged.dump()).failure().unsupported);
}

// The pre-tokenizer of DeepSeek-V3: in its file "\r\n" are line ends, not escapes of the pattern.
TEST(TokenizerJson, SplitsAtAnyRegularExpression) {
  const auto split = [](const char* expression) {
    return Json{{"type", "Split"},
                {"pattern", {{"Regex", expression}}},
                {"behavior", "Isolated"},
                {"invert", false}};
  };
  Json json = small();
  json["model"]["vocab"]["34"] = 262;
  json["model"]["vocab"][".\u010a"] = 263;  // and a line end
  json["model"]["vocab"]["=a"] = 264;
  for (const char* const merge : {"3 4", ". \u010a", "= a"})
    json["model"]["merges"].push_back(merge);
  const std::string text = "1234a=a.\n ab\u4e00=a";
  EXPECT_EQ(made(json)->encode(text),
            (Ids{'1', '2', 262, 'a', '=', 'a', '.', '\n', ' ', 256, 0xE4, 0xB8, 0x80, '=', 'a'}));
  json["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {split("\\p{N}{1,3}"), split("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"),
        split("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?"
              "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"),
        Json{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
  const auto tokenizer = made(json);
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->encode(text),
            (Ids{'1', '2', '3', '4', 'a', 264, 263, ' ', 256, 0xE4, 0xB8, 0x80, 264}));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
}

// Files of InternLM2 list "<|im_start|>" with the id of a reserved piece of the vocabulary.
TEST(TokenizerJson, AnAddedTokenTakesTheIdOfAnotherToken) {
  const auto added = [](int id, const char* content, bool special) {
    return Json{{"id", id}, {"content", content}, {"special", special}};
  };
  Json json = small();
  json["model"]["vocab"]["[UNUSED_1]"] = 262;
  json["added_tokens"].push_back(added(262, "<|im_start|>", true));
  json["added_tokens"].push_back(added(263, "<|im_end|>", true));
  // Also where the vocabulary has both.
  json["model"]["vocab"]["[UNUSED_2]"] = 263;
  json["model"]["vocab"]["<|im_end|>"] = 263;
  for (const bool special : {true, false}) {
    json["added_tokens"][2]["special"] = special;
    const auto tokenizer = made(json);
    ASSERT_NE(tokenizer, nullptr);
    EXPECT_EQ(tokenizer->encode("a<|im_start|>b<|im_end|>", {.parse_special = true}),
              (Ids{'a', 262, 'b', 263}));
    EXPECT_EQ(tokenizer->name_of(262), "<|im_start|>");
    EXPECT_EQ(tokenizer->name_of(263), "<|im_end|>");
    EXPECT_EQ(tokenizer->decode(Ids{'a', 262}), special ? "a" : "a<|im_start|>");
    EXPECT_EQ(tokenizer->encode("[UNUSED_1]").size(), 10u);
  }
  const auto with = [&](const char* name, int id, bool special) {
    Json other = small();
    other["model"]["vocab"][name] = id;
    other["added_tokens"].push_back(added(id, "<x>", special));
    return other;
  };
  EXPECT_THAT(refusal(with("ab", 256, true)),
              HasSubstr("a merge needs 'ab', whose id the added token '<x>' has"));
  EXPECT_THAT(refusal(with("a", 'a', true)), HasSubstr("text needs 'a', whose id"));
  Json whole_words = with("[UNUSED_1]", 262, false);
  whole_words["model"]["ignore_merges"] = true;
  EXPECT_THAT(refusal(whole_words), HasSubstr("text needs '[UNUSED_1]'"));
  Json twice = small();
  twice["added_tokens"].push_back(added(261, "<x>", false));
  EXPECT_THAT(refusal(twice), HasSubstr("two tokens have id 261"));
}

// Where the end of the blanks were looked for at each of them this would take minutes.
TEST(TokenizerJson, ATokenOfABlankThatTakesBlanksBehindItDoesNotTakeTheSquareOfATime) {
  Json json = small();
  json["added_tokens"] = {{{"id", 260}, {"content", " "}, {"rstrip", true}, {"normalized", false}}};
  const auto tokenizer = made(json);
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->encode("a   b c"), (Ids{'a', 260, 260, 260, 'b', 260, 'c'}));
  EXPECT_EQ(tokenizer->encode(std::string(2'000'000, ' ')).size(), 2'000'000u);
}

TEST(TokenizerJson, NestingHasAnEnd) {
  for (const auto& [part, list] :
       {std::pair("normalizer", "normalizers"), std::pair("pre_tokenizer", "pretokenizers"),
        std::pair("decoder", "decoders"), std::pair("post_processor", "processors")}) {
    Json nested = {{"type", "ByteLevel"}};
    for (int i = 0; i < 200; ++i) nested = {{"type", "Sequence"}, {list, {nested}}};
    Json json = small();
    json[part] = nested;
    EXPECT_THAT(refusal(json), HasSubstr("deep")) << part;
  }
}

TEST(TokenizerJson, RefusesDamage) {
  const auto changed = [](auto change) {
    Json json = small();
    change(json);
    return refusal(json);
  };
  EXPECT_THAT(changed([](Json& j) { j["model"]["vocab"]["x y"] = -1; }), HasSubstr("range"));
  EXPECT_THAT(changed([](Json& j) { j["model"]["vocab"]["zz"] = 5; }), HasSubstr("two tokens"));
  EXPECT_THAT(changed([](Json& j) { j["added_tokens"][1]["content"] = "ab"; }),
              HasSubstr("the added token 261 is token 256 too"));
  EXPECT_THAT(changed([](Json& j) { j["model"]["vocab"].erase("a"); }), HasSubstr("merge"));
  EXPECT_THAT(changed([](Json& j) { j["model"]["vocab"].erase("q"); }), HasSubstr("byte 113"));
  EXPECT_THAT(changed([](Json& j) { j["model"]["merges"] = {"ab"}; }), HasSubstr("merge"));
  EXPECT_THAT(changed([](Json& j) { j["model"].erase("vocab"); }), HasSubstr("vocab"));
  EXPECT_THAT(parsed("{\"model\": ").failure().message, HasSubstr("JSON"));
}

}  // namespace
}  // namespace llmc::hosted
