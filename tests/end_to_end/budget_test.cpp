// Formats that are chosen for a budget: --fit and --max-kl.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "compiler/support/file.h"
#include "tests/end_to_end/models.h"
#include "tests/end_to_end/program.h"

#ifdef LLMC_PROGRAM
namespace llmc::tests {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Arguments = std::vector<std::string>;
using Json = nlohmann::json;

class Budget : public ::testing::Test {
 protected:
  ProgramRun run(const std::string& command, Arguments more,
                 const std::string& model = tinyfable().string()) {
    more.insert(more.begin(), {command, model});
    return llmc(more);  // in the program's cache: what is measured serves all tests
  }
  /// A plan whose formats are measured with the shipped text.
  Json plan(Arguments more) {
    more.insert(more.end(), {"--calibrate", text(), "--json"});
    const ProgramRun ran = run("plan", more);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return Json::parse(ran.out, nullptr, false);
  }
  static std::string text() { return (tinyfable() / "heldout.txt").string(); }

  testing::TemporaryFolder folder_;
};

std::uint64_t weights_of(const Json& plan) {
  return plan["bytes"]["weights"].get<std::uint64_t>();
}

TEST_F(Budget, FitChoosesFormatsWithinTheBytes) {
  const std::uint64_t least = weights_of(plan({"--quant=q4"})),
                      most = weights_of(plan({"--quant=q8"}));
  double divergence = 1;
  for (const std::uint64_t bytes : {least, (2 * least + most) / 3, most}) {
    const Json planned = plan({"--fit", std::to_string(bytes)});
    EXPECT_LE(weights_of(planned), bytes);
    EXPECT_GT(weights_of(planned), bytes * 97 / 100) << "the budget is used";
    const Json& budget = planned["budget"];
    EXPECT_EQ(budget["fit"], bytes);
    EXPECT_EQ(budget["weights"], weights_of(planned));
    EXPECT_LT(budget["estimated_kl"], divergence);
    divergence = budget["estimated_kl"];
    // The estimate is a sum of effects of single matrices.
    EXPECT_LT(budget["measured_kl"], 1.5 * divergence);
    EXPECT_GT(budget["measured_kl"], 0.5 * divergence);
    double shares = 0, of_weights = 0;
    for (const Json& matrices : budget["matrices"]) shares += matrices["loss_share"].get<double>();
    for (const Json& weight : planned["weights"]) of_weights += weight.value("loss_share", 0.0);
    EXPECT_NEAR(shares, 1, 1e-9);
    EXPECT_NEAR(of_weights, 1, 1e-9);
    std::set<std::string> formats;
    for (const Json& weight : planned["weights"])
      if (weight.contains("loss_share")) formats.insert(weight["format"].get<std::string>());
    if (bytes == most) EXPECT_EQ(formats, std::set<std::string>{"q8"});
    if (bytes != least && bytes != most) EXPECT_GT(formats.size(), 1u);
  }
}

TEST_F(Budget, ATooSmallOneNamesTheLeast) {
  const std::uint64_t least = [&] {
    const ProgramRun ran = run("plan", {"--fit", "100kB", "--calibrate", text()});
    EXPECT_EQ(ran.code, 5);
    EXPECT_THAT(ran.err, AllOf(HasSubstr("the weights need at least "), HasSubstr("use --fit ")));
    return std::stoull(ran.err.substr(ran.err.find("at least ") + 9));
  }();
  EXPECT_LE(weights_of(plan({"--fit", std::to_string(least)})), least);
}

TEST_F(Budget, MaxKlChoosesTheFewestBytes) {
  const Json coarse = plan({"--max-kl", "0.02"}), fine = plan({"--max-kl", "0.002"});
  EXPECT_LT(weights_of(coarse), weights_of(fine));
  EXPECT_LE(coarse["budget"]["measured_kl"], 0.02);
  EXPECT_LE(fine["budget"]["measured_kl"], 0.002);
  const ProgramRun ran = run("plan", {"--max-kl", "0.0000001", "--calibrate", text()});
  EXPECT_EQ(ran.code, 5);
  EXPECT_THAT(ran.err, HasSubstr("with q8 for all matrices it is"));
}

TEST_F(Budget, TheCompiledModelHasThePlansFormatsAndTheSameBitsOnEveryTarget) {
  const std::string bytes = "1.25MB";
  const Json planned = plan({"--fit", bytes});
  const ProgramRun table = run("plan", {"--fit", bytes, "--calibrate", text()});
  EXPECT_THAT(table.out, AllOf(HasSubstr("\nformats     --fit 1.19 MiB: "),
                               HasSubstr("% of the divergence\n")));
  const std::string out = (folder_.path() / "m").string();
  const Arguments compile{"--fit",       bytes,       "--calibrate",          text(), "-o", out,
                          "--cflag=-O0", "--ctx=128", "--target=generic,avx2"};
  const ProgramRun compiled = run("compile", compile);
  ASSERT_EQ(compiled.code, 0) << compiled.err;
  std::set<std::string> hashes;
  for (const char* target : {"generic", "avx2"}) {
    const std::string bundle = (fs::path(out) / (std::string("tinyfable-") + target)).string();
    const auto text = read_file(fs::path(bundle) / "tinyfable.plan.json");
    ASSERT_TRUE(text.ok());
    const Json made = Json::parse(*text);
    EXPECT_EQ(made["weights_xxh64"].get<std::string>().size(), 16u);
    EXPECT_EQ(weights_of(made), weights_of(planned));
    for (std::size_t i = 0; i < made["weights"].size(); ++i)
      EXPECT_EQ(made["weights"][i]["format"], planned["weights"][i]["format"]);
    if (!target::runs_here(**target::find(target))) continue;
    const ProgramRun verified =
        run("verify", {"--model", tinyfable().string(), "--short", "--no-require-golden", "--json"},
            bundle);
    ASSERT_EQ(verified.code, 0) << verified.err;
    hashes.insert(Json::parse(verified.out)["runs"][0]["hash"].get<std::string>());
  }
  EXPECT_EQ(hashes.size(), 1u);
}

TEST_F(Budget, OptionsThatExcludeEachOther) {
  const auto refused = [&](Arguments arguments, const std::string& message, int code = 2) {
    const ProgramRun ran = run("plan", arguments);
    EXPECT_EQ(ran.code, code) << ran.out;
    EXPECT_THAT(ran.err, HasSubstr(message));
  };
  refused({"--fit=1M", "--max-kl=1"}, "--fit and --max-kl cannot be combined");
  refused({"--fit=1M", "--quant=q8"}, "--fit chooses the formats that --quant sets");
  refused({"--max-kl=1", "--quant=q8"}, "--max-kl chooses the formats");
  refused({"--max-kl=-1"}, "--max-kl takes a number above 0");
  refused({"--fit=much"}, "--fit much is not a size");
  refused({"--fit=1.2"}, "--fit 1.2 is not a size");
  refused({"--fit=1M", "--function"}, "need a decoder", 4);
}

/// Experts as several exporters write them; q8 for all of these small models costs little.
TEST_F(Budget, ExpertsOfSampledModelsAreChosen) {
  const fs::path samples = shared_folder() / "onnx-samples";
  if (!fs::exists(samples)) GTEST_SKIP() << "there is no " << samples;
  std::string ids;
  for (int i = 0; i < 200; ++i) ids += std::to_string(i * 37 % 50) + " ";
  const std::string text = (folder_.path() / "ids.txt").string();
  ASSERT_TRUE(write_file(text, ids).ok());
  for (const char* sample :
       {"arch-mixtral-ts18-eager", "arch-olmoe-ts18-eager", "arch-qwen3_moe-dyn18-sdpa"}) {
    const ProgramRun ran =
        run("plan", {"--max-kl=1", "--calibrate", text, "--json"}, (samples / sample).string());
    ASSERT_EQ(ran.code, 0) << sample << ": " << ran.err;
    const Json planned = Json::parse(ran.out, nullptr, false);
    EXPECT_GT(planned["budget"]["measured_kl"], 0) << sample;
    for (const Json& weight : planned["weights"])
      if (weight["format"] == "q4") EXPECT_TRUE(weight.contains("loss_share")) << weight;
  }
}

TEST_F(Budget, ModelsThatCannotBeMeasuredAreRefused) {
  const fs::path samples = shared_folder() / "onnx-samples";
  if (!fs::exists(samples)) GTEST_SKIP() << "there is no " << samples;
  const auto refused = [&](const char* sample, const std::string& option,
                           const std::string& message) {
    const ProgramRun ran = run("plan", {option}, (samples / sample).string());
    EXPECT_EQ(ran.code, 4) << sample << ": " << ran.err;
    EXPECT_THAT(ran.err, HasSubstr(message));
  };
  refused("s2s-t5-ts18", "--fit=1M", "the model has an encoder, and --fit");
  refused("arch-mamba2-ts18-eager", "--fit=1M", "input 'state.0' is a state");
  refused("hfq-llama-ts18-int4-asym32", "--fit=1M", "no matrix whose format");
}

}  // namespace
}  // namespace llmc::tests
#endif
