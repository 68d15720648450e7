#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "runtime/hosted/tokenizer.h"
#include "runtime/hosted/tokenizer/json_parts.h"
#include "tests/runtime/hosted/shared_files.h"

/// Small and damaged tokenizer files, written here.
namespace llmc::hosted {
namespace {

using testing::HasSubstr;
using Ids = std::vector<std::int32_t>;

std::string problem_of(const std::string& content) {
  auto tokenizer = Tokenizer::parse(content, "t.txt");
  if (tokenizer.ok()) return "none";
  EXPECT_EQ(tokenizer.failure().status, LLMC_ERROR_FORMAT);
  return tokenizer.failure().message;
}

// <unk>, <s>, </s>, "▁", "a", "b", "ab", "▁ab"
const std::string kPieces =
    "PHVuaz4= 0 2\nPHM+ 0 3\nPC9zPg== 0 3\n4paB -1 1\nYQ== -2 1\nYg== -3 1\nYWI= -4 1\n"
    "4paBYWI= -5 1\n";
const std::string kGood = "430 0\n2 1 1\n1 2 2 1\n8\n" + kPieces;

TEST(TokenizerText, SmallVocabulary) {
  auto loaded = Tokenizer::parse(kGood, "t.txt");
  ASSERT_TRUE(loaded.ok()) << loaded.failure().message;
  const Tokenizer& t = **loaded;
  EXPECT_EQ(t.size(), 8u);
  EXPECT_EQ(t.encode("ab"), (Ids{1, 7}));
  EXPECT_EQ(t.encode("ba ab", {.add_prefix = false}), (Ids{3, 5, 4, 7}));
  // No byte tokens: a run of unknown characters is one unknown token.
  EXPECT_EQ(t.encode("axyb", {.add_prefix = false}), (Ids{3, 4, 0, 5}));
  EXPECT_EQ(t.decode(Ids{1, 7, 3, 5, 2}), "ab b");
  EXPECT_EQ(t.decode(Ids{-1, 8, INT32_MAX, INT32_MIN}), "");
  EXPECT_EQ(t.name_of(2), "</s>");
  EXPECT_EQ(t.name_of(99), "");
  EXPECT_THAT(t.stop_ids(), testing::ElementsAre(2));

  StreamDecoder middle(t);  // goes on after a prompt: the space stays
  EXPECT_EQ(middle.add(7), " ab");
  EXPECT_EQ(middle.finish(), "");
}

TEST(TokenizerText, WindowsLineEndsAndMissingLastOne) {
  std::string crlf;
  for (const char c : kGood) crlf += c == '\n' ? std::string("\r\n") : std::string(1, c);
  EXPECT_EQ(problem_of(crlf), "none");
  EXPECT_EQ(problem_of(kGood.substr(0, kGood.size() - 1)), "none");
  EXPECT_EQ(problem_of(kGood + "\n\n"), "none");
}

TEST(TokenizerText, ScoresThatAreNoRanksMeanUnigram) {
  // "▁ab" costs 9.5, "▁" + "ab" 4.6: the best sum wins, not the longest piece.
  const std::string pieces =
      "PHVuaz4= 0 2\n4paB -2.5 1\nYQ== -3.5 1\nYg== -3.5 1\nYWI= -2.1 1\n4paBYWI= -9.5 1\n";
  auto t = Tokenizer::parse("430 0\n0 0 0\n\n6\n" + pieces, "t.txt");
  ASSERT_TRUE(t.ok()) << t.failure().message;
  EXPECT_EQ((*t)->encode("ab"), (Ids{1, 4}));
  EXPECT_EQ((*t)->bos(), std::nullopt);
}

TEST(TokenizerText, DamagedFilesAreRefusedWithTheLine) {
  EXPECT_THAT(problem_of("430 0"), HasSubstr("t.txt: line 1"));
  EXPECT_THAT(problem_of("430 x\n"), HasSubstr("expected '430 TYPE'"));
  EXPECT_THAT(problem_of("430 4\n0 0 0\n\n0\n"), HasSubstr("not 4"));
  EXPECT_THAT(problem_of("430 2\n0 0 0\n\n1\nYQ==\n"), HasSubstr("without [UNK]"));
  EXPECT_THAT(problem_of("430 3\n0 0 0\n\n1\na\n"),
              HasSubstr("the numbers of tokens and of merges"));
  EXPECT_THAT(problem_of("430 3\n0 0 0\n\n1 9999999999\na\n"), HasSubstr("cannot hold them"));
  EXPECT_THAT(problem_of("430 3\n0 0 0\n\n1 2\na\na a\n"), HasSubstr("line 6: a merge is not"));
  EXPECT_THAT(problem_of("430 3\n0 0 0\n\n1 0\na\n"), HasSubstr("byte 0 has no token"));
  EXPECT_THAT(problem_of("430 99999999999999999999\n"), HasSubstr("expected '430 TYPE'"));
  EXPECT_THAT(problem_of("430 0\n1 1\n1 2\n"), HasSubstr("line 2: expected the numbers"));
  EXPECT_THAT(problem_of("430 0\n2 1 1\n1 2 2\n"),
              HasSubstr("line 3: the number of special, stop and prefix ids"));
  EXPECT_THAT(problem_of("430 0\n1 1 1\n1 2 2 1\n"),
              HasSubstr("line 3: the number of special, stop and prefix ids"));
  EXPECT_THAT(problem_of("430 0\n18446744073709551615 0 0\n1\n8\n"), HasSubstr("line 3"));
  EXPECT_THAT(problem_of("430 0\n1 0 0\n-1\n8\n" + kPieces), HasSubstr("line 3"));
  EXPECT_THAT(problem_of("430 0\n1 0 0\n8\n8\n" + kPieces), HasSubstr("id 8 is listed as special"));
  EXPECT_THAT(problem_of("430 0\n0 0 0\n\n0\n"), HasSubstr("line 4"));
  EXPECT_THAT(problem_of("430 0\n0 0 0\n\n-8\n"), HasSubstr("expected the number of tokens"));
  EXPECT_THAT(problem_of("430 0\n0 0 0\n\n4294967297\n" + kPieces), HasSubstr("cannot hold them"));
  EXPECT_THAT(problem_of("430 0\n0 0 0\n\n9\n" + kPieces), HasSubstr("9 tokens are announced, 8"));
  EXPECT_THAT(problem_of("430 0\n0 0 0\n\n7\n" + kPieces), HasSubstr("more lines"));
  const auto with_piece = [](const std::string& line) {
    return problem_of("430 0\n0 0 0\n\n9\n" + kPieces + line + "\n");
  };
  EXPECT_THAT(with_piece("YQ= 0 1"), HasSubstr("line 13: a token is not valid base64"));
  EXPECT_THAT(with_piece("$(touch x) 0 1"), HasSubstr("not valid base64"));
  EXPECT_THAT(with_piece("YQ== nan 1"), HasSubstr("score"));
  EXPECT_THAT(with_piece("YQ== 1e99 1"), HasSubstr("score"));
  EXPECT_THAT(with_piece("YQ== 0 7"), HasSubstr("type is not 1 to 6"));
  EXPECT_THAT(with_piece("YQ== 0"), HasSubstr("type is not 1 to 6"));
  EXPECT_THAT(with_piece("YQ== 0 1 1"), HasSubstr("type is not 1 to 6"));
  EXPECT_THAT(with_piece("YQ== 0 2"), HasSubstr("two unknown tokens"));
  EXPECT_THAT(with_piece("YQ== 0 6"), HasSubstr("token 8 is a byte without being <0xNN>"));
  EXPECT_THAT(problem_of("430 0\n0 0 0\n\n1\nYQ== 0 1\n"), HasSubstr("neither an unknown token"));
  EXPECT_THAT(problem_of("430 1\n0 0 0\n\n1\nYQ==\n"), HasSubstr("byte 0 has no token"));
  EXPECT_THAT(problem_of("430 1\n0 0 0\n\n1\nYQ== 0\n"), HasSubstr("not valid base64"));
}

TEST(TokenizerText, OtherFilesAreNoTokenizers) {
  EXPECT_THAT(problem_of("{\"version\": 1}"), HasSubstr("not supported"));
  EXPECT_THAT(problem_of(""), HasSubstr("no tokens"));
  auto missing = Tokenizer::load("/nonexistent/tokenizer.txt");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.failure().status, LLMC_ERROR_FILE);
  EXPECT_THAT(missing.failure().message, HasSubstr("/nonexistent/tokenizer.txt: cannot open"));
  EXPECT_EQ(Tokenizer::load("/").failure().status, LLMC_ERROR_FILE);
  EXPECT_EQ(Tokenizer::load("/dev/null").failure().status, LLMC_ERROR_FILE);
}

TEST(TokenizerText, AnyDamageIsAnErrorOrATokenizer) {
  // Every cut and many changed bytes: an error with a message, or a tokenizer whose ids are tokens
  // of its own. Both happen.
  int refused = 0, loaded = 0;
  const auto survives = [&](const std::string& content) {
    auto t = Tokenizer::parse(content, "t");
    ++(t.ok() ? loaded : refused);
    if (!t.ok()) {
      EXPECT_EQ(t.failure().status, LLMC_ERROR_FORMAT);
      EXPECT_THAT(t.failure().message, HasSubstr("t"));
      return;
    }
    const Ids ids = (*t)->encode("ab \xff\u2581 abba", {.parse_special = true});
    (*t)->decode(ids);
    for (const std::int32_t id : ids)
      EXPECT_TRUE(id >= 0 && static_cast<std::uint32_t>(id) < (*t)->size()) << id;
  };
  std::mt19937 random(5);
  std::vector<std::string> files = {kGood};
  const std::string model =
      content_of(std::filesystem::path(LLMC_SOURCE_DIR) / "models/tinyfable/tokenizer.model");
  if (!model.empty()) files.push_back(model.substr(0, 3000) + model.substr(model.size() - 600));
  const Json golden = Json::parse(content_of(std::filesystem::path(LLMC_SOURCE_DIR) /
                                             "tests/runtime/hosted/golden/tokenizer_json.json"));
  for (const char* part : {"llama", "xlm-r", "bert model", "added lower"}) {
    for (const Json& variant : golden["variants"]) {
      if (variant["name"] != part) continue;
      Json json = golden["base"];
      json.update(variant["patch"]);
      if (json["model"].is_string())
        json["model"] = golden["models"][json["model"].get<std::string>()];
      files.push_back(json.dump());
    }
  }
  for (const std::string& file : files) {
    for (std::size_t cut = 0; cut < file.size();
         cut += 1 + file.size() / (file.size() > 5000 ? 50 : 200))
      survives(file.substr(0, cut));
    for (int i = 0; i < (file.size() > 5000 ? 60 : 300); ++i) {
      std::string changed = file;
      for (int n = 0; n < 3; ++n)
        changed[random() % changed.size()] = static_cast<char>(random() & 0xFF);
      survives(changed);
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(loaded, 0);
}

}  // namespace
}  // namespace llmc::hosted
