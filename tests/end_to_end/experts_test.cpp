// Decoders whose tokens choose experts.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <nlohmann/json.hpp>

#include "compiler/onnx/model.h"
#include "compiler/support/file.h"
#include "compiler/support/subprocess.h"
#include "tests/end_to_end/cross.h"
#include "tests/end_to_end/last_line.h"
#include "tests/end_to_end/models.h"
#include "tests/end_to_end/program.h"
#include "tests/support_onnx/decoder_runner.h"

#if defined(LLMC_RANDOM_MODEL_PROGRAM) && defined(LLMC_PROGRAM)
namespace llmc::tests {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class Experts : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto made =
        run_command({LLMC_RANDOM_MODEL_PROGRAM, "tiny-moe", "-o", model(), "--layers", "2"});
    ASSERT_TRUE(made.ok());
    ASSERT_EQ(made->exit_code, 0) << made->standard_error;
  }
  std::string model() const { return (folder_.path() / "moe").string(); }
  /// A file with ids that calibrate the model.
  std::string text() const {
    std::string ids;
    for (const std::int32_t id : prompt()) ids += fmt::format("{} {} {} ", id, id / 2, id / 3);
    const std::string path = (folder_.path() / "ids.txt").string();
    EXPECT_TRUE(write_file(path, ids).ok());
    return path;
  }
  static std::vector<std::int32_t> prompt() {
    std::vector<std::int32_t> ids;
    for (std::int32_t i = 0; i < 39; ++i) ids.push_back((i * 37 + 5) % 512);
    return ids;
  }

  const testing::TemporaryFolder folder_;
};

TEST_F(Experts, AreChosenForABudget) {
  const auto plan = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"plan", model(), "--calibrate", text(), "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramRun ran = llmc(arguments);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return json::parse(ran.out, nullptr, false);
  };
  const auto weights = [](const json& planned) {
    return planned["bytes"]["weights"].get<std::uint64_t>();
  };
  const std::uint64_t least = weights(plan({"--quant=q4"})), most = weights(plan({"--quant=q8"}));
  const std::uint64_t middle = (2 * least + most) / 3;
  const json fitted = plan({"--fit", std::to_string(middle)});
  EXPECT_LE(weights(fitted), middle);
  EXPECT_GT(weights(fitted), least + (middle - least) / 2)
      << "most of the weights belong to experts";
  std::uint64_t bytes = 0;
  for (const json& one : fitted["budget"]["matrices"]) {
    const auto role = one["role"].get<std::string>();
    if (role != "gate_up" && role != "down") continue;  // the experts of this model
    bytes += one["bytes"].get<std::uint64_t>();
    EXPECT_GT(one["loss_share"], 0);
  }
  EXPECT_GT(bytes, weights(fitted) / 2);
  EXPECT_GT(fitted["budget"]["measured_kl"], 0.5 * fitted["budget"]["estimated_kl"].get<double>());
  EXPECT_LT(fitted["budget"]["measured_kl"], 2 * fitted["budget"]["estimated_kl"].get<double>());
  const double loss = fitted["budget"]["measured_kl"];
  const json limited = plan({"--max-kl", std::to_string(loss)});
  EXPECT_LE(limited["budget"]["measured_kl"], loss);
  EXPECT_LT(weights(limited), most);
  const ProgramRun table =
      llmc({"plan", model(), "--calibrate", text(), "--fit", std::to_string(middle)});
  EXPECT_THAT(table.out, HasSubstr("\n  down "));
}

TEST_F(Experts, AreRoundedForAText) {
  const auto weights = [&](const std::string& calibrate, const std::string& out) {
    const std::string path = (folder_.path() / out).string();
    const ProgramRun ran =
        llmc({"compile", model(), "-o", path, "--calibrate", calibrate, "--name=m",
              "--weights=file", "--quant=q4", "--cflag=-O0", "--ctx=64"},
             {"XDG_CACHE_HOME=" + (folder_.path() / ("cache-" + out)).string()});
    EXPECT_EQ(ran.code, 0) << ran.err;
    const auto bytes = read_file(std::filesystem::path(path) / "m.weights.bin");
    EXPECT_TRUE(bytes.ok());
    return bytes.ok() ? *bytes : std::string();
  };
  const std::string first = weights(text(), "first");
  EXPECT_EQ(first, weights(text(), "second"));
  const std::string plain = weights("none", "plain");
  ASSERT_EQ(first.size(), plain.size());
  std::size_t different = 0;
  for (std::size_t i = 0; i < first.size(); ++i) different += first[i] == plain[i] ? 0 : 1;
  EXPECT_GT(different, first.size() / 4) << "most of the weights belong to experts";
}

