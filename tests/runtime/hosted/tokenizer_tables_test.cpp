#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "runtime/hosted/tokenizer.h"
#include "runtime/hosted/tokenizer/base64.h"
#include "runtime/hosted/tokenizer/spec.h"
#include "runtime/hosted/tokenizer/tables.h"
#include "tests/runtime/hosted/shared_files.h"

/// Compiled tokenizers: the same as what they were made of, and no damage crashes.
namespace llmc::hosted {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using Ids = std::vector<std::int32_t>;
using Bytes = std::vector<std::byte>;

Bytes copy_of(std::span<const std::byte> bytes) {
  return {bytes.begin(), bytes.end()};
}

/// Byte-level, with marks of everything the format has.
TokenizerSpec byte_level_spec() {
  TokenizerSpec spec;
  spec.settings.units = Units::kBytes;
  for (unsigned byte = 0; byte < 256; ++byte) {
    SpecToken token;
    token.name = token.surface = std::string(1, static_cast<char>(byte));
    spec.tokens.push_back(std::move(token));
  }
  for (const char* name : {"aa", "aaaa", "ab", "<end>"}) {
    SpecToken token;
    token.name = token.surface = name;
    spec.tokens.push_back(std::move(token));
  }
  spec.tokens.back().in_model = false;
  spec.merges = {{{'a', 'a', 256}, 0}, {{256, 256, 257}, 1}, {{'a', 'b', 258}, 2}};
  spec.added = {{"<end>", 259, kAddedSpecial, false}};
  spec.normalizers = {step_of(Normalizer::kForm, 0), step_of(Normalizer::kReplace, 0, "xx", "y")};
  spec.pretokenizers = {split_step(*pattern_named("gpt2"), SplitBehavior::kIsolated)};
  find_bytes(spec);
  spec.ids = {.special = {259}, .stop = {259}, .prefix = {1}, .suffix = {2}};
  return spec;
}

TEST(TokenizerTables, OfAnAddedTokenThatIsListedTwiceTheFirstEntryCounts) {
  for (const std::uint32_t strip : {std::uint32_t{kAddedRightStrip}, 0u}) {
    TokenizerSpec spec = byte_level_spec();
    spec.added = {{"<end>", 259, kAddedSpecial | strip, false},
                  {"<end>", 259, kAddedSpecial | (kAddedRightStrip - strip), false}};
    const auto t = make_tokenizer(spec, "twice");
    ASSERT_TRUE(t.ok()) << t.failure().message;
    EXPECT_EQ((*t)->encode("<end> <end>", {.add_prefix = false, .parse_special = true}),
              strip != 0 ? (Ids{259, 259}) : (Ids{259, ' ', 259}));
  }
}

std::vector<std::unique_ptr<Tokenizer>> samples() {
  std::vector<std::unique_ptr<Tokenizer>> all;
  const auto add = [&](Outcome<std::unique_ptr<Tokenizer>> made) {
    EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.failure().message);
    if (made.ok()) all.push_back(std::move(*made));
  };
  add(make_tokenizer(byte_level_spec(), "bytes"));
  // Unigram with unused and user-defined pieces, then BPE with them.
  PieceVocabulary pieces;
  pieces.pieces = {{"<unk>", 0, PieceType::kUnknown},
                   {"<s>", 0, PieceType::kControl},
                   {"\u2581", -1.5f},
                   {"a", -2.5f},
                   {"b", -3},
                   {"ab", -4, PieceType::kUnused},
                   {"abab", -5},
                   {"<m>", 0, PieceType::kUserDefined}};
  pieces.ids.special = {1};
  for (const bool unigram : {true, false}) {
    pieces.unigram = unigram;
    const auto spec = spec_of_pieces(pieces, "pieces");
    EXPECT_TRUE(spec.ok());
    if (spec.ok()) add(make_tokenizer(*spec, "pieces"));
  }
  // "[UNK]", "a", "##a", "##b"
  add(Tokenizer::parse("430 2\n0 0 0\n\n4\nW1VOS10=\nYQ==\nIyNh\nIyNi\n", "bert"));
  return all;
}

constexpr std::string_view kText = "aaaaaaa ab <end> xx <m>abab <s> \u00e9e\u0301 \xff z";

