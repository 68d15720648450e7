// Weights that are rounded for the inputs of a text: --calibrate.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "compiler/support/file.h"
#include "tests/end_to_end/models.h"
#include "tests/end_to_end/program.h"
#include "tests/support_onnx/tiny_recurrent.h"

#ifdef LLMC_PROGRAM
namespace llmc::tests {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;
using Arguments = std::vector<std::string>;

class CalibrateCommand : public ::testing::Test {
 protected:
  /// A file with a part of the shipped model's text, in quarters of it.
  std::string part(std::size_t first, std::size_t end) {
    const auto text = read_file(tinyfable() / "heldout.txt");
    EXPECT_TRUE(text.ok());
    const std::size_t quarter = text->size() / 4;
    return file("part.txt" + std::to_string(first),
                text->substr(first * quarter, (end - first) * quarter));
  }
  std::string file(const std::string& name, const std::string& text) {
    const fs::path path = folder_.path() / name;
    EXPECT_TRUE(write_file(path, text).ok());
    return path.string();
  }
  ProgramRun compile(const std::string& calibrate, const std::string& out, Arguments more = {},
                     const std::string& model = tinyfable().string()) {
    const Arguments fixed{"compile",     model,     "-o",       (folder_.path() / out).string(),
                          "--calibrate", calibrate, "--name=m", "--weights=file",
                          "--cflag=-O0", "--ctx=64"};
    more.insert(more.begin(), fixed.begin(), fixed.end());
    return llmc(more, {"XDG_CACHE_HOME=" + (folder_.path() / "cache").string()});
  }
  std::string weights(const std::string& out) {
    const auto bytes = read_file(folder_.path() / out / "m.weights.bin");
    EXPECT_TRUE(bytes.ok());
    return bytes.ok() ? *bytes : std::string();
  }

  testing::TemporaryFolder folder_;
};

TEST_F(CalibrateCommand, LowersTheDivergenceOnAnotherPartOfTheText) {
  const std::string read = part(0, 2), measured = part(2, 4);
  const auto divergences = [&](const std::string& calibrate) {
    const ProgramRun ran = llmc({"compare", tinyfable().string(), "--quant=q4,q6", "--kv=f32",
                                 "--calibrate", calibrate, "--text", measured, "-c", "128",
                                 "--chunks", "6", "--steps=1", "--json", "--cflag=-O1"});
    EXPECT_EQ(ran.code, 0) << ran.err;
    std::vector<double> means;
    const auto result = nlohmann::json::parse(ran.out, nullptr, false);
    for (const auto& row : result["rows"]) means.push_back(row["kl"]["mean"]["value"]);
    means.resize(2);
    return means;
  };
  const std::vector<double> with = divergences(read), without = divergences("none");
  for (const std::size_t i : {0u, 1u}) EXPECT_LT(with[i], 0.8 * without[i]) << i;
}

TEST_F(CalibrateCommand, GivesTheSameBytesFromTheCacheAndFromAnew) {
  const std::string text = part(0, 1);
  ASSERT_EQ(compile("none", "none").code, 0);
  ASSERT_EQ(compile(text, "first").code, 0);
  const std::string first = weights("first");
  EXPECT_NE(first, weights("none"));
  // Another option of the compilation takes the encoded matrices from the cache.
  ASSERT_EQ(compile(text, "second", {"--kv=int8"}).code, 0);
  EXPECT_EQ(first, weights("second"));
  // A damaged file of the cache is not used.
  std::size_t damaged = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder_.path() / "cache")) {
    if (entry.path().filename() != "matrices.bin") continue;
    std::string bytes = *read_file(entry.path());
    bytes[bytes.size() / 2] ^= 1;
    EXPECT_TRUE(write_file(entry.path(), bytes).ok());
    ++damaged;
  }
  EXPECT_EQ(damaged, 1u);
  ASSERT_EQ(compile(text, "third").code, 0);
  EXPECT_EQ(first, weights("third"));
}

