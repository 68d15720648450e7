// What stands beside a tokenizer.json or a tokenizer.model: added tokens, and what begins and ends
// a text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "runtime/hosted/tokenizer/json_parts.h"
#include "runtime/hosted/tokenizer/spec.h"
#include "tests/runtime/hosted/shared_files.h"

namespace llmc::hosted {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<std::int32_t>;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Pieces "a" "b" "ab", and the other pieces of real vocabularies.
const char* const kJson = R"({
  "added_tokens": [{"id": 0, "content": "<unk>", "special": true},
                   {"id": 1, "content": "<s>", "special": true},
                   {"id": 2, "content": "</s>", "special": true}],
  "pre_tokenizer": {"type": "Metaspace", "prepend_scheme": "never"},
  "decoder": {"type": "Metaspace", "prepend_scheme": "never"},
  "post_processor": {"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}],
    "special_tokens": {"<s>": {"ids": [1]}}},
  "model": {"type": "BPE", "unk_token": "<unk>",
    "vocab": {"<unk>": 0, "<s>": 1, "</s>": 2, "a": 3, "b": 4, "ab": 5},
    "merges": ["a b"]}})";

Outcome<std::unique_ptr<Tokenizer>> of_json(const SiblingFiles& siblings) {
  const auto spec = read_tokenizer_json(kJson, siblings, "t.json");
  if (!spec) return spec.failure();
  return make_tokenizer(*spec, "t.json");
}

/// The shipped model's: 1100 tokens, <s> 1 and </s> 2.
std::string trained() {
  return content_of(fs::path(LLMC_SOURCE_DIR) / "models/tinyfable/tokenizer.model");
}
Outcome<std::unique_ptr<Tokenizer>> of_model(const SiblingFiles& siblings) {
  const auto spec = read_sentencepiece_model(trained(), siblings, "t.model");
  if (!spec) return spec.failure();
  return make_tokenizer(*spec, "t.model");
}

using Reader = Outcome<std::unique_ptr<Tokenizer>> (*)(const SiblingFiles&);
std::unique_ptr<Tokenizer> made(Reader reader, const SiblingFiles& siblings) {
  auto tokenizer = reader(siblings);
  EXPECT_TRUE(tokenizer.ok()) << (tokenizer.ok() ? "" : tokenizer.failure().message);
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}
std::string refusal(Reader reader, const SiblingFiles& siblings) {
  const auto tokenizer = reader(siblings);
  return tokenizer.ok() ? "none" : tokenizer.failure().message;
}

constexpr EncodeOptions kSpecial{.parse_special = true};

const char* const kTurns = R"({
  "bos_token": "<s>", "eos_token": {"content": "<|end|>"},
  "added_tokens_decoder": {
    "1": {"content": "<s>", "special": true},
    "1101": {"content": "<|end|>", "special": true, "rstrip": true},
    "1100": {"content": "<|turn|>", "special": true},
    "1105": {"content": "<tool>", "special": false}}})";

TEST(TokenizerConfig, AModelHasTheTokensThatWereAdded) {
  const auto plain = made(of_model, {});
  const auto t = made(of_model, {.config = kTurns});
  ASSERT_TRUE(plain && t);
  EXPECT_EQ(t->size(), 1106u);
  const Ids fox = plain->encode("The fox", {.add_prefix = false});
  Ids expected = {1, 1100};
  expected.insert(expected.end(), fox.begin(), fox.end());
  expected.insert(expected.end(), {1101, 1105});
  EXPECT_EQ(t->encode("<|turn|>The fox<|end|> \n<tool>", kSpecial), expected);
  EXPECT_GT(t->encode("<|turn|>").size(), 3u) << "text, unless asked for";
  EXPECT_EQ(t->encode("<tool>", {.add_prefix = false}), (Ids{1105})) << "no control token";
  EXPECT_EQ(t->decode(Ids{1100, 1105, 1103}), "<tool>");
  EXPECT_THAT(t->special_ids().special, ElementsAre(1, 2, 1100, 1101));
  EXPECT_THAT(t->stop_ids(), ElementsAre(2, 1101));
  EXPECT_EQ(t->encode("The fox"), plain->encode("The fox"));
}

TEST(TokenizerConfig, AddedTokensJsonCountsWhereTheConfigListsNone) {
  const SiblingFiles siblings{
      .config = R"({"eos_token": "<|im_end|>"})",
      .added = R"({"<|im_start|>": 1100, "<|im_end|>": 1101, "<x>": 1102})",
      .special = R"({"bos_token": "<s>", "additional_special_tokens": ["<|im_start|>"]})"};
  const auto t = made(of_model, siblings);
  ASSERT_TRUE(t);
  EXPECT_EQ(t->encode("<|im_start|><|im_end|>", kSpecial), (Ids{1, 1100, 1101}));
  EXPECT_EQ(t->encode("<x>", {.add_prefix = false}), (Ids{1102}));
  EXPECT_THAT(t->stop_ids(), ElementsAre(2, 1101));
  SiblingFiles listed = siblings;
  listed.config = R"({"added_tokens_decoder": {}})";
  EXPECT_EQ(made(of_model, listed)->size(), 1100u);
}

