#include "compiler/driver/chat_files.h"

#include <fmt/format.h>
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
  put("onnx/tokenizer_config.json", R"({"bos_token": "<o>"})");
  EXPECT_EQ(read("onnx").bos, "<o>") << "each file from the nearest folder that has it";
  EXPECT_EQ(read("onnx").jinja, "J\n");
}

TEST_F(ChatFilesTest, BosIdIsTheFirstOfTheVocabulary) {
  const auto id = [&](std::int64_t vocabulary) {
    const auto read = read_bos_id(folder.path(), vocabulary);
    return read.ok() ? *read : -2;
  };
  EXPECT_EQ(id(100), -1) << "no file";
  put("config.json", R"({"bos_token_id": null})");
  put("genai_config.json", R"({"bos_token_id": 4, "model": {"bos_token_id": 5}})");
  EXPECT_EQ(id(100), 5);
  EXPECT_EQ(id(5), -1) << "of another model";
  put("generation_config.json", R"({"bos_token_id": 7})");
  EXPECT_EQ(id(100), 7);
  EXPECT_EQ(id(6), 5);
  EXPECT_EQ(id(0), -1) << "an unknown vocabulary";
  put("config.json", R"({"bos_token_id": [-1, 200, 3]})");
  EXPECT_EQ(id(100), 3) << "before generation_config.json";
  put("config.json", R"({"bos_token_id": "one"})");
  EXPECT_EQ(id(100), -2);
}

TEST_F(ChatFilesTest, StopIdsOutsideTheVocabulary) {
  put("config.json", R"({"eos_token_id": 7})");
  put("generation_config.json", R"({"eos_token_id": [7, 9]})");
  put("genai_config.json", R"({"model": {"eos_token_id": 10}})");
  const auto files = [&](std::int64_t vocabulary) {
    std::vector<std::string> names;
    const auto warnings = stop_ids_outside(folder.path(), vocabulary);
    EXPECT_TRUE(warnings.ok());
    for (const Diagnostic& d : *warnings) {
      EXPECT_THAT(d.message, HasSubstr("'eos_token_id' "));
      EXPECT_FALSE(d.hint.empty());
      names.push_back(fs::path(d.file).filename().string());
    }
    return names;
  };
  EXPECT_THAT(files(11), ElementsAre());
  EXPECT_THAT(files(0), ElementsAre()) << "unknown";
  EXPECT_THAT(files(10), ElementsAre("genai_config.json"));
  EXPECT_THAT(files(9), ElementsAre("generation_config.json", "genai_config.json"));
  put("genai_config.json", R"({"model": 3})");
  EXPECT_THAT(files(7), ElementsAre("config.json", "generation_config.json"));
}

TEST_F(ChatFilesTest, StartIdsOfEncoderDecoders) {
  EXPECT_TRUE(read().start_ids.empty());
  put("config.json", R"({"decoder_start_token_id": 2, "forced_bos_token_id": 0})");
  EXPECT_THAT(read().start_ids, ElementsAre(2, 0));
  put("generation_config.json", R"({"decoder_start_token_id": 3, "forced_bos_token_id": null})");
  EXPECT_THAT(read().start_ids, ElementsAre(3));
  put("generation_config.json", R"({"decoder_start_token_id": null})");
  EXPECT_THAT(read().start_ids, ElementsAre(2, 0)) << "not given";
  // Whisper: pairs of position and id, up to the first position without an id
  put("config.json", "{}");
  put("generation_config.json",
      R"({"decoder_start_token_id": 5, "forced_decoder_ids": [[1, 8], [2, 9], [3, null], [4, 7]]})");
  EXPECT_THAT(read().start_ids, ElementsAre(5, 8, 9));
  put("generation_config.json", R"({"decoder_start_token_id": "x"})");
  EXPECT_FALSE(read_chat_files(folder.path()).ok());
}