TEST_F(CalibrateCommand, ReadsIdsOrWritesItsOwnTextWithoutATokenizer) {
  const ModelFolder model;
  ASSERT_TRUE(fs::remove(model.path() / "tokenizer.txt"));
  std::string ids;
  for (int i = 0; i < 200; ++i) ids += std::to_string(i * 37 % 200) + (i % 10 == 9 ? "\n" : " ");
  const std::string path = model.path().string();
  EXPECT_EQ(compile(file("ids.txt", ids), "ids", {}, path).code, 0);
  const ProgramRun special = compile(file("ids.txt", ids), "special", {"--parse-special"}, path);
  EXPECT_EQ(special.code, 3);
  EXPECT_THAT(special.err, HasSubstr("remove --parse-special"));
  EXPECT_EQ(compile("self", "self", {}, path).code, 0);
  EXPECT_NE(weights("ids"), weights("self"));
  ASSERT_TRUE(write_file(model.path() / "config.json", R"({"bos_token_id": 5})").ok());
  EXPECT_EQ(compile("self", "begun", {}, path).code, 0);
  EXPECT_NE(weights("begun"), weights("self")) << "the text begins with the configured BOS";
  const ProgramRun builtin = compile("builtin", "builtin", {}, path);
  EXPECT_EQ(builtin.code, 3);
  EXPECT_THAT(builtin.err, HasSubstr("no tokenizer"));
  EXPECT_THAT(builtin.err, HasSubstr("--calibrate self"));
  const ProgramRun text = compile(file("text.txt", std::string(500, 'a')), "text", {}, path);
  EXPECT_EQ(text.code, 3);
  EXPECT_THAT(text.err, HasSubstr("no tokenizer"));
  const ProgramRun large = compile(file("large.txt", ids + " 999999"), "large", {}, path);
  EXPECT_EQ(large.code, 3);
  EXPECT_THAT(large.err, HasSubstr("999999"));
}

TEST_F(CalibrateCommand, HasATextOfItsOwn) {
  ASSERT_EQ(compile("none", "none").code, 0);
  const ProgramRun builtin = compile("builtin", "builtin");
  EXPECT_EQ(builtin.code, 0) << builtin.err;
  EXPECT_NE(weights("builtin"), weights("none"));
  EXPECT_NE(weights("builtin"), "");
  // A chat template changes the text.
  const fs::path model = folder_.path() / "model";
  fs::copy(tinyfable(), model);
  const auto set_template = [&](std::string_view jinja) {
    ASSERT_TRUE(write_file(model / "chat_template.jinja", jinja).ok());
  };
  set_template("{% for m in messages %}{{ '<s>' ~ m.role ~ ': ' ~ m.content }}{% endfor %}");
  const ProgramRun chats = compile("builtin", "chats", {}, model.string());
  EXPECT_EQ(chats.code, 0) << chats.err;
  EXPECT_THAT(chats.err, Not(HasSubstr("calibration")));
  EXPECT_NE(weights("chats"), weights("builtin"));
  // One that rejects conversations is reported, and the messages are plain text, as without it.
  set_template("{{ messages[0].content ~ raise_exception('no') }}");
  const ProgramRun rejected = compile("builtin", "rejected", {}, model.string());
  EXPECT_EQ(rejected.code, 0) << rejected.err;
  EXPECT_THAT(rejected.err, HasSubstr("conversations are read as plain text"));
  EXPECT_EQ(weights("rejected"), weights("builtin"));
}

TEST_F(CalibrateCommand, ItsOwnTextMeasuresFormatsToo) {
  const auto measured = [&](const std::string& calibrate) {
    const ProgramRun plan =
        llmc({"plan", tinyfable().string(), "--max-kl", "0.01", "--calibrate", calibrate, "--json"},
             {"XDG_CACHE_HOME=" + (folder_.path() / "cache").string()});
    EXPECT_EQ(plan.code, 0) << plan.err;
    return nlohmann::json::parse(plan.out).at("budget").at("measured_kl").get<double>();
  };
  const double builtin = measured("builtin");
  EXPECT_GT(builtin, 0);
  EXPECT_LE(builtin, 0.01);
  EXPECT_NE(builtin, measured(part(0, 1)));
}

