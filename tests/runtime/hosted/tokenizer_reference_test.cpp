#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "runtime/hosted/tokenizer.h"
#include "tests/runtime/hosted/base64.h"
#include "tests/runtime/hosted/shared_files.h"

/// Against ids that others computed: published test texts, and the greedy references of the models.
namespace llmc::hosted {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<std::int32_t>;

std::unique_ptr<Tokenizer> load(const fs::path& path) {
  auto tokenizer = Tokenizer::load(path);
  EXPECT_TRUE(tokenizer.ok()) << (tokenizer.ok() ? "" : tokenizer.failure().message);
  return tokenizer.ok() ? std::move(*tokenizer) : nullptr;
}

struct Pair {
  std::string text;
  Ids ids;
};

/// NAME.inp: texts between separator lines; NAME.out: a line of ids for each.
std::vector<Pair> reference_pairs(const fs::path& stem) {
  const std::string separator = "\n__ggml_vocab_test__\n";
  const std::string texts = content_of(fs::path(stem).concat(".inp"));
  std::istringstream lines(content_of(fs::path(stem).concat(".out")));
  std::vector<Pair> pairs;
  std::size_t start = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t end = texts.find(separator, start);
    Pair pair{texts.substr(start, end - start), {}};
    std::istringstream numbers(line);
    for (std::int32_t id; numbers >> id;) pair.ids.push_back(id);
    pairs.push_back(std::move(pair));
    if (end == std::string::npos) break;
    start = end + separator.size();
  }
  return pairs;
}

void expect_reference(const Tokenizer& tokenizer, const fs::path& stem) {
  const auto pairs = reference_pairs(stem);
  ASSERT_GT(pairs.size(), 40u);
  for (const Pair& pair : pairs) {
    EXPECT_EQ(tokenizer.encode(pair.text, {.add_prefix = false}), pair.ids) << pair.text;
    EXPECT_EQ(tokenizer.decode(pair.ids), pair.text);
  }
}

TEST(TokenizerReference, LlamaModelFile) {
  const fs::path folder = shared_folder() / "tokenizers";
  LLMC_SKIP_WITHOUT(folder / "llama-spm.inp");
  const auto tokenizer = load(folder / "llama2/tokenizer.model");
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->size(), 32000u);
  EXPECT_EQ(tokenizer->bos(), 1);
  EXPECT_TRUE(tokenizer->is_stop(2));
  EXPECT_FALSE(tokenizer->is_stop(1));
  expect_reference(*tokenizer, folder / "llama-spm");
}

TEST(TokenizerReference, Gpt2JsonFile) {
  const fs::path folder = shared_folder() / "tokenizers";
  LLMC_SKIP_WITHOUT(folder / "gpt-2.inp");
  const auto tokenizer = load(folder / "gpt2/tokenizer.json");
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->size(), 50257u);
  expect_reference(*tokenizer, folder / "gpt-2");
  EXPECT_EQ(tokenizer->encode("a<|endoftext|>", {.parse_special = true}), (Ids{64, 50256}));
}

TEST(TokenizerReference, LlamaTextFile) {
  const fs::path file = shared_folder() / "models/stories15M-split/tokenizer.txt";
  LLMC_SKIP_WITHOUT(file);
  const auto tokenizer = load(file);
  ASSERT_NE(tokenizer, nullptr);
  expect_reference(*tokenizer, shared_folder() / "tokenizers/llama-spm");
  const Ids prompt = {1, 365, 2354, 322, 902, 11203, 3512, 304, 278, 14089, 29889, 2688};
  EXPECT_EQ(tokenizer->encode("Lily and her dog went to the park. They"), prompt);
  EXPECT_EQ(tokenizer->decode(prompt), "Lily and her dog went to the park. They");
  EXPECT_EQ(tokenizer->encode("", {}), (Ids{1}));
  // Control tokens only where asked for: "<s>" is three ordinary characters otherwise.
  EXPECT_EQ(tokenizer->encode("</s>a", {.add_prefix = false, .parse_special = true}),
            (Ids{2, 263}));
  EXPECT_NE(tokenizer->encode("</s>a", {.add_prefix = false})[0], 2);
}