TEST(TokenizerConfig, TheSpecialTokensMapCountsBeforeAConfigWithoutAList) {
  SiblingFiles siblings{.config = R"({"eos_token": "ab"})", .special = R"({"eos_token": "</s>"})"};
  EXPECT_THAT(made(of_json, siblings)->stop_ids(), ElementsAre(2));
  siblings.special = "{}";
  EXPECT_THAT(made(of_json, siblings)->stop_ids(), ElementsAre(5));
  siblings = {.config = R"({"eos_token": "ab", "added_tokens_decoder": {}})",
              .special = R"({"eos_token": "</s>"})"};
  EXPECT_THAT(made(of_json, siblings)->stop_ids(), ElementsAre(5));
  siblings.config = R"({"added_tokens_decoder": {}})";
  EXPECT_THAT(made(of_json, siblings)->stop_ids(), ElementsAre(2));
}

TEST(TokenizerConfig, AControlPieceListedAsNoneIsText) {
  const auto config = [](const char* eos) {
    return SiblingFiles{.config = std::string(R"({"eos_token": ")") + eos + R"(",
        "added_tokens_decoder": {
          "1": {"content": "<s>", "special": true},
          "2": {"content": "</s>", "special": false, "rstrip": true},
          "1100": {"content": "<|endoftext|>", "special": true}}})"};
  };
  const auto t = made(of_model, config("<|endoftext|>"));  // as Phi-3's
  ASSERT_TRUE(t);
  EXPECT_THAT(t->special_ids().special, ElementsAre(1, 1100));
  EXPECT_THAT(t->stop_ids(), ElementsAre(2, 1100)) << "still ends a text";
  EXPECT_EQ(t->encode("</s> \n</s>", {.add_prefix = false}), (Ids{2, 2}));
  EXPECT_EQ(t->decode(Ids{2, 1100}), "</s>");
  // Its name makes it a control token; its settings of blanks apply too.
  const auto named = made(of_model, config("</s>"));
  ASSERT_TRUE(named);
  EXPECT_THAT(named->special_ids().special, ElementsAre(1, 2, 1100));
  EXPECT_GT(named->encode("</s>", {.add_prefix = false}).size(), 1u);
  EXPECT_EQ(named->encode("</s> \n</s>", kSpecial), (Ids{1, 2, 2}));
  EXPECT_EQ(named->decode(Ids{2}), "");
}

TEST(TokenizerConfig, SparePiecesTakeAName) {
  // Spelled anew, as vocabularies with room for later tokens have it; others stay what they are.
  const auto t = made(of_model, {.config = R"({"added_tokens_decoder": {
      "2": {"content": "<|done|>", "special": true}}})"});
  ASSERT_TRUE(t);
  EXPECT_EQ(t->name_of(2), "<|done|>");
  EXPECT_EQ(t->encode("<|done|>", kSpecial), (Ids{1, 2}));
  EXPECT_THAT(refusal(of_model, {.config = R"({"added_tokens_decoder": {
      "259": {"content": "<|done|>", "special": true}}})"}),
              HasSubstr("tokenizer_config.json says that token 259 is '<|done|>', but here that "
                        "one is 'he'"));
  EXPECT_THAT(refusal(of_model, {.added = R"({"he": 1100})"}),
              HasSubstr("added_tokens.json says that token 1100 is 'he', but here that is token "
                        "259"));
  EXPECT_THAT(refusal(of_model, {.added = R"({"x": 9999999})"}), HasSubstr("1100 tokens"));
}

TEST(TokenizerConfig, AJsonHasTheTokensThatItLacks) {
  const auto t = made(of_json, {.config = R"({"eos_token": "<|end|>", "added_tokens_decoder": {
      "2": {"content": "</s>", "special": true}, "6": {"content": "<|end|>", "special": true}}})"});
  ASSERT_TRUE(t);
  EXPECT_EQ(t->encode("ab<|end|></s>", kSpecial), (Ids{1, 5, 6, 2}));
  EXPECT_THAT(t->stop_ids(), ElementsAre(6));
  const auto config = [](const char* id, const char* text) {
    return SiblingFiles{.config = std::string(R"({"added_tokens_decoder": {")") + id +
                                  R"(": {"content": ")" + text + R"("}}})"};
  };
  EXPECT_THAT(refusal(of_json, config("7", "</s>")), HasSubstr("here that is token 2"));
  EXPECT_THAT(refusal(of_json, config("2", "<x>")), HasSubstr("here that one is '</s>'"));
  EXPECT_THAT(refusal(of_json, config("7", "ab")), HasSubstr("here that is token 5"));
  EXPECT_THAT(refusal(of_json, config("5", "<x>")),
              HasSubstr("a merge needs 'ab', whose id the added token '<x>' has"));
  // Ids in between take memory, whatever the file's own size.
  EXPECT_THAT(refusal(of_json, config("16777215", "x")), HasSubstr("here there are 6 tokens"));
  EXPECT_THAT(refusal(of_json, config("65542", "x")), HasSubstr("here there are 6 tokens"));
}

