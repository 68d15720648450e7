// llmc tokenize: which file of a folder it reads, and how it says that it cannot.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/support/file.h"
#include "compiler/support/subprocess.h"
#include "tests/end_to_end/models.h"

#ifdef LLMC_PROGRAM
namespace llmc::tests {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

CommandOutput tokenized(const fs::path& model) {
  const auto output = run_command({LLMC_PROGRAM, "tokenize", model.string(), "Once"});
  EXPECT_TRUE(output.ok());
  return output.ok() ? *output : CommandOutput{};
}

std::size_t times(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != text.npos; ++at) ++n;
  return n;
}

TEST(TokenizeCommand, ATokenizerThatIsNotSupportedIsNoDamage) {
  const testing::TemporaryFolder folder;
  const fs::path model = folder.path() / "model", path = model / "tokenizer.json";
  fs::create_directories(model);
  ASSERT_TRUE(write_file(path, R"({"pre_tokenizer": {"type": "UnicodeScripts"}})").ok());
  const CommandOutput unknown = tokenized(model);
  EXPECT_EQ(unknown.exit_code, 4);
  EXPECT_THAT(unknown.standard_error,
              HasSubstr("the pre-tokenizer UnicodeScripts is not supported"));
  EXPECT_THAT(unknown.standard_error,
              HasSubstr("hint: docs/tokenizers.md lists supported tokenizers"));
  EXPECT_EQ(times(unknown.standard_error, path.string()), 1u) << unknown.standard_error;
  // The file that counts is the one that Hugging Face reads; the other one is a way out.
  fs::copy_file(tinyfable() / "tokenizer.model", model / "tokenizer.model");
  const CommandOutput both = tokenized(model);
  EXPECT_EQ(both.exit_code, 4);
  EXPECT_THAT(both.standard_error, HasSubstr("without the file, tokenizer.model is used"));
  EXPECT_EQ(tokenized(model / "tokenizer.model").exit_code, 0) << "the file that is named";
  ASSERT_TRUE(write_file(path, std::string_view("{")).ok());
  const CommandOutput damaged = tokenized(model);
  EXPECT_EQ(damaged.exit_code, 3);
  EXPECT_EQ(times(damaged.standard_error, path.string()), 1u) << damaged.standard_error;
  EXPECT_THAT(damaged.standard_error, HasSubstr("hint: "));
  fs::remove(path);
  EXPECT_EQ(tokenized(model).exit_code, 0);
}

TEST(TokenizeCommand, TokensThatWereAddedBesideAModelAreThere) {
  const testing::TemporaryFolder folder;
  fs::copy_file(tinyfable() / "tokenizer.model", folder.path() / "tokenizer.model");
  const CommandOutput plain = tokenized(folder.path());
  ASSERT_TRUE(write_file(folder.path() / "tokenizer_config.json",
                         R"({"add_bos_token": false, "added_tokens_decoder": {
                             "1100": {"content": "Once", "special": false}}})")
                  .ok());
  const CommandOutput added = tokenized(folder.path());
  EXPECT_EQ(added.standard_output, "1100\n") << added.standard_error;
  EXPECT_NE(plain.standard_output, added.standard_output);
}

}  // namespace
}  // namespace llmc::tests
#endif
