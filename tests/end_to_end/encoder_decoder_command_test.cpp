// The commands of llmc with encoder-decoders.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "tests/end_to_end/run_command.h"
#include "tests/support_onnx/tiny_encoder_decoder.h"

#ifdef LLMC_PROGRAM
namespace llmc::tests {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class EncoderDecoderCommand : public ::testing::Test {
 protected:
  using json = nlohmann::json;

  void SetUp() override { testing::write_tiny_encoder_decoder(folder_.path()); }
  void write(const std::string& name, const std::string& text) {
    EXPECT_TRUE(write_file(folder_.path() / name, text).ok());
  }
  std::string model() const { return folder_.path().string(); }
  static ProgramRun run(const std::string& model, std::vector<std::string> more) {
    more.insert(more.begin(), {"run", model, "--temp", "0", "-n", "6", "-t", "1"});
    return llmc(more);
  }
  ProgramRun run_quick(std::vector<std::string> more) {
    more.insert(more.end(), {"--target", "generic", "--cflag=-O0"});
    return run(model(), more);
  }
  static json summary(const ProgramRun& ran) {
    EXPECT_EQ(ran.code, 0) << ran.err;
    return json::parse(last_line(ran.out), nullptr, false);
  }

  testing::TemporaryFolder folder_;
};

TEST_F(EncoderDecoderCommand, RunStartsAsTheModelsFilesSay) {
  EXPECT_THAT(run_quick({"--source-ids", "5,17"}).err, HasSubstr("decoder_start_token_id"));
  write("generation_config.json",
        R"({"decoder_start_token_id": 2, "forced_bos_token_id": 5, "eos_token_id": 23})");
  const json by_files = summary(run_quick({"--source-ids", "5,17,3", "--json"}));
  EXPECT_THAT(by_files["prompt_ids"], ElementsAre(2, 5));
  const json by_ids = summary(run_quick({"--source-ids", "5,17,3", "--ids", "2,5", "--json"}));
  EXPECT_EQ(by_files["logits_hash"], by_ids["logits_hash"]);
  const json other = summary(run_quick({"--source-ids", "5,17,4", "--ids", "2,5", "--json"}));
  EXPECT_NE(other["logits_hash"], by_ids["logits_hash"]);
}

TEST_F(EncoderDecoderCommand, IdsBeforeAStopTokenAreNotCalledBlank) {
  const auto run = [&](const char* form) {
    return run_quick({"--source-ids", "5,17,3", "--ids", "2,5", "--ignore-eos", form});
  };
  const json ids = summary(run("--json"))["ids"];
  const auto other = std::ranges::find_if(ids, [&](const json& id) { return id != ids[0]; });
  ASSERT_NE(other, ids.end()) << ids;
  write("generation_config.json", fmt::format(R"({{"eos_token_id": {}}})", other->get<int>()));
  const ProgramRun stopped = run_quick({"--source-ids", "5,17,3", "--ids", "2,5"});
  ASSERT_EQ(stopped.code, 0) << stopped.err;
  EXPECT_NE(stopped.out, "\n");
  EXPECT_THAT(stopped.err, HasSubstr("ended with a stop token"));
  EXPECT_THAT(stopped.err, Not(HasSubstr("no text was generated"))) << "there is no tokenizer";
}

TEST_F(EncoderDecoderCommand, StartTokensOutsideTheVocabularyAreRefused) {
  write("generation_config.json", R"({"decoder_start_token_id": 2, "forced_bos_token_id": 24})");
  const ProgramRun planned = llmc({"plan", model(), "--target", "generic"});
  EXPECT_EQ(planned.code, 3);
  EXPECT_THAT(planned.err, HasSubstr("the start token 24 is not below the vocabulary of 24"));
}

TEST_F(EncoderDecoderCommand, BundlesKeepTheStartAndTheLimitOfTheSource) {
  write("generation_config.json", R"({"decoder_start_token_id": 2})");
  const std::string bundle = (folder_.path() / "bundle").string();
  const ProgramRun made = llmc({"compile", model(), "-o", bundle, "--target", "generic",
                                "--cflag=-O0", "--source-ctx", "4", "-q"});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(summary(run(bundle, {"--source-ids", "5,17,3,1", "--json"}))["prompt_ids"],
              ElementsAre(2));
  const ProgramRun longer = run(bundle, {"--source-ids", "5,17,3,1,2"});
  EXPECT_EQ(longer.code, 2);
  EXPECT_THAT(longer.err, HasSubstr("the source has 5 tokens, and the model was compiled for 4"));
  EXPECT_THAT(longer.err, HasSubstr("hint: give a shorter source, or compile the model with "
                                    "--source-ctx 5, if its encoder takes as many\n"));
  EXPECT_EQ(llmc({"verify", bundle, "--no-require-golden"}).code, 0);
}

TEST_F(EncoderDecoderCommand, MissingAndUnusedSourcesAreRefused) {
  const ProgramRun without = run_quick({"--ids", "2"});
  EXPECT_EQ(without.code, 2);
  EXPECT_THAT(without.err, HasSubstr("needs a source"));
  EXPECT_THAT(without.err, HasSubstr("--source-ids"));
  EXPECT_EQ(run_quick({"--ids", "2", "--source-ids", "5,x"}).code, 2);
  EXPECT_EQ(run_quick({"--ids", "2", "--source-ids", "5,24"}).code, 3);
  EXPECT_EQ(run_quick({"--source", "text"}).code, 3);
  const ProgramRun decoder = run(tinyfable().string(), {"--ids", "2", "--source-ids", "5",
                                                        "--target", "generic", "--cflag=-O0"});
  EXPECT_EQ(decoder.code, 2);
  EXPECT_THAT(decoder.err, HasSubstr("has no encoder"));
  const ProgramRun size = llmc({"plan", tinyfable().string(), "--source-ctx", "4"});
  EXPECT_EQ(size.code, 2);
  EXPECT_THAT(size.err, HasSubstr("--source-ctx needs an encoder-decoder"));
}

TEST_F(EncoderDecoderCommand, SeveralSourcesAreDecodedTogether) {
  write("generation_config.json",
        R"({"decoder_start_token_id": 2, "eos_token_id": 23, "begin_suppress_tokens": [9, 3]})");
  const std::vector<std::string> sources{"5,17,3", "5", "11,3,15,2"};
  std::vector<std::string> arguments{"--json"};
  for (const std::string& ids : sources) arguments.insert(arguments.end(), {"--source-ids", ids});
  const json together = summary(run_quick(arguments));
  ASSERT_EQ(together["texts"].size(), sources.size());
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const json alone = summary(run_quick({"--json", "--source-ids", sources[i]}));
    for (const char* const field : {"ids", "logits_hash", "stopped"})
      EXPECT_EQ(together["texts"][i][field], alone[field]) << sources[i] << ", " << field;
  }
  const ProgramRun text = run_quick({"--source-ids", "5,17,3", "--source-ids", "5"});
  EXPECT_EQ(std::ranges::count(text.out, '\n'), 2) << text.out;
  const ProgramRun beams =
      llmc({"run", model(), "--source-ids", "5", "--source-ids", "6", "--beams", "2"});
  EXPECT_EQ(beams.code, 2);
  EXPECT_THAT(beams.err, HasSubstr("--beams takes a single source"));
}