/// A small reader of the strings and numbers of tokenizer.json that this test needs.
std::map<std::string, std::int32_t> json_vocabulary(const std::string& json) {
  std::map<std::string, std::int32_t> vocabulary;
  std::size_t at = json.find('{', json.find("\"vocab\"")) + 1;
  while (true) {
    at = json.find_first_not_of(" \n,", at);
    if (json[at] != '"') break;
    std::string key;
    for (++at; json[at] != '"'; ++at) {
      if (json[at] == '\\') ++at;  // only \" and \\ occur
      key += json[at];
    }
    at = json.find_first_not_of(" \n:", at + 1);
    std::size_t end = json.find_first_not_of("0123456789", at);
    vocabulary[key] = std::stoi(json.substr(at, end - at));
    at = end;
  }
  return vocabulary;
}

/// tokenizer.txt of type 1 from a byte-level vocabulary, as the exporter writes it.
std::string tiktoken_text(const std::map<std::string, std::int32_t>& vocabulary,
                          const std::vector<std::string>& special) {
  std::map<std::string, char> byte_of;  // GPT-2's printable stand-ins for bytes
  int next = 256;
  for (int b = 0; b < 256; ++b) {
    const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    const int c = printable ? b : next++;
    std::string key;
    if (c < 0x80)
      key = static_cast<char>(c);
    else
      key = {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 0x3F))};
    byte_of[key] = static_cast<char>(b);
  }
  std::vector<std::string> tokens(vocabulary.size());
  for (const auto& [spelling, id] : vocabulary) {
    std::string bytes;
    for (std::size_t i = 0; i < spelling.size();) {
      const std::size_t n = (spelling[i] & 0x80) != 0 ? 2 : 1;
      bytes += byte_of.at(spelling.substr(i, n));
      i += n;
    }
    tokens.at(static_cast<std::size_t>(id)) = bytes;
  }
  std::ostringstream text;
  text << "430 1\n" << special.size() << " 1 0\n";
  for (std::size_t i = 0; i < special.size(); ++i) text << tokens.size() + i << ' ';
  text << tokens.size() << '\n' << tokens.size() + special.size() << '\n';
  for (const auto& token : tokens) text << base64(token) << '\n';
  for (const auto& token : special) text << base64(token) << '\n';
  return text.str();
}

TEST(TokenizerReference, QwenAsTiktokenText) {
  const fs::path folder = shared_folder() / "tokenizers";
  LLMC_SKIP_WITHOUT(folder / "qwen2.inp");
  const auto vocabulary = json_vocabulary(content_of(folder / "qwen2.5/tokenizer.json"));
  ASSERT_EQ(vocabulary.size(), 151643u);
  auto tokenizer = Tokenizer::parse(
      tiktoken_text(vocabulary, {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}), "qwen");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.failure().message;
  expect_reference(**tokenizer, folder / "qwen2");
  EXPECT_EQ((*tokenizer)->encode("<|im_start|>hi<|im_end|>", {.parse_special = true}),
            (Ids{151644, 6023, 151645}));
  EXPECT_EQ((*tokenizer)->decode(Ids{151644, 6023, 151645}), "hi");
  EXPECT_TRUE((*tokenizer)->is_stop(151643));
}

TEST(TokenizerReference, ShippedModel) {
  const fs::path folder = fs::path(LLMC_SOURCE_DIR) / "models/tinyfable";
  LLMC_SKIP_WITHOUT(folder / "tokenizer.txt");
  const auto text = load(folder / "tokenizer.txt");
  const auto model = load(folder / "tokenizer.model");
  ASSERT_NE(text, nullptr);
  ASSERT_NE(model, nullptr);
  ASSERT_EQ(text->size(), model->size());
  EXPECT_EQ(text->bos(), model->bos());
  for (const std::string line :
       {"Once upon a time", "\"Where is my", "Max hatte 37 \u00c4pfel & ein \u2603. Then", "", " ",
        "  two  spaces ", "line\nbreak\ttab", "\xff\xe2\x98"}) {
    EXPECT_EQ(text->encode(line), model->encode(line)) << line;
  }
}

}  // namespace
}  // namespace llmc::hosted
