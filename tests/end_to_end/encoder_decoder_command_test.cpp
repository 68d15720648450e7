// The commands of llmc with encoder-decoders.
#include <gmock/gmock.h>

#include "tests/end_to_end/run_command.h"
#include "tests/support_onnx/tiny_encoder_decoder.h"

#ifdef LLMC_PROGRAM
namespace llmc::tests {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

TEST_F(EncoderDecoderCommand, PlanAndInspectShowBothParts) {
  const ProgramRun plan = llmc({"plan", model(), "--source-ctx", "64", "--json"});
  ASSERT_EQ(plan.code, 0) << plan.err;
  // 2 layers, keys and values of 4 heads of 4 for 64 tokens, 4 bytes each
  EXPECT_EQ(json::parse(plan.out)["source"]["bytes"], 2 * 2 * 4 * 4 * 64 * 4);
  const ProgramRun inspected = llmc({"inspect", model()});
  EXPECT_EQ(inspected.code, 0);
  EXPECT_THAT(inspected.out, HasSubstr("layers 2,"));
  EXPECT_THAT(inspected.out, HasSubstr("2 attention, 2 cross-attention"));
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