TEST_F(EncoderDecoderCommand, BundlesHaveACertainNumberOfSources) {
  write("generation_config.json", R"({"decoder_start_token_id": 2, "forced_bos_token_id": 5})");
  const std::string bundle = (folder_.path() / "bundle").string();
  const ProgramRun made =
      llmc({"compile", model(), "-o", bundle, "--target", "generic", "--cflag=-O0", "--sources",
            "2", "--sequences", "3", "--batch", "3", "--name", "tiny", "-q"});
  ASSERT_EQ(made.code, 0) << made.err;
  const auto header = read_file(std::filesystem::path(bundle) / "tiny.h");
  ASSERT_TRUE(header.ok());
  EXPECT_THAT(*header, HasSubstr("#define TINY_SOURCES 2u"));
  EXPECT_THAT(*header, HasSubstr("#define TINY_START_COUNT 2\n#define TINY_START_IDS {2, 5}\n"));
  const ProgramRun more =
      run(bundle, {"--source-ids", "5", "--source-ids", "6", "--source-ids", "7"});
  EXPECT_EQ(more.code, 2);
  EXPECT_THAT(more.err, HasSubstr("compile it with --sources=3 --sequences=3 --batch=3"));
  const ProgramRun beams =
      llmc({"run", bundle, "--source-ids", "5", "--beams", "3", "-n", "6", "--json"});
  EXPECT_EQ(summary(beams)["beams"].size(), 3u);
  const ProgramRun timed = llmc({"bench", bundle, "-r", "1", "-t", "1", "-p", "0", "-n", "4",
                                 "--n-parallel", "3", "--no-cache", "--n-source", "9", "--json"});
  ASSERT_EQ(timed.code, 0) << timed.err;
  EXPECT_EQ(json::parse(timed.out)["results"][0]["sequences"], 3);
  const ProgramRun decoder = llmc({"plan", tinyfable().string(), "--sources", "2"});
  EXPECT_EQ(decoder.code, 2);
  EXPECT_THAT(decoder.err, HasSubstr("--sources needs an encoder-decoder"));
}

