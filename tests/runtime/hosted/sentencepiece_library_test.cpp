// Against the sentencepiece library itself, where it is installed: models of every kind trained on
// the spot and random text of every alphabet.
#include <gtest/gtest.h>

#if __has_include(<sentencepiece_processor.h>) && defined(LLMC_HAVE_SENTENCEPIECE)
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>
#include <unistd.h>

#include <fstream>
#include <random>

#include "runtime/hosted/tokenizer.h"
#include "tests/runtime/hosted/shared_files.h"

namespace llmc::hosted {
namespace {

namespace fs = std::filesystem;

void add_character(std::string& text, std::uint32_t c) {
  if (c < 0x80) {
    text += static_cast<char>(c);
  } else if (c < 0x800) {
    text += {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 0x3F))};
  } else if (c < 0x10000) {
    text += {static_cast<char>(0xE0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 0x3F)),
             static_cast<char>(0x80 | (c & 0x3F))};
  } else {
    text += {static_cast<char>(0xF0 | c >> 18), static_cast<char>(0x80 | (c >> 12 & 0x3F)),
             static_cast<char>(0x80 | (c >> 6 & 0x3F)), static_cast<char>(0x80 | (c & 0x3F))};
  }
}

/// Words of the training text, spaces, marks, letters of all planes, and bytes that are no UTF-8.
std::string random_text(std::mt19937& random, const std::vector<std::string>& words) {
  std::string text;
  for (auto n = random() % 12; n > 0; --n) {
    switch (random() % 10) {
      case 0:
        text.append(1 + random() % 4, ' ');
        break;
      case 1:
        add_character(text, static_cast<std::uint32_t>(random() % 0xD800));
        break;
      case 2:
        add_character(text, 0xE000 + static_cast<std::uint32_t>(random() % 0x102000));
        break;
      case 3:
        add_character(text, 0x80 + static_cast<std::uint32_t>(random() % 0x500));
        break;
      case 4:
        text += static_cast<char>(random() & 0xFF);
        break;
      case 5:
        text +=
            std::vector<std::string>{"\u2581",  "\u3000", "\u00a0", "\uff21", "\ufb01", "\u00bd",
                                     "<s>",     "</s>",   "<unk>",  "\n",     "\t",     "\r\n",
                                     "e\u0301", "<mark>", "#tag#",  "\u200d"}[random() % 16];
        break;
      default:
        if (random() % 3 != 0) text += ' ';
        text += words[random() % words.size()];
    }
  }
  return text;
}

void compare(const fs::path& model, int texts, const std::vector<std::string>& words) {
  sentencepiece::SentencePieceProcessor library;
  ASSERT_TRUE(library.Load(model.string()).ok()) << model;
  auto loaded = Tokenizer::load(model);
  ASSERT_TRUE(loaded.ok()) << loaded.failure().message;
  const Tokenizer& own = **loaded;
  ASSERT_EQ(static_cast<int>(own.size()), library.GetPieceSize());
  std::mt19937 random(11);
  for (int i = 0; i < texts; ++i) {
    const std::string text = random_text(random, words);
    std::vector<int> expected;
    ASSERT_TRUE(library.Encode(text, &expected).ok());
    const auto ids = own.encode(text, {.add_prefix = false});
    ASSERT_EQ(ids, expected) << "'" << text << "'";
    std::string decoded;
    ASSERT_TRUE(library.Decode(expected, &decoded).ok());
    ASSERT_EQ(own.decode(ids), decoded) << "'" << text << "'";
  }
}

std::vector<std::string> training_words() {
  std::vector<std::string> words;
  std::mt19937 random(2);
  const std::vector<std::string> syllables = {
      "ka",     "lo",           "mi",     "ne",     "ru", "st", "th", "ing", "er", "\u00e4",
      "\u00df", "\u0436\u0438", "\u4e2d", "\u6587", "12", "7",  ".",  ",",   "'s"};
  for (int i = 0; i < 400; ++i) {
    std::string word;
    for (auto n = 1 + random() % 4; n > 0; --n) word += syllables[random() % syllables.size()];
    words.push_back(word);
  }
  return words;
}

struct Kind {
  const char* name;
  const char* options;
  friend void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }
};

class SentencePieceKind : public testing::TestWithParam<Kind> {};

TEST_P(SentencePieceKind, SameIdsAndText) {
  const fs::path folder =
      fs::temp_directory_path() / ("llmc-spm-" + std::to_string(getpid()) + GetParam().name);
  fs::create_directories(folder);
  const std::vector<std::string> words = training_words();
  std::mt19937 random(4);
  {
    std::ofstream corpus(folder / "corpus.txt");
    for (int line = 0; line < 1500; ++line) {
      for (auto n = 3 + random() % 10; n > 0; --n) {
        // Frequent words and rare ones, or all merges would tie.
        const auto pick = std::min(random() % words.size(), random() % words.size());
        corpus << words[pick] << ' ';
      }
      corpus << '\n';
    }
  }
  const auto status = sentencepiece::SentencePieceTrainer::Train(
      "--input=" + (folder / "corpus.txt").string() + " --model_prefix=" + (folder / "m").string() +
      " --minloglevel=2 --num_threads=1 " + GetParam().options);
  ASSERT_TRUE(status.ok()) << status.ToString();
  compare(folder / "m.model", 4000, words);
  fs::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, SentencePieceKind,
    testing::Values(
        Kind{"bpe_identity",
             "--model_type=bpe --vocab_size=500 --normalization_rule_name=identity "
             "--remove_extra_whitespaces=false --byte_fallback=true"},
        Kind{"bpe_nfkc", "--model_type=bpe --vocab_size=250"},
        Kind{"bpe_symbols",
             "--model_type=bpe --vocab_size=300 --user_defined_symbols=<mark>,#tag#,ka "
             "--control_symbols=<ctl> --normalization_rule_name=nmt_nfkc_cf"},
        Kind{"unigram_nfkc", "--model_type=unigram --hard_vocab_limit=false --vocab_size=250"},
        Kind{"unigram_bytes",
             "--model_type=unigram --hard_vocab_limit=false --vocab_size=500 --byte_fallback=true "
             "--normalization_rule_name=identity"},
        Kind{"unigram_symbols",
             "--model_type=unigram --hard_vocab_limit=false --vocab_size=260 "
             "--user_defined_symbols=<mark>,#tag#,ka "
             "--add_dummy_prefix=false"},
        Kind{"unigram_suffix",
             "--model_type=unigram --hard_vocab_limit=false --vocab_size=250 "
             "--treat_whitespace_as_suffix=true"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(SentencePieceLibrary, LlamasModel) {
  const fs::path model = shared_folder() / "tokenizers/llama2/tokenizer.model";
  LLMC_SKIP_WITHOUT(model);
  compare(model, 20000,
          {"Once", "upon", "time", "Lily", "the", "stra\u00dfe", "\u4e2d\u6587", "42"});
}

TEST(SentencePieceLibrary, ShippedModel) {
  const fs::path model = fs::path(LLMC_SOURCE_DIR) / "models/tinyfable/tokenizer.model";
  LLMC_SKIP_WITHOUT(model);
  compare(model, 20000, {"Once", "upon", "time", "Pebble", "fox", "the", "said", "37"});
}

}  // namespace
}  // namespace llmc::hosted
#else
TEST(SentencePieceLibrary, Compared) {
  GTEST_SKIP() << "the sentencepiece library is not installed";
}
#endif