TEST(TokenizerConfig, SaysWhatBeginsAndEndsAText) {
  const auto both = [](bool bos, bool eos) {
    return SiblingFiles{.config = std::string(R"({"bos_token": "<s>", "eos_token": "</s>",
        "add_bos_token": )") + (bos ? "true" : "false") +
                                  R"(, "add_eos_token": )" + (eos ? "true" : "false") + "}"};
  };
  for (const Reader reader : {of_json, of_model}) {
    for (const bool bos : {false, true}) {
      for (const bool eos : {false, true}) {
        const auto t = made(reader, both(bos, eos));
        ASSERT_TRUE(t);
        EXPECT_EQ(t->special_ids().prefix, bos ? Ids{1} : Ids{}) << bos << eos;
        EXPECT_EQ(t->special_ids().suffix, eos ? Ids{2} : Ids{}) << bos << eos;
      }
    }
    // Not set: the file's own setting.
    EXPECT_THAT(made(reader, {})->special_ids().prefix, ElementsAre(1));
    EXPECT_THAT(made(reader, {.config = R"({"add_bos_token": null})"})->special_ids().prefix,
                ElementsAre(1));
    EXPECT_THAT(refusal(reader, {.config = R"({"add_bos_token": "yes"})"}),
                HasSubstr("'add_bos_token' is not a boolean"));
    EXPECT_THAT(refusal(reader, {.config = R"({"add_bos_token": true, "bos_token": "<none>"})"}),
                HasSubstr("there is no token '<none>'"));
    EXPECT_THAT(refusal(reader, {.config = "[]"}),
                HasSubstr("tokenizer_config.json is not a JSON object"));
    EXPECT_THAT(refusal(reader, {.config = R"({"added_tokens_decoder": {"x": {}}})"}),
                HasSubstr("has the id 'x'"));
    EXPECT_THAT(refusal(reader, {.config = R"({"added_tokens_decoder": {"7": {}}})"}),
                HasSubstr("token 7 has no content"));
    EXPECT_THAT(refusal(reader, {.added = R"({"a": 1100, "b": 1100})"}),
                HasSubstr("two tokens have id 1100"));
  }
  // Without its name it is the vocabulary's own.
  EXPECT_TRUE(
      made(of_model, {.config = R"({"add_bos_token": false})"})->special_ids().prefix.empty());
}

/// Unique among concurrent runs of these tests.
fs::path folder_for(const char* test) {
  return fs::path(::testing::TempDir()) /
         ("llmc-tokenizer-config-" + std::to_string(getpid()) + test);
}

TEST(TokenizerConfig, SiblingFilesAreThoseOfTheTokenizersKind) {
  const fs::path folder = folder_for("kinds");
  fs::create_directories(folder);
  const auto siblings = [&](const char* name, const std::string& content) {
    std::ofstream(folder / name, std::ios::binary) << content;
    std::vector<std::string> names;
    for (const fs::path& file : Tokenizer::sibling_files(folder / name))
      names.push_back(file.filename().string());
    return names;
  };
  const auto of_hugging_face =
      ElementsAre("tokenizer_config.json", "added_tokens.json", "special_tokens_map.json");
  EXPECT_THAT(siblings("tokenizer.json", kJson), of_hugging_face);
  EXPECT_THAT(siblings("tokenizer.model", trained()), of_hugging_face);
  EXPECT_THAT(siblings("x.tiktoken", "YQ== 0\n"), ElementsAre("x.tiktoken.json"));
  EXPECT_THAT(siblings("tokenizer.txt", "430 1\n"), ElementsAre());
  const auto tables = made(of_json, {});
  ASSERT_TRUE(tables);
  const auto bytes = tables->tables();
  EXPECT_THAT(
      siblings("t.tokenizer.bin", {reinterpret_cast<const char*>(bytes.data()), bytes.size()}),
      ElementsAre());
  EXPECT_TRUE(Tokenizer::sibling_files(folder / "nothing").empty());
  fs::remove_all(folder);
}

TEST(TokenizerConfig, FilesAreReadWhereTheTokenizerIs) {
  const fs::path folder = folder_for("read");
  fs::create_directories(folder);
  const auto write = [&](const char* name, const std::string& content) {
    std::ofstream(folder / name, std::ios::binary) << content;
  };
  write("tokenizer.model", trained());
  write("tokenizer_config.json", kTurns);
  auto t = Tokenizer::load(folder / "tokenizer.model");
  ASSERT_TRUE(t.ok()) << t.failure().message;
  EXPECT_EQ((*t)->size(), 1106u);
  write("tokenizer_config.json", "{");
  t = Tokenizer::load(folder / "tokenizer.model");
  ASSERT_FALSE(t.ok());
  EXPECT_THAT(t.failure().message, HasSubstr("tokenizer_config.json is not a JSON object"));
  fs::remove_all(folder);
}

}  // namespace
}  // namespace llmc::hosted
