// Folders whose files are missing, too many, links, empty or unreadable.

#include <sys/stat.h>
#include <unistd.h>

#include "tests/bad_inputs/bad_inputs.h"

namespace llmc::testing {
namespace {

namespace fs = std::filesystem;
using importer::import_model;

class BadFolder : public ::testing::TestWithParam<BadInput> {};

TEST_P(BadFolder, IsRefused) {
  expect_refused(GetParam());
}

/// Puts the file outside of the folder and a link in its place.
void link_outside(const fs::path& folder, const std::string& name) {
  fs::rename(folder / name, folder.parent_path() / name);
  fs::create_symlink(fs::path("..") / name, folder / name);
}

std::vector<BadInput> folder_inputs() {
  const auto remove = [](const char* name) {
    return [=](const fs::path& folder) { fs::remove(folder / name); };
  };
  const auto empty = [](const char* name) {
    return [=](const fs::path& folder) { write_bytes(folder / name, ""); };
  };
  const auto link = [](const char* name) {
    return [=](const fs::path& folder) { link_outside(folder, name); };
  };
  const auto bad = ErrorKind::kBadInput;
  return {
      {"EmptyFolder",
       [](const fs::path& folder) {
         fs::remove_all(folder);
         fs::create_directory(folder);
       },
       bad, "", "neither block_0.onnx nor model.onnx"},
      {"FirstBlockMissing", remove("block_0.onnx"), bad, "block_0.onnx", "is missing"},
      {"MiddleBlockMissing",
       [](const fs::path& folder) { fs::rename(folder / "block_1.onnx", folder / "block_2.onnx"); },
       bad, "block_1.onnx", "is missing, but there is block_2.onnx"},
      {"LastBlockMissing", remove("block_1.onnx"), bad, "llm_config.json", "holds 1 block"},
      {"OneBlockTooMany",
       [](const fs::path& folder) { fs::copy(folder / "block_1.onnx", folder / "block_2.onnx"); },
       bad, "llm_config.json", "holds 3 blocks"},
      {"DuplicateBlock",
       [](const fs::path& folder) { fs::copy(folder / "block_1.onnx", folder / "block_01.onnx"); },
       bad, "block_01.onnx", "has a leading zero"},
      {"HugeBlockNumber",
       [](const fs::path& folder) {
         fs::copy(folder / "block_1.onnx", folder / "block_18446744073709551616.onnx");
       },
       bad, "block_18446744073709551616.onnx", "too large"},
      {"HeadMissing", remove("lm.onnx"), bad, "lm.onnx", "missing"},
      {"EmbeddingMissing", remove("embeddings_bf16.bin"), bad, "embeddings_bf16.bin", "neither"},
      {"EmptyBlock", empty("block_0.onnx"), bad, "block_0.onnx", "empty"},
      {"EmptyHead", empty("lm.onnx"), bad, "lm.onnx", "empty"},
      {"EmptyEmbedding", empty("embeddings_bf16.bin"), bad, "embeddings_bf16.bin",
       "not a multiple of a row"},
      {"EmptyConfig", empty("llm_config.json"), bad, "llm_config.json", "not valid JSON"},
      {"EmptyTokenizer", empty("tokenizer.txt"), bad, "tokenizer.txt", "line 0"},
      {"EmbeddingNotDivisible",
       [](const fs::path& folder) {
         fs::resize_file(folder / "embeddings_bf16.bin", 40 * 24 * 2 - 2);
       },
       bad, "embeddings_bf16.bin", "not a multiple of a row"},
      {"EmbeddingOfOtherVocabulary",
       [](const fs::path& folder) { fs::resize_file(folder / "embeddings_bf16.bin", 39 * 24 * 2); },
       bad, "lm.onnx", "39 tokens have embeddings"},
      {"BlockLinkOutside", link("block_1.onnx"), bad, "block_1.onnx", "symbolic link"},
      {"EmbeddingLinkOutside", link("embeddings_bf16.bin"), bad, "embeddings_bf16.bin",
       "symbolic link"},
      {"ConfigLinkOutside", link("llm_config.json"), bad, "llm_config.json", "symbolic link"},
      {"TokenizerLinkOutside", link("tokenizer.txt"), bad, "tokenizer.txt", "symbolic link"},
      {"DanglingLink",
       [](const fs::path& folder) {
         fs::remove(folder / "lm.onnx");
         fs::create_symlink("nowhere", folder / "lm.onnx");
       },
       bad, "lm.onnx", "cannot open"},
      {"LinkLoop",
       [](const fs::path& folder) {
         fs::remove(folder / "lm.onnx");
         fs::create_symlink("lm.onnx", folder / "lm.onnx");
       },
       bad, "lm.onnx", "cannot open"},
      {"NamedPipe",
       [](const fs::path& folder) {
         fs::remove(folder / "lm.onnx");
         ASSERT_EQ(::mkfifo((folder / "lm.onnx").c_str(), 0600), 0);
       },
       bad, "lm.onnx", "not a regular file"},
      {"BlockIsAFolder",
       [](const fs::path& folder) {
         fs::remove(folder / "block_1.onnx");
         fs::create_directory(folder / "block_1.onnx");
       },
       bad, "llm_config.json", "holds 1 block"},
      {"BlocksOfTwoModels",
       [](const fs::path& folder) {
         TinyLlamaConfig other;
         other.hidden = 32;
         TinyLlama(other).block(1).save(folder / "block_1.onnx");
       },
       bad, "block_1.onnx", ""},
      {"HeadOfAnotherModel",
       [](const fs::path& folder) {
         TinyLlamaConfig other;
         other.vocabulary = 41;
         TinyLlama(other).lm().save(folder / "lm.onnx");
       },
       bad, "lm.onnx", "41 tokens"},
      {"HeadGivesNoLogits",
       [](const fs::path& folder) {
         OnnxBuilder b(15);
         b.float_input("hidden_states", {std::int64_t{1}, std::int64_t{24}});
         b.node("Relu", {"hidden_states"}, {}, "other");
         b.float_output("other", {});
         b.save(folder / "lm.onnx");
       },
       bad, "lm.onnx", "no output 'logits'"},
      {"TokenIdNotFromArgMax",
       [](const fs::path& folder) {
         OnnxBuilder b(15);
         b.float_input("hidden_states", {std::int64_t{1}, std::int64_t{24}});
         b.node("Relu", {"hidden_states"}, {}, "token_id");
         b.float_output("token_id", {});
         b.save(folder / "lm.onnx");
       },
       bad, "lm.onnx", "not the ArgMax"},
  };
}

INSTANTIATE_TEST_SUITE_P(All, BadFolder, ::testing::ValuesIn(folder_inputs()),
                         [](const auto& info) { return info.param.name; });

TEST(BadPath, DoesNotExist) {
  const auto imported = import_model("/nonexistent/model");
  ASSERT_FALSE(imported.ok());
  EXPECT_EQ(imported.error().first().kind, ErrorKind::kBadInput);
  EXPECT_EQ(imported.error().first().file, "/nonexistent/model");
}

TEST(BadPath, IsEmptyOrADevice) {
  EXPECT_FALSE(import_model("").ok());
  EXPECT_FALSE(import_model("/dev/null").ok());
  EXPECT_FALSE(import_model(std::string("a\0b", 3)).ok());
}

TEST(BadPath, FileIsUnreadable) {
  if (::geteuid() == 0) GTEST_SKIP() << "the superuser reads everything";
  const TemporaryFolder folder;
  small_model().write(folder.path());
  fs::permissions(folder.path() / "block_1.onnx", fs::perms::none);
  const auto imported = import_model(folder.path());
  ASSERT_FALSE(imported.ok());
  EXPECT_EQ(imported.error().first().file, folder.path() / "block_1.onnx");
  EXPECT_NE(imported.error().first().message.find("cannot open"), std::string::npos);
}

// Links that stay inside the folder are fine, and so is a link that the user names himself.
TEST(GoodPath, LinksInsideTheFolderAreFollowed) {
  const TemporaryFolder folder;
  small_model().write(folder.path());
  fs::rename(folder.path() / "block_1.onnx", folder.path() / "other.onnx");
  fs::create_symlink("other.onnx", folder.path() / "block_1.onnx");
  EXPECT_TRUE(import_model(folder.path()).ok());
  const TemporaryFolder elsewhere;
  fs::create_symlink(folder.path(), elsewhere.path() / "model");
  EXPECT_TRUE(import_model(elsewhere.path() / "model").ok());
  EXPECT_TRUE(import_model((folder.path() / "").string()).ok());
}

}  // namespace
}  // namespace llmc::testing
