#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/hosted/tokenizer.h"
#include "runtime/hosted/tokenizer/json_parts.h"
#include "tests/runtime/hosted/base64.h"
#include "tests/runtime/hosted/shared_files.h"

/// tiktoken's lists, and MNN's tokenizer.txt of types 2 and 3.
namespace llmc::hosted {
namespace {

using Ids = std::vector<std::int32_t>;
using testing::HasSubstr;

/// Bytes are ids 0 … 255; "ab" 256, "abc" 257, " a" 258.
std::string list() {
  std::string text;
  for (unsigned byte = 0; byte < 256; ++byte)
    text += base64(std::string(1, static_cast<char>(byte))) + " " + std::to_string(byte) + "\n";
  return text + "YWI= 256\nYWJj 257\nIGE= 258\n";
}

std::unique_ptr<Tokenizer> made(const Outcome<TokenizerSpec>& spec) {
  EXPECT_TRUE(spec.ok()) << (spec.ok() ? "" : spec.failure().message);
  if (!spec) return nullptr;
  auto tokenizer = make_tokenizer(*spec, "t");
  EXPECT_TRUE(tokenizer.ok()) << (tokenizer.ok() ? "" : tokenizer.failure().message);
  return tokenizer ? std::move(*tokenizer) : nullptr;
}

TEST(Tiktoken, ReadsAListWithItsSettings) {
  const auto t = made(read_tiktoken(list(),
                                    R"({"pattern": "llama3", "special": {"<b>": 260, "<e>": 261},
                                        "prefix": ["<b>"], "stop": ["<e>"]})",
                                    "t.tiktoken"));
  ASSERT_NE(t, nullptr);
  EXPECT_EQ(t->size(), 262u);
  EXPECT_EQ(t->encode("abc ab a"), (Ids{260, 257, ' ', 256, 258}));
  EXPECT_EQ(t->encode("abcc<e>", {.add_prefix = false, .parse_special = true}),
            (Ids{257, 'c', 261}));
  EXPECT_TRUE(t->is_stop(261));
  EXPECT_EQ(t->decode(Ids{260, 257, 258, 259, 261}), "abc a");
}

TEST(Tiktoken, KnowsItsEncodingsByName) {
  const auto t = made(read_tiktoken(list(), "", "/x/r50k_base.tiktoken"));
  ASSERT_NE(t, nullptr);
  EXPECT_EQ(t->encode("<|endoftext|>", {.parse_special = true}), (Ids{50256}));
}

TEST(Tiktoken, RefusesWhatItIsNotTold) {
  const auto problem = [](const std::string& content, const char* settings) {
    const auto spec = read_tiktoken(content, settings, "t.tiktoken");
    return spec.ok() ? std::string() : spec.failure().message;
  };
  EXPECT_THAT(problem(list(), ""), HasSubstr("does not define how text is split"));
  EXPECT_THAT(problem(list(), R"({"pattern": "mine"})"), HasSubstr("'mine' is not supported"));
  EXPECT_THAT(problem(list() + "YWI= 256\n", R"({"pattern": "gpt2"})"), HasSubstr("line 260"));
  EXPECT_THAT(problem(list() + "YWI= 99999999999\n", R"({"pattern": "gpt2"})"),
              HasSubstr("out of range"));
  EXPECT_THAT(problem(list() + "YWI=\n", R"({"pattern": "gpt2"})"), HasSubstr("line 260"));
  EXPECT_THAT(problem("YQ== 0\n", R"({"pattern": "gpt2"})"), HasSubstr("byte 0 has no token"));
  EXPECT_THAT(problem(list(), R"({"pattern": "gpt2", "special": {"<e>": 5}})"),
              HasSubstr("'<e>' has no id of its own"));
  EXPECT_THAT(problem(list(), R"({"pattern": "gpt2", "stop": ["<e>"]})"), HasSubstr("stop"));
  EXPECT_THAT(problem(list(), R"({"pattern": "gpt2", "special": [260, 261]})"),
              HasSubstr("\"special\" is not an object"));
}

Json golden_base() {
  const Json file = Json::parse(content_of(std::filesystem::path(LLMC_SOURCE_DIR) /
                                           "tests/runtime/hosted/golden/tokenizer_json.json"));
  return file["base"];
}

