// Models that are compiled with --accelerate: the bits of the CPU alone, and what the commands say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "compiler/driver/golden.h"
#include "compiler/evaluate/identity.h"
#include "compiler/evaluate/verify.h"
#include "compiler/support/file.h"
#include "tests/end_to_end/models.h"
#include "tests/end_to_end/program.h"
#include "tests/support/opencl.h"
#include "tests/support_onnx/tiny_encoder_decoder.h"

namespace llmc::tests {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Ids = std::vector<std::int32_t>;

/// The device `reference`; `simulated`, to which rows cross quantized; or `opencl` where the system
/// has one, in the memory of the CPU and with copies.
class Device : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!is_opencl()) return;
    const std::string missing = missing_opencl();
    if (!missing.empty()) GTEST_SKIP() << missing;
  }
  static bool copies() { return GetParam() == std::string_view("opencl_copies"); }
  static bool is_opencl() { return name() == "opencl"; }
  static std::string name() { return copies() ? "opencl" : GetParam(); }
  static driver::CompileOptions accelerated(const fs::path& model, passes::QuantScheme format) {
    driver::CompileOptions options = options_for(model, "avx2", format);
    options.accelerate = name();
    return options;
  }
  /// Compiles and loads a model for the device.
  static std::unique_ptr<exec::NativeModel> load_for_device(const driver::CompileOptions& compile) {
    exec::NativeOptions options;
    options.compile = compile;
    options.opencl_copies = copies();
    auto model = exec::load_native(options);
    if (!model.ok()) expect_ok(model.error());
    return model.ok() ? *std::move(model) : nullptr;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, Device,
                         ::testing::Values("reference", "simulated", "opencl", "opencl_copies"),
                         [](const auto& info) { return std::string(info.param); });