TEST_F(EncoderDecoderCommand, GuidanceAttendsToTheSource) {
  std::string vocabulary;
  for (int id = 0; id < 24; ++id)
    vocabulary += std::string(id == 0 ? "" : ", ") + '"' + static_cast<char>('a' + id) +
                  "\": " + std::to_string(id);
  write("tokenizer.json", R"({"decoder": {"type": "Fuse"}, "model": {"type": "BPE", "vocab": {)" +
                              vocabulary + R"(}, "merges": []}})");
  const json guided = summary(run_quick({"--ids", "2", "--source-ids", "5,17", "--json",
                                         "--cfg-scale", "1.5", "--cfg-negative-prompt", "x"}));
  EXPECT_EQ(guided["ids"].size(), 6u);
}

TEST_F(EncoderDecoderCommand, CalibrationIsRefusedBeforeATextIsRead) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path out = folder.path() / "out";
  const ProgramRun ran =
      llmc({"compile", model(), "--calibrate", "self", "--cflag=-O0", "-o", out.string()});
  EXPECT_EQ(ran.code, 4);
  EXPECT_THAT(ran.err,
              HasSubstr("the model has an encoder, and --calibrate is for decoders without one"));
  EXPECT_FALSE(std::filesystem::exists(out));
  const ProgramRun planned = llmc({"plan", model(), "--calibrate", "self"});
  EXPECT_EQ(planned.code, 4);
  EXPECT_EQ(planned.err, ran.err);
}