TEST(TokenizerText, TypeThreeIsQwens) {
  Json json = golden_base();
  const Json& vocabulary = json["model"]["vocab"];
  std::vector<std::string> tokens(vocabulary.size());
  for (const auto& [spelling, id] : vocabulary.items()) tokens[id.get<std::size_t>()] = spelling;
  std::string text = "430 3\n1 1 0\n" + std::to_string(tokens.size()) + " " +
                     std::to_string(tokens.size()) + " \n" + std::to_string(tokens.size() + 1) +
                     " " + std::to_string(json["model"]["merges"].size() + 1) + "\n";
  for (const std::string& token : tokens) text += token + "\n";
  text += "<|im_end|>\n#version: 0.2\n";
  for (const Json& merge : json["model"]["merges"])
    text += merge[0].get<std::string>() + " " + merge[1].get<std::string>() + "\n";
  auto mnn = Tokenizer::parse(text, "tokenizer.txt");
  ASSERT_TRUE(mnn.ok()) << mnn.failure().message;
  json["normalizer"] = {{"type", "NFC"}};
  json["pre_tokenizer"] = Json::parse(R"js({"type": "Sequence", "pretokenizers": [
      {"type": "Split", "behavior": "Isolated", "invert": false, "pattern": {"Regex":
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
      {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})js");
  auto qwen = Tokenizer::parse(json.dump(), "tokenizer.json");
  ASSERT_TRUE(qwen.ok()) << qwen.failure().message;
  for (const char* line : {"Hello the   world's 123", "e\u0301 \u4f60\n\n x", "", "in the on"}) {
    EXPECT_EQ((*mnn)->encode(line), (*qwen)->encode(line)) << line;
    EXPECT_EQ((*mnn)->decode((*mnn)->encode("in the")), "in the");
  }
  const auto end = static_cast<std::int32_t>(tokens.size());
  EXPECT_EQ((*mnn)->encode("a<|im_end|>", {.parse_special = true}).back(), end);
  EXPECT_TRUE((*mnn)->is_stop(end));
}

TEST(TokenizerFiles, ThatAreSomethingElseAreNamed) {
  const auto refusal = [](const char* content, const char* name) {
    const auto made = Tokenizer::parse(content, name);
    return made.ok() ? std::string() : made.failure().message;
  };
  EXPECT_EQ(refusal("<!DOCTYPE html>", "tokenizer.json"),
            "tokenizer.json: is not valid JSON, or cut short");
  EXPECT_EQ(refusal(R"({"model": )", "tokenizer.json"),
            "tokenizer.json: is not valid JSON, or cut short");
  EXPECT_EQ(refusal("[]", "tokenizer.json"), "tokenizer.json: is not a JSON object");
  for (const char* name : {"tokenizer.json", "tokenizer.model"})
    EXPECT_THAT(refusal("version https://git-lfs.github.com/spec/v1\noid sha256:0\n", name),
                ::testing::EndsWith(": is a Git LFS pointer, not the file itself; git lfs pull "
                                    "fetches it"));
}

TEST(TokenizerText, TypeTwoIsBerts) {
  std::string text = "430 2\n3 1 1\n0 1 2 2 1 \n10\n";
  for (const char* token :
       {"[UNK]", "[CLS]", "[SEP]", "hello", "world", "##s", ".", "cafe", "\u4f60", "##lo"})
    text += base64(token) + "\n";
  auto bert = Tokenizer::parse(text, "tokenizer.txt");
  ASSERT_TRUE(bert.ok()) << bert.failure().message;
  const Tokenizer& t = **bert;
  EXPECT_EQ(t.encode("Hello  worlds."), (Ids{1, 3, 4, 5, 6}));
  EXPECT_EQ(t.encode("Caf\u00e9 \u4f60\u4f60 xyz", {.add_prefix = false}), (Ids{7, 8, 8, 0}));
  EXPECT_EQ(t.decode(Ids{1, 3, 4, 5, 6, 2}), "hello worlds.");
  // A capital in the vocabulary: text keeps its own.
  auto cased = Tokenizer::parse("430 2\n0 0 0\n\n3\n" + base64("[UNK]") + "\n" + base64("Hello") +
                                    "\n" + base64("hello") + "\n",
                                "tokenizer.txt");
  ASSERT_TRUE(cased.ok());
  EXPECT_EQ((*cased)->encode("Hello hello HELLO"), (Ids{1, 2, 0}));
}

}  // namespace
}  // namespace llmc::hosted