TEST_F(CalibrateCommand, ParsesControlTokensWhenAsked) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += "<s> Once upon a time there was a little fox.\n";
  const std::string path = file("chat.txt", text);
  const ProgramRun plain = compile(path, "plain");
  EXPECT_EQ(plain.code, 0) << plain.err;
  EXPECT_THAT(plain.err, HasSubstr("chat.txt: control tokens (<s>) are read as plain text"));
  const ProgramRun parsed = compile(path, "parsed", {"--parse-special"});
  EXPECT_EQ(parsed.code, 0) << parsed.err;
  EXPECT_THAT(parsed.err, Not(HasSubstr("control tokens")));
  EXPECT_NE(weights("plain"), weights("parsed"));
  for (const char* none : {"self", "builtin", "none"}) {
    const ProgramRun refused = compile(none, none, {"--parse-special"});
    EXPECT_EQ(refused.code, 2);
    EXPECT_THAT(refused.err, HasSubstr("--parse-special changes the text of"));
  }
}

TEST_F(CalibrateCommand, SaysThatTheMeasuredTextIsTheSame) {
  const std::string text = part(0, 1), other = part(1, 2);
  const auto measured = [&](const std::string& calibrate) {
    return llmc({"ppl", tinyfable().string(), "--quant=q8", "--calibrate", calibrate, "--text",
                 text, "-c", "64", "--chunks=1", "--cflag=-O0"},
                {"XDG_CACHE_HOME=" + (folder_.path() / "cache").string()})
        .err;
  };
  EXPECT_THAT(measured(text), HasSubstr("measured is that of --calibrate"));
  EXPECT_THAT(measured(other), Not(HasSubstr("measured is that of --calibrate")));
}

TEST_F(CalibrateCommand, RefusesTextsThatSayNothing) {
  const ProgramRun missing = compile("/nowhere/text", "a");
  EXPECT_EQ(missing.code, 3);
  EXPECT_THAT(missing.err, HasSubstr("/nowhere/text"));
  EXPECT_THAT(missing.err, HasSubstr("builtin, self or none"));
  const ProgramRun binary = compile((tinyfable() / "lm.onnx").string(), "a");
  EXPECT_EQ(binary.code, 3);
  EXPECT_THAT(binary.err, HasSubstr("lm.onnx: the calibration's text is not valid UTF-8"));
  for (const char* text : {"", "Once upon a time"}) {
    const ProgramRun brief = compile(file("short.txt", text), "b");
    EXPECT_EQ(brief.code, 3);
    EXPECT_THAT(brief.err, HasSubstr("tokens"));
  }
  const ProgramRun empty = compile("", "c");
  EXPECT_EQ(empty.code, 2);
  EXPECT_THAT(empty.err, HasSubstr("--calibrate: is empty"));
}

TEST_F(CalibrateCommand, WarnsWhereNoMatrixIsRounded) {
  const ProgramRun ran = compile(part(0, 1), "f16", {"--quant=f16"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.err, HasSubstr("no matrix is rounded"));
  const ProgramRun planned =
      llmc({"plan", tinyfable().string(), "--calibrate", part(0, 1), "--quant=f16"});
  EXPECT_EQ(planned.code, 0);
  EXPECT_THAT(planned.err, HasSubstr("no matrix is rounded"));
}

TEST_F(CalibrateCommand, PlansAreCheckedButNotCalibrated) {
  const auto plan = [](Arguments more) {
    more.insert(more.begin(), {"plan", tinyfable().string(), "--json"});
    const ProgramRun ran = llmc(more, {"PATH="});  // no clang: the model does not write a text
    EXPECT_EQ(ran.code, 0) << ran.err;
    return nlohmann::json::parse(ran.out, nullptr, false);
  };
  EXPECT_EQ(plan({"--calibrate=self"})["bytes"], plan({})["bytes"]);
  const ProgramRun brief =
      llmc({"plan", tinyfable().string(), "--calibrate", file("short.txt", "Once")});
  EXPECT_EQ(brief.code, 3);
  EXPECT_THAT(brief.err, HasSubstr("fewer than 64"));
  const std::string recurrent = (folder_.path() / "model.onnx").string();
  testing::tiny_recurrent({}).save(recurrent);
  const ProgramRun states = llmc({"plan", recurrent, "--calibrate=self"});
  EXPECT_EQ(states.code, 4);
  EXPECT_THAT(states.err, HasSubstr("is a state"));
}

}  // namespace
}  // namespace llmc::tests
#endif