/// What does not differ between devices.
class DeviceRuns : public Device {};
INSTANTIATE_TEST_SUITE_P(Devices, DeviceRuns, ::testing::Values("reference", "opencl_copies"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(Device, HashesAreThoseOfTheCpu) {
  const auto golden = driver::read_golden(driver::default_golden_file(tinyfable()));
  ASSERT_TRUE(golden.ok());
  for (const auto format : {ir::WeightFormat::kQ4, ir::WeightFormat::kF32}) {
    if (is_opencl() && format == ir::WeightFormat::kF32) continue;  // tests/opencl has all formats
    evaluate::VerifyOptions options;
    options.native.compile = accelerated(tinyfable(), format);
    options.native.opencl_copies = copies();
    options.native.compile.ctx = 256;
    options.native.compile.chunk = 32;
    options.native.compile.in_flight = 3;
    options.reference = false;
    options.long_run = format == ir::WeightFormat::kQ4;
    options.threads = 2;
    const auto report = evaluate::verify_model(options);
    if (!report.ok()) expect_ok(report.error());
    ASSERT_TRUE(report.ok());
    for (const evaluate::VerifyRun& run : report->runs) {
      EXPECT_EQ(run.hash, golden->hashes.at(run.golden_key)) << run.golden_key;
      EXPECT_TRUE(run.chunks_ok());
    }
    EXPECT_EQ(report->runs.size(), options.long_run ? 2u : 1u);
    ASSERT_TRUE(report->device);
    EXPECT_GT(report->device->jobs, 0u);
    EXPECT_EQ(report->device->copied_bytes > 0, copies());
  }
}

TEST_P(DeviceRuns, AnyChunkInFlightAndThreadGivesTheSameBits) {
  driver::CompileOptions plain = options_for(tinyfable(), "avx2", passes::kQ4Mixed);
  plain.ctx = 128;
  const auto alone = load(plain);
  ASSERT_NE(alone, nullptr);
  const Generated expected = generate(*alone, made_up_prompt(60, 40), 4);
  for (const std::uint32_t in_flight : is_opencl() ? std::vector{3u} : std::vector{1u, 3u}) {
    driver::CompileOptions options = accelerated(tinyfable(), passes::kQ4Mixed);
    options.ctx = plain.ctx;
    options.chunk = 32;
    options.in_flight = in_flight;
    const auto model = load_for_device(options);
    ASSERT_NE(model, nullptr);
    auto session = model->start(1);
    ASSERT_TRUE(session.ok());
    ASSERT_TRUE((*session)->prefill(made_up_prompt(60, 40)).ok());
    // Two chunks of four layers: the regions before the first attention, between, and at the end.
    ASSERT_TRUE((*session)->device_use());
    EXPECT_EQ((*session)->device_use()->jobs, 2 * (model->model().layers + 1));
    for (const std::uint32_t threads : {1u, 3u}) {
      for (const std::uint32_t chunk : {5u, 16u, 0u}) {
        const Generated found =
            generate(*model, made_up_prompt(60, 40), 4, {.threads = threads, .chunk = chunk});
        EXPECT_EQ(found.ids, expected.ids);
        EXPECT_EQ(found.logit_hash, expected.logit_hash)
            << in_flight << " in flight, " << threads << " threads, chunk " << chunk;
      }
    }
  }
}

TEST_P(DeviceRuns, EncoderDecodersHaveTheSameBits) {
  const testing::TemporaryFolder folder;
  testing::write_tiny_encoder_decoder(folder.path(), {});
  std::string hashes[2];
  for (const bool with_device : {false, true}) {
    driver::CompileOptions options = options_for(folder.path(), "avx2", ir::WeightFormat::kF32);
    options.chunk = 1024;
    if (with_device) options.accelerate = "reference";
    const auto model = load_for_device(options);
    ASSERT_NE(model, nullptr);
    auto session = model->start(exec::SessionOptions{.threads = 2, .chunk = 9, .device = name()});
    ASSERT_TRUE(session.ok());
    ASSERT_TRUE((*session)->encode({.ids = {5, 17, 20, 2, 9, 7, 16}, .features = {}}).ok());
    Ids prompt = made_up_prompt(40, 40);
    for (std::int32_t& id : prompt) id %= 20;
    const auto status = (*session)->prefill(prompt);
    if (!status.ok()) return expect_ok(status.error());
    const auto logits = (*session)->logits();
    ASSERT_TRUE(logits.ok() && !logits->empty());
    EXPECT_EQ((*session)->device_use().has_value(), with_device);
    if (with_device) EXPECT_GT((*session)->device_use()->jobs, 0u);
    hashes[with_device].assign(reinterpret_cast<const char*>(logits->data()), logits->size_bytes());
  }
  EXPECT_EQ(hashes[0], hashes[1]);
}

TEST(Devices, IdentityRunsThem) {
  evaluate::IdentityOptions options;
  options.models = {tinyfable()};
  options.targets = {"avx2"};
  options.devices = {"", "reference"};
  options.threads = {2};
  options.chunks = {5, 12};
  options.tokens = 12;
  options.steps = 2;
  options.native.compile.cflags = {"-O0"};
  const auto report = evaluate::measure_identity(options);
  ASSERT_TRUE(report.ok()) << llmc::format(report.error().first());
  ASSERT_EQ(report->rows.size(), 1u);
  ASSERT_EQ(report->rows[0].cells.size(), 2u);
  EXPECT_EQ(report->rows[0].cells[0].jobs, 0u);
  EXPECT_GT(report->rows[0].cells[1].jobs, 0u);
  EXPECT_EQ(report->differences(), 0u);
}

#ifdef LLMC_PROGRAM
TEST(AccelerateOption, PlanShowsTheRegions) {
  const ProgramRun planned =
      llmc({"plan", tinyfable().string(), "--accelerate", "reference", "--chunk", "64"});
  ASSERT_EQ(planned.code, 0) << planned.err;
  EXPECT_THAT(planned.out, AllOf(HasSubstr("accelerator reference: 100.0 % of the multiply-adds"),
                                 HasSubstr("chunks of 64 tokens, 2 at the same time"),
                                 HasSubstr("x f32[64, 192] -> product f32[64, 320]"),
                                 HasSubstr("attention_out, gate_up, down")));
  const ProgramRun json =
      llmc({"plan", tinyfable().string(), "--accelerate", "reference", "--json"});
  ASSERT_EQ(json.code, 0) << json.err;
  const auto plan = nlohmann::json::parse(json.out);
  EXPECT_EQ(plan["accelerator"]["regions"].size(), 2u);
  EXPECT_EQ(plan["accelerator"]["multiply_adds"], plan["accelerator"]["all_multiply_adds"]);
}

TEST(AccelerateOption, RunSaysWhatTheDeviceComputed) {
  const ProgramRun ran = llmc({"run", tinyfable().string(), "--accelerate", "reference", "--target",
                               "avx2", "--cflag", "-O0", "-p", "Once", "-n", "1", "-v"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.err, ::testing::ContainsRegex("accelerator reference: [1-9][0-9]* jobs?, "));
  const auto summary = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"run", tinyfable().string(), "--target", "avx2", "--cflag", "-O0",
                               "-p", "Once", "-n", "1", "--json"});
    const ProgramRun json = llmc(more);
    EXPECT_EQ(json.code, 0) << json.err;
    const std::size_t line = json.out.rfind('\n', json.out.size() - 2) + 1;
    auto last = nlohmann::json::parse(json.out.substr(line), nullptr, false);
    EXPECT_TRUE(last.contains("done")) << json.out;
    return last;
  };
  EXPECT_GT(summary({"--accelerate", "reference", "--beams", "2"})["accelerator"]["jobs"], 0);
  EXPECT_GT(summary({"--accelerate", "reference"})["accelerator"]["jobs"], 0);
  EXPECT_FALSE(summary({}).contains("accelerator"));
}

