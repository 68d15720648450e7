#include "compiler/driver/trained_context.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/support/file.h"
#include "tests/support/temporary_folder.h"

namespace llmc::driver {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class TrainedContext : public ::testing::Test {
 protected:
  void put(const std::string& name, const std::string& content) {
    fs::create_directories((folder_.path() / name).parent_path());
    ASSERT_TRUE(write_file(folder_.path() / name, content).ok());
  }
  std::uint32_t tokens(const fs::path& below = {}) {
    const auto tokens = trained_context(folder_.path() / below);
    EXPECT_TRUE(tokens.ok()) << (tokens.ok() ? "" : format(tokens.error().first()));
    return tokens.ok() ? *tokens : 0;
  }
  testing::TemporaryFolder folder_;
};

TEST_F(TrainedContext, NothingIsStated) {
  EXPECT_EQ(tokens(), 0u);
  put("config.json", R"({"max_position_embeddings": null, "n_positions": -1, "hidden_size": 8})");
  EXPECT_EQ(tokens(), 0u);
  EXPECT_EQ(tokens("model.onnx"), 0u) << "a file that is not there";
}

TEST_F(TrainedContext, EveryConfigurationHasItsName) {
  put("config.json", R"({"n_positions": 1024, "n_ctx": 512})");
  EXPECT_EQ(tokens(), 1024u);
  put("config.json", R"({"max_position_embeddings": 4096, "n_positions": 1024})");
  EXPECT_EQ(tokens(), 4096u);
  EXPECT_EQ(tokens("model.onnx"), 4096u);
  put("config.json", R"({"text_config": {"max_position_embeddings": 8192}})");
  EXPECT_EQ(tokens(), 8192u);
  put("genai_config.json", R"({"model": {"context_length": 256}, "search": {"max_length": 8}})");
  EXPECT_EQ(tokens(), 256u) << "the smallest counts";
  put("llm_config.json", R"({"max_position_embeddings": 64})");
  EXPECT_EQ(tokens(), 64u);
  put("llm_config.json", R"({"max_position_embeddings": 1e30})");
  EXPECT_EQ(tokens(), 256u);
}

TEST_F(TrainedContext, GraphsMayLieInAFolderBelow) {
  put("config.json", R"({"max_position_embeddings": 384})");
  put("onnx/model.onnx", "");
  EXPECT_EQ(tokens("onnx"), 384u);
  EXPECT_EQ(tokens("onnx/model.onnx"), 384u);
  put("onnx/config.json", R"({"max_position_embeddings": 128})");
  EXPECT_EQ(tokens("onnx"), 128u) << "the nearest file of a name";
  EXPECT_EQ(tokens(), 384u);
}

TEST_F(TrainedContext, WhatIsNoNumberIsBadInput) {
  for (const char* const text :
       {"", "[]", "{", R"({"max_position_embeddings": "2048"})",
        R"({"max_position_embeddings": 2.5})", R"({"n_positions": [1]})",
        R"({"max_position_embeddings": 0})", R"({"text_config": {"n_ctx": -2}})",
        R"({"max_position_embeddings": true})"}) {
    put("config.json", text);
    const auto tokens = trained_context(folder_.path());
    ASSERT_FALSE(tokens.ok()) << text;
    EXPECT_EQ(tokens.error().first().kind, ErrorKind::kBadInput);
    EXPECT_THAT(tokens.error().first().file, HasSubstr("config.json"));
  }
}

TEST_F(TrainedContext, TheShippedModelStatesIts) {
  const auto tokens = trained_context(fs::path(LLMC_SOURCE_DIR) / "models/tinyfable");
  ASSERT_TRUE(tokens.ok());
  EXPECT_EQ(*tokens, 384u) << "models/recipe/model.py trains with it";
}

}  // namespace
}  // namespace llmc::driver
