#include "compiler/driver/chat_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/support/file.h"
#include "tests/support/temporary_folder.h"

namespace llmc::driver {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ChatFilesTest : public ::testing::Test {
 protected:
  void put(const std::string& name, const std::string& content) {
    fs::create_directories((folder.path() / name).parent_path());
    ASSERT_TRUE(write_file(folder.path() / name, content).ok());
  }
  hosted::ChatDescription read(const fs::path& below = {}) {
    auto chat = read_chat_files(folder.path() / below);
    EXPECT_TRUE(chat.ok()) << (chat.ok() ? "" : format(chat.error().first()));
    return chat.ok() ? *std::move(chat) : hosted::ChatDescription{};
  }
  testing::TemporaryFolder folder;
};

TEST_F(ChatFilesTest, NothingIsNoTemplate) {
  EXPECT_FALSE(read().has_template());
  EXPECT_TRUE(read().stop_ids.empty());
}

TEST_F(ChatFilesTest, HuggingFacesFiles) {
  put("tokenizer_config.json",
      R"({"chat_template": "T", "bos_token": {"content": "<b>", "lstrip": false}, "eos_token": "<e>",
          "pad_token": null})");
  put("config.json", R"({"eos_token_id": 7})");
  put("generation_config.json", R"({"eos_token_id": [7, 9], "bos_token_id": 1})");
  const auto chat = read();
  EXPECT_EQ(chat.jinja, "T");
  EXPECT_EQ(chat.bos, "<b>");
  EXPECT_EQ(chat.eos, "<e>");
  EXPECT_EQ(chat.source, "tokenizer_config.json");
  EXPECT_FALSE(chat.add_prefix);
  EXPECT_THAT(chat.stop_ids, ElementsAre(7, 9));
  put("chat_template.jinja", "J\n");
  EXPECT_EQ(read().jinja, "J\n") << "the newer file";
  EXPECT_EQ(read().bos, "<b>");
  put("onnx/model.onnx", "");
  EXPECT_EQ(read("onnx").jinja, "J\n") << "graphs in a folder below";
  EXPECT_EQ(read("onnx/model.onnx").jinja, "J\n");
}

TEST_F(ChatFilesTest, OneOfSeveralTemplates) {
  put("tokenizer_config.json",
      R"({"chat_template": [{"name": "tool_use", "template": "A"},
                            {"name": "default", "template": "B"}]})");
  EXPECT_EQ(read().jinja, "B");
  put("tokenizer_config.json", R"({"chat_template": null})");
  put("chat_template.json", R"({"chat_template": "C"})");
  EXPECT_EQ(read().jinja, "C");
}

TEST_F(ChatFilesTest, MnnsConfiguration) {
  put("llm_config.json", R"({"prompt_template": "%s"})");
  EXPECT_FALSE(read().has_template()) << "text as it is";
  put("llm_config.json", R"({"prompt_template": "<u>%s<a>"})");
  EXPECT_EQ(read().user, "<u>%s<a>");
  EXPECT_TRUE(read().add_prefix);
  put("llm_config.json",
      R"({"prompt_template": "old%s", "system_prompt_template": "S%s",
          "user_prompt_template": "U%s", "assistant_prompt_template": "A%s"})");
  EXPECT_EQ(read().user, "U%s");
  EXPECT_EQ(read().system, "S%s");
  EXPECT_EQ(read().assistant, "A%s");
  put("llm_config.json",
      R"({"prompt_template": "old%s",
          "jinja": {"chat_template": "J", "bos": "<b>", "eos": "<e>"}})");
  EXPECT_EQ(read().jinja, "J");
  EXPECT_EQ(read().user, "");
  EXPECT_EQ(read().eos, "<e>");
  put("tokenizer_config.json", R"({"chat_template": "T"})");
  EXPECT_EQ(read().jinja, "T") << "the model's own before the exporter's";
}

TEST_F(ChatFilesTest, IdsOfOnnxruntimeGenai) {
  put("genai_config.json", R"({"model": {"eos_token_id": [3, 2]}, "search": {}})");
  EXPECT_THAT(read().stop_ids, ElementsAre(3, 2));
}

TEST_F(ChatFilesTest, DamagedFilesAreNamed) {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"tokenizer_config.json", "{", "is not valid JSON"},
      {"tokenizer_config.json", "[]", "is not a JSON object"},
      {"tokenizer_config.json", R"({"chat_template": 3})", "'chat_template' is not a string"},
      {"tokenizer_config.json", R"({"chat_template": [3]})", "lists something without a name"},
      {"tokenizer_config.json", R"({"bos_token": 3})", "'bos_token' is not a string"},
      {"generation_config.json", R"({"eos_token_id": "2"})", "neither a token id nor a list"},
      {"generation_config.json", R"({"eos_token_id": [1e99]})", "neither a token id nor a list"},
      {"llm_config.json", R"({"prompt_template": "none"})", "does not have the place %s"},
      {"llm_config.json", R"({"prompt_template": "%s%s"})", "does not have the place %s"},
  };
  for (const auto& [file, content, message] : cases) {
    put(file, content);
    const auto chat = read_chat_files(folder.path());
    ASSERT_FALSE(chat.ok()) << content;
    EXPECT_EQ(chat.error().first().kind, ErrorKind::kBadInput);
    EXPECT_THAT(format(chat.error().first()), HasSubstr(std::string(file) + ": ")) << content;
    EXPECT_THAT(chat.error().first().message, HasSubstr(message)) << content;
    fs::remove(folder.path() / file);
  }
}

}  // namespace
}  // namespace llmc::driver