TEST_F(EncoderDecoderCommand, PlanAndInspectShowBothParts) {
  const ProgramRun plan = llmc({"plan", model(), "--source-ctx", "64", "--json"});
  ASSERT_EQ(plan.code, 0) << plan.err;
  // 2 layers, keys and values of 4 heads of 4 for 64 tokens, 4 bytes each
  const json one = json::parse(plan.out);
  EXPECT_EQ(one["source"]["bytes"], 2 * 2 * 4 * 4 * 64 * 4);
  const ProgramRun several =
      llmc({"plan", model(), "--source-ctx", "64", "--json", "--sequences", "1", "--sources", "3"});
  ASSERT_EQ(several.code, 0) << several.err;
  const json three = json::parse(several.out);
  EXPECT_EQ(three["source"]["count"], 3);
  EXPECT_EQ(three["source"]["bytes"], one["source"]["bytes"]);
  EXPECT_EQ(three["bytes"]["arena"].get<int>() - one["bytes"]["arena"].get<int>(),
            2 * one["source"]["bytes"].get<int>());
  EXPECT_THAT(several.err, HasSubstr("--sources 3 is more than --sequences 1"));
  // Neither bytes nor numbers of the encoder count: with them it would be twice as many bits. The
  // rest above 32 is padding.
  EXPECT_THAT(llmc({"plan", model(), "--quant", "f32"}).out,
              ContainsRegex(" numbers, 3[0-9]\\.[0-9]+ bits each, without the encoder; "));
  // The encoder has a row in the weights and one in the scratch.
  EXPECT_THAT(llmc({"plan", model()}).out,
              AllOf(ContainsRegex("\n  encoder +[0-9]+ bytes .* all weights of the encoder\n"),
                    ContainsRegex("\n    encoder +[0-9]+ bytes .* part of the scratch")));
  const ProgramRun inspected = llmc({"inspect", model()});
  EXPECT_EQ(inspected.code, 0);
  EXPECT_THAT(inspected.out, HasSubstr("layers 2,"));
  EXPECT_THAT(inspected.out, HasSubstr("2 attention, 2 cross-attention"));
  EXPECT_THAT(inspected.out, HasSubstr("loops of the encoder: "));
  std::filesystem::remove(folder_.path() / "decoder_model.onnx");
  const ProgramRun part = llmc({"plan", model()});
  EXPECT_EQ(part.code, 3);
  EXPECT_THAT(part.err, HasSubstr("an encoder-decoder without decoder_model.onnx"));
}

TEST_F(EncoderDecoderCommand, BenchTimesTheEncoderToo) {
  const std::vector<std::string> usual{"bench", model(), "--target", "generic", "--cflag=-O0",
                                       "-r",    "1",     "-t",       "1",       "--json"};
  auto arguments = usual;
  arguments.insert(arguments.end(), {"-p", "4", "-n", "4", "--no-cache", "--n-source", "3,9"});
  const ProgramRun ran = llmc(arguments);
  ASSERT_EQ(ran.code, 0) << ran.err;
  std::vector<std::string> tests;
  const json report = json::parse(ran.out);
  for (const json& row : report["results"]) {
    tests.push_back(row["test"]);
    EXPECT_GT(row["tokens_per_second"], 0);
  }
  EXPECT_THAT(tests, ElementsAre("pp4", "tg4", "tg4 uncached", "enc3", "enc9"));
  arguments = usual;
  arguments.insert(arguments.end(), {"--n-source", "65"});
  EXPECT_THAT(llmc(arguments).err,
              HasSubstr("the source has 65 tokens, and the model was compiled"));
}

TEST_F(EncoderDecoderCommand, PerplexityIsOfATextAfterASource) {
  const auto ppl = [&](const std::string& source) {
    const ProgramRun ran =
        llmc({"ppl", model(), "--ids", "2,5,17,3,4,9,11", "--count", "all", "--source-ids", source,
              "--target", "generic", "--cflag=-O0", "--json"});
    EXPECT_EQ(ran.code, 0) << ran.err;
    return json::parse(ran.out, nullptr, false)["perplexity"].get<double>();
  };
  EXPECT_NE(ppl("1,2,3"), ppl("1,2,4"));
  const ProgramRun without = llmc(
      {"ppl", model(), "--ids", "2,5,17", "--count", "all", "--target", "generic", "--cflag=-O0"});
  EXPECT_EQ(without.code, 2);
  EXPECT_THAT(without.err, HasSubstr("needs a source"));
}

TEST_F(EncoderDecoderCommand, TheEncodersPositionsLimitTheSource) {
  const ProgramRun plan = llmc({"plan", model(), "--json"});
  ASSERT_EQ(plan.code, 0) << plan.err;
  EXPECT_EQ(json::parse(plan.out)["source"]["max"], 64);  // 66 rows with an offset of 2
  const ProgramRun more = llmc({"plan", model(), "--source-ctx", "65"});
  EXPECT_EQ(more.code, 2);
  EXPECT_THAT(more.err, HasSubstr("the encoder has only 64 positions"));
}

}  // namespace
}  // namespace llmc::tests
#endif