TEST(TokenizerTables, ReadAsWhatTheyWereMadeOf) {
  for (const auto& made : samples()) {
    const Bytes tables = copy_of(made->tables());
    const auto read = Tokenizer::from_tables(tables, "tables");
    ASSERT_TRUE(read.ok()) << read.failure().message;
    const Tokenizer& t = **read;
    ASSERT_EQ(t.size(), made->size());
    for (const bool special : {false, true}) {
      const EncodeOptions options{.parse_special = special, .add_suffix = true};
      const Ids ids = made->encode(kText, options);
      EXPECT_EQ(t.encode(kText, options), ids);
      EXPECT_EQ(t.decode(ids), made->decode(ids));
    }
    for (std::int32_t id = -1; id <= static_cast<std::int32_t>(t.size()); ++id) {
      EXPECT_EQ(t.bytes_of(id), made->bytes_of(id));
      EXPECT_EQ(t.name_of(id), made->name_of(id));
    }
    EXPECT_EQ(t.special_ids().special, made->special_ids().special);
    EXPECT_EQ(t.special_ids().stop, made->special_ids().stop);
    EXPECT_EQ(t.special_ids().prefix, made->special_ids().prefix);
    EXPECT_EQ(t.leading_spaces(), made->leading_spaces());
  }
}

TEST(TokenizerTables, AreTheSameEachTime) {
  const auto once = samples(), again = samples();
  for (std::size_t i = 0; i < once.size(); ++i)
    EXPECT_EQ(copy_of(once[i]->tables()), copy_of(again[i]->tables()));
}

TEST(TokenizerTables, ByteLevelEncodes) {
  const auto made = make_tokenizer(byte_level_spec(), "bytes");
  ASSERT_TRUE(made.ok());
  const Tokenizer& t = **made;
  EXPECT_EQ(t.encode("aaaaa"), (Ids{1, 257, 'a'}));
  EXPECT_EQ(t.encode("xxab", {.add_prefix = false, .add_suffix = true}), (Ids{'y', 258, 2}));
  EXPECT_EQ(t.encode("e\u0301", {.add_prefix = false}), (Ids{0xC3, 0xA9}));
  EXPECT_EQ(t.encode("a<end>", {.add_prefix = false, .parse_special = true}), (Ids{'a', 259}));
}

TEST(TokenizerTables, AFileIsMapped) {
  const auto made = make_tokenizer(byte_level_spec(), "bytes");
  ASSERT_TRUE(made.ok());
  const fs::path path = fs::path(testing::TempDir()) / "llmc-t.tokenizer.bin";
  {
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>((*made)->tables().data()),
               static_cast<std::streamsize>((*made)->tables().size()));
  }
  const auto read = Tokenizer::load(path);
  fs::remove(path);
  ASSERT_TRUE(read.ok()) << read.failure().message;
  EXPECT_EQ((*read)->encode(kText), (*made)->encode(kText));
}

/// Makes the checksum right again.
void seal(Bytes& tables) {
  if (tables.size() < sizeof(TablesHeader)) return;
  auto* const header = reinterpret_cast<TablesHeader*>(tables.data());
  header->bytes = tables.size();
  header->checksum = table_hash({reinterpret_cast<const char*>(tables.data()) + sizeof *header,
                                 tables.size() - sizeof *header});
}

TEST(TokenizerTables, DamageIsSaid) {
  const auto made = make_tokenizer(byte_level_spec(), "bytes");
  ASSERT_TRUE(made.ok());
  const auto problem = [&](auto change) {
    Bytes tables = copy_of((*made)->tables());
    change(tables);
    const auto read = Tokenizer::from_tables(tables, "t.bin");
    return read.ok() ? std::string() : read.failure().message;
  };
  EXPECT_THAT(problem([](Bytes& t) { t.resize(40); }), HasSubstr("t.bin: is cut short"));
  EXPECT_THAT(problem([](Bytes& t) { t.pop_back(); }), HasSubstr("truncated"));
  EXPECT_THAT(problem([](Bytes& t) { t.push_back({}); }), HasSubstr("after its end"));
  EXPECT_THAT(problem([](Bytes& t) { t[0] = std::byte{0}; }),
              HasSubstr("not a compiled tokenizer"));
  EXPECT_THAT(problem([](Bytes& t) { t[8] = std::byte{99}; }), HasSubstr("format 99"));
  EXPECT_THAT(problem([](Bytes& t) { t[t.size() / 2] ^= std::byte{1}; }), HasSubstr("checksum"));
  EXPECT_THAT(problem([](Bytes& t) {
                auto* const header = reinterpret_cast<TablesHeader*>(t.data());
                header->ranges[static_cast<int>(Section::kTokens)].count = UINT64_MAX / 8;
                seal(t);
              }),
              HasSubstr("a section lies outside"));
  EXPECT_THAT(problem([](Bytes& t) {
                auto* const header = reinterpret_cast<TablesHeader*>(t.data());
                const auto& range = header->ranges[static_cast<int>(Section::kMerges)];
                auto* const merges = reinterpret_cast<MergeRecord*>(t.data() + range.offset);
                for (std::uint64_t i = 0; i < range.count; ++i)
                  if (merges[i].left != kNoNode) merges[i].result = merges[i].left;  // for ever
                seal(t);
              }),
              HasSubstr("a merge is not of two tokens"));
}

