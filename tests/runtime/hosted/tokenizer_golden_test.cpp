#include <gtest/gtest.h>

#include <sstream>

#include "runtime/hosted/tokenizer.h"
#include "runtime/hosted/tokenizer/json_parts.h"
#include "tests/runtime/hosted/shared_files.h"

/// Against ids and texts that Hugging Face's tokenizers 0.23.2 gave for small tokenizers made for
/// this: golden/tokenizer_json.json holds the parts they share ("base", "models"), what each of
/// them changes ("patch"), and for each text its ids, and what they read as where that is not the
/// text.
namespace llmc::hosted {
namespace {

const Json& golden() {
  static const Json kFile =
      Json::parse(content_of(std::filesystem::path(LLMC_SOURCE_DIR) /
                             "tests/runtime/hosted/golden/tokenizer_json.json"),
                  nullptr, false);
  return kFile;
}

std::string numbers(const std::vector<std::int32_t>& ids) {
  std::ostringstream text;
  for (const std::int32_t id : ids) text << (text.tellp() > 0 ? " " : "") << id;
  return text.str();
}

TEST(TokenizerGolden, TheFileIsThere) {
  ASSERT_TRUE(golden().is_object());
  EXPECT_GT(golden()["variants"].size(), 50u);
}

TEST(TokenizerGolden, IdsAndTextAsHuggingFaces) {
  for (const Json& variant : golden()["variants"]) {
    Json file = golden()["base"];
    for (const auto& [part, value] : variant["patch"].items())
      if (part != "model_patch") file[part] = value;
    if (variant["patch"].contains("model")) {
      file["model"] = golden()["models"][variant["patch"]["model"].get<std::string>()];
      if (variant["patch"].contains("model_patch"))
        file["model"].update(variant["patch"]["model_patch"]);
    }
    const std::string name = variant["name"];
    auto loaded = Tokenizer::parse(file.dump(), name);
    ASSERT_TRUE(loaded.ok()) << loaded.failure().message;
    const auto again = Tokenizer::from_tables((*loaded)->tables(), name);
    ASSERT_TRUE(again.ok()) << again.failure().message;
    for (const Json& expected : variant["cases"]) {
      const std::string text = expected[0];
      const auto ids = (*again)->encode(text, {.parse_special = true, .add_suffix = true});
      EXPECT_EQ(numbers(ids), expected[1].get<std::string>()) << name << ": '" << text << "'";
      const bool reads_otherwise = expected.size() > 2;
      // There versions of that library read added tokens as something else than their text.
      if (name.starts_with("added")) continue;
      EXPECT_EQ((*again)->decode(ids), reads_otherwise ? expected[2].get<std::string>() : text)
          << name;
    }
  }
}

}  // namespace
}  // namespace llmc::hosted