TEST_F(Experts, GenerateWhatTheGraphComputes) {
  const auto exact = load(options_for(model(), "generic", ir::WeightFormat::kF32));
  ASSERT_NE(exact, nullptr);
  const auto imported = importer::import_model(model());
  ASSERT_TRUE(imported.ok());
  const auto ids = prompt();
  const auto expected = testing::DecoderRunner(*imported).greedy({ids.begin(), ids.end()}, 6);
  ASSERT_TRUE(expected.ok());
  const auto found = generate(*exact, ids, 6).ids;
  EXPECT_EQ(std::vector<std::int64_t>(found.begin(), found.end()), *expected);
}

TEST_F(Experts, HaveTheSameBitsForAllThreadsAndChunks) {
  const auto generic = load(options_for(model(), "generic", passes::kQ4Mixed));
  ASSERT_NE(generic, nullptr);
  const Generated expected = generate(*generic, prompt(), 6);
  for (const char* target : {"generic", "avx2"}) {
    if (!target::runs_here(**target::find(target))) continue;
    const auto native = load(options_for(model(), target, passes::kQ4Mixed));
    ASSERT_NE(native, nullptr);
    for (const std::uint32_t threads : {1u, 3u})
      for (const std::uint32_t chunk : {1u, 7u, 0u}) {
        const Generated found =
            generate(*native, prompt(), 6, {.threads = threads, .chunk = chunk});
        EXPECT_EQ(found.logit_hash, expected.logit_hash)
            << target << ", " << threads << " threads, chunk " << chunk;
      }
  }
}

TEST_F(Experts, HaveTheSameBitsOnOtherProcessors) {
  setenv("LLMC_CROSS_DIR", cross_folder().c_str(), 1);
  if (find_emulator("qemu-aarch64").empty()) LLMC_MISSING_CROSS("needs qemu-aarch64");
  const auto hash = [&](const std::string& target) {
    const ProgramRun ran =
        llmc({"run", model(), "--ids", "5,42,79,116,153,190,227", "-n", "4", "--temp", "0", "-t",
              "2", "--ctx", "64", "--target", target, "--cflag=-O0", "--json"});
    EXPECT_EQ(ran.code, 0) << ran.err;
    return json::parse(last_line(ran.out), nullptr, false).value("logits_hash", "");
  };
  const std::string here = hash("generic");
  EXPECT_EQ(hash("arm64"), here);
  EXPECT_EQ(hash("lasx"), here);
}

TEST_F(Experts, AreReadWhereTheyAreChosen) {
  const ProgramRun planned = llmc({"plan", model(), "--target", "generic", "--json"});
  ASSERT_EQ(planned.code, 0) << planned.err;
  const json plan = json::parse(planned.out, nullptr, false);
  const json& bytes = plan["bytes"];
  const auto all = bytes["weights"].get<std::uint64_t>();
  const auto read = bytes["weights_per_token"].get<std::uint64_t>();
  // Of each layer 2 of 8 experts, whose matrices have most of the bytes.
  EXPECT_LT(read, all / 2);
  EXPECT_LT(plan["model"]["parameters_per_token"].get<std::uint64_t>(),
            plan["model"]["parameters"].get<std::uint64_t>() / 2);
  const ProgramRun inspected = llmc({"inspect", model()});
  EXPECT_EQ(inspected.code, 0);
  EXPECT_THAT(inspected.out, HasSubstr("experts: 8"));
  EXPECT_THAT(inspected.out, HasSubstr("4 expert_linear"));
}

}  // namespace
}  // namespace llmc::tests
#endif