TEST(AccelerateOption, PlanDrawsATimeline) {
  const testing::TemporaryFolder folder;
  const std::string svg = (folder.path() / "timeline.svg").string();
  const ProgramRun planned = llmc({"plan", tinyfable().string(), "--accelerate", "simulated",
                                   "--timeline", "1024", "--ctx", "1024", "--timeline-svg", svg});
  ASSERT_EQ(planned.code, 0) << planned.err;
  EXPECT_THAT(planned.out, AllOf(HasSubstr("a prompt of 1024 tokens in 8 chunks of 128"),
                                 HasSubstr("device  "), HasSubstr("the bound of")));
  const auto file = read_file(svg);
  ASSERT_TRUE(file.ok());
  EXPECT_THAT(*file, HasSubstr("</svg>"));
}

TEST(AccelerateOption, MistakesAreUsageErrors) {
  const std::string model = tinyfable().string();
  const auto refused = [&](std::vector<std::string> more, const char* said) {
    more.insert(more.begin(), {"plan", model});
    const ProgramRun ran = llmc(more);
    EXPECT_EQ(ran.code, 2) << ran.err;
    EXPECT_THAT(ran.err, HasSubstr(said));
    EXPECT_EQ(ran.out, "");
  };
  refused({"--accelerate", "npu"}, "--accelerate takes none, reference, opencl, simulated");
  refused({"--accelerate", "reference", "--in-flight", "9"}, "--in-flight");
  refused({"--in-flight", "3"}, "--accelerate");
  const ProgramRun other = llmc({"verify", model, "--opencl-device", "x", "--cflag", "-O0"});
  EXPECT_EQ(other.code, 2) << other.err;
  EXPECT_THAT(other.err, HasSubstr("--opencl-device needs a model that was compiled for opencl"));
  const ProgramRun identity = llmc({"identity", model, "--accelerate", "none,npu"});
  EXPECT_EQ(identity.code, 2) << identity.err;
  EXPECT_THAT(identity.err, HasSubstr("there is no accelerator 'npu'"));
  refused({"--timeline", "64"}, "--timeline needs --accelerate");
  refused({"--accelerate", "reference", "--timeline-svg", "x.svg"}, "--timeline-svg needs");
}

TEST(AccelerateOption, RunGivesTheTextOfTheCpu) {
  const std::vector<std::string> common = {
      "run", tinyfable().string(), "-p",   "Once upon a time", "-n", "12", "--temp", "0",
      "-q",  "--target",           "avx2", "--cflag=-O0",      "-t", "2"};
  const ProgramRun plain = llmc(common);
  std::vector<std::string> more = common;
  more.insert(more.end(), {"--accelerate", "reference"});
  const ProgramRun with_device = llmc(more);
  ASSERT_EQ(plain.code, 0) << plain.err;
  ASSERT_EQ(with_device.code, 0) << with_device.err;
  EXPECT_EQ(with_device.out, plain.out);
}
#endif

}  // namespace
}  // namespace llmc::tests