TEST_F(ChatFilesTest, SuppressedIds) {
  put("generation_config.json",
      R"({"suppress_tokens": [1, 2, 7], "begin_suppress_tokens": [220, 50257]})");
  EXPECT_THAT(read().suppressed_ids, ElementsAre(1, 2, 7));
  EXPECT_THAT(read().suppressed_first_ids, ElementsAre(220, 50257));
  const auto parsed = hosted::parse_chat_description(to_json(read()), "x");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->suppressed_ids, read().suppressed_ids);
  EXPECT_EQ(parsed->suppressed_first_ids, read().suppressed_first_ids);
  put("generation_config.json", R"({"suppress_tokens": null})");
  EXPECT_TRUE(read().suppressed_ids.empty());
  put("generation_config.json", R"({"suppress_tokens": [1, "x"]})");
  EXPECT_FALSE(read_chat_files(folder.path()).ok());
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

/// Returns the sampling parameters that the files recommend, like "temperature=0.6 top_k=20".
std::string recommended(const hosted::ChatDescription& chat) {
  std::string text;
  for (const hosted::SamplingValue& value : chat.sampling)
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", value.parameter->name, value.value);
  return text;
}

TEST_F(ChatFilesTest, SamplingThatTheModelRecommends) {
  EXPECT_EQ(recommended(read()), "");
  EXPECT_TRUE(read().empty());
  put("config.json", R"({"temperature": 1.0, "top_k": 50})");
  EXPECT_EQ(recommended(read()), "") << "Hugging Face's description of the network";
  put("config.json", R"({"llm_model": "llm.mnn", "sampler_type": "mixed", "temperature": 1.0,
                         "topK": 30, "top_p": 0.8, "topP": 0.9, "minP": 0.1, "tfsZ": 0.9,
                         "typical": 0.95, "penalty": 1.1})");
  EXPECT_EQ(recommended(read()),
            "temperature=1 top_k=30 top_p=0.8 min_p=0.1 tfs_z=0.9 typical_p=0.95 "
            "repeat_penalty=1.1");
  EXPECT_FALSE(read().empty());
  put("llm_config.json", R"({"temperature": 0.7, "topP": 0.9})");
  EXPECT_EQ(recommended(read()), "temperature=0.7 top_p=0.9") << "one file of MNN's";
  put("llm_config.json", R"({"sampler_type": "greedy", "temperature": 0.7})");
  EXPECT_EQ(recommended(read()), "temperature=0");
  put("generation_config.json",
      R"({"do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 0.8, "min_p": null,
          "typical_p": 0.9, "repetition_penalty": 1.05, "max_length": 9, "eos_token_id": 2})");
  EXPECT_EQ(recommended(read()),
            "temperature=0.6 top_k=20 top_p=0.8 typical_p=0.9 repeat_penalty=1.05")
      << "the model's own before the exporter's";
  put("generation_config.json",
      R"({"do_sample": false, "temperature": 0.6, "top_k": 20, "repetition_penalty": 1.05})");
  EXPECT_EQ(recommended(read()), "temperature=0 repeat_penalty=1.05") << "greedy";
  put("generation_config.json", R"({"top_k": -1})");
  EXPECT_EQ(recommended(read()), "top_k=0") << "all";
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
      {"generation_config.json", R"({"temperature": "hot"})", "'temperature' is not a number"},
      {"generation_config.json", R"({"temperature": -1})", "'temperature' is not a number from 0"},
      {"generation_config.json", R"({"temperature": 1e999})", "JSON"},
      {"generation_config.json", R"({"top_k": 1.5})", "'top_k' is not a whole number"},
      {"generation_config.json", R"({"top_p": 2})", "'top_p' is not a number from 0 to 1"},
      {"generation_config.json", R"({"do_sample": 1})", "'do_sample' is neither true nor false"},
      {"llm_config.json", R"({"sampler_type": 3})", "'sampler_type' is not a string"},
      {"llm_config.json", R"({"topK": []})", "'topK' is not a whole number"},
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