/// Word pieces of these names.
TokenizerSpec pieces_named(const std::vector<std::string>& names) {
  TokenizerSpec spec;
  spec.settings.model = ModelKind::kWordPiece;
  spec.settings.units = Units::kCharacters;
  spec.settings.unknown = 0;
  spec.settings.max_word_characters = 100;
  for (const std::string& name : names) {
    SpecToken token;
    token.name = token.surface = name;
    spec.tokens.push_back(std::move(token));
  }
  return spec;
}

TEST(TokenizerTables, AVocabularyOfOneHashIsRefused) {
  // The top bit of a word moves two bits of the hash, and those of the next word move them back.
  std::vector<std::string> names = {""};
  for (int block = 0; block < 11; ++block) {
    std::vector<std::string> longer;
    for (const std::string& name : names) {
      std::string one(16, 'a'), other(16, 'a');
      other[7] = static_cast<char>(other[7] ^ 0x80);
      other[15] = static_cast<char>(other[15] ^ 0x80);
      other[11] = static_cast<char>(other[11] ^ 0x80);
      longer.push_back(name + one);
      longer.push_back(name + other);
    }
    names = std::move(longer);
  }
  ASSERT_EQ(names.size(), 2048u);
  ASSERT_EQ(table_hash(names.front()), table_hash(names.back()));
  const auto slow = make_tables(pieces_named(names), "t");
  ASSERT_FALSE(slow.ok());
  EXPECT_THAT(slow.failure().message, HasSubstr("chosen to be slow"));
  // As many others are a vocabulary like any.
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = "word" + std::to_string(i);
  EXPECT_TRUE(make_tables(pieces_named(names), "t").ok());
}

TEST(TokenizerTables, ALongSearchInAFilesIndexIsRefused) {
  std::vector<std::string> names;
  for (int i = 0; i < 1000; ++i) names.push_back("word" + std::to_string(i));
  auto tables = make_tables(pieces_named(names), "t");
  ASSERT_TRUE(tables.ok());
  auto* const header = reinterpret_cast<TablesHeader*>(tables->data());
  const auto& range = header->ranges[static_cast<int>(Section::kVocabulary)];
  ASSERT_EQ(range.count, 2048u);
  auto* const index = reinterpret_cast<std::uint32_t*>(tables->data() + range.offset);
  // Around the end, where runs go on at the beginning.
  std::fill_n(index, 300, 1u);
  std::fill_n(index + 1700, 348, 1u);
  seal(*tables);
  EXPECT_THAT(Tokenizer::from_tables(*tables, "t").failure().message,
              HasSubstr("not a hash table"));
}

TEST(TokenizerTables, OnlyTokensAreGivenOut) {
  // A node that is no token, as what a merge makes.
  TokenizerSpec spec = byte_level_spec();
  SpecToken extra;
  extra.name = "zz";
  extra.score = -1;
  spec.extras.push_back(extra);
  spec.merges.push_back({{'z', 'z', 260}, 3});
  const auto made = make_tables(spec, "t");
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.failure().message, HasSubstr("nodes that are not tokens"));
}

TEST(TokenizerTables, AnyDamageIsAnErrorOrATokenizer) {
  std::mt19937 random(3);
  int loaded = 0;
  for (const auto& made : samples()) {
    const Bytes whole = copy_of(made->tables());
    for (int i = 0; i < 1500; ++i) {
      Bytes tables = whole;
      if (i % 10 == 0) tables.resize(random() % tables.size());
      for (auto n = 1 + random() % 3; n > 0 && !tables.empty(); --n) {
        // Half of the changes in the small sections, which say most.
        const std::size_t at = random() % tables.size();
        tables[at] = static_cast<std::byte>(random() % 2 == 0 ? random() : random() % 8);
      }
      seal(tables);
      const auto read = Tokenizer::from_tables(tables, "t");
      if (!read.ok()) continue;
      ++loaded;
      (*read)->decode((*read)->encode(kText, {.parse_special = true, .add_suffix = true}));
    }
  }
  EXPECT_GT(loaded, 100);
}

TEST(TokenizerTables, ALongRunOfOneLetter) {
  // Where anything took time by the square of the length this would not end.
  for (const auto& made : samples()) {
    for (const std::string piece : {"a", " ", "ab", "\n", "\u0301", "\u00e9"}) {
      std::string text;
      while (text.size() < 200'000) text += piece;
      // BERT's leaves out white space and accents.
      EXPECT_TRUE(!made->encode(text).empty() || piece.find('a') == std::string::npos) << piece;
    }
  }
}

}  // namespace
}  // namespace llmc::hosted
