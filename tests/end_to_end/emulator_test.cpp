// Code of other processors: run, verify, identity and test-onnx through runners and emulators.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "compiler/evaluate/identity.h"
#include "compiler/support/file.h"
#include "compiler/target/target.h"
#include "tests/end_to_end/cross.h"
#include "tests/end_to_end/last_line.h"
#include "tests/end_to_end/models.h"
#include "tests/end_to_end/program.h"
#include "tests/support_onnx/onnx_builder.h"

#ifdef LLMC_PROGRAM
namespace llmc::tests {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

/// What runners do with a plain command in front of them is tested on any machine.
constexpr const char* kNoEmulator = "env";

class Emulated : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("LLMC_CROSS_DIR", cross_folder().c_str(), 1);
    unsetenv("LLMC_EMULATOR");
  }

  /// The llmc program with a folder for temporary files of its own.
  ProgramRun llmc(std::vector<std::string> arguments,
                  const std::vector<std::string>& environment = {},
                  const std::string& program = LLMC_PROGRAM) {
    std::vector<std::string> variables{"TMPDIR=" + temporary_.path().string()};
    variables.insert(variables.end(), environment.begin(), environment.end());
    ProgramRun ran = tests::llmc(arguments, variables, program);
    EXPECT_EQ(entries(temporary_.path()), 0u) << "left behind";
    return ran;
  }
  static std::string model() { return tinyfable().string(); }
  /// A text that comes out of the shipped model.
  ProgramRun run(const std::string& target, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments{"run",
                                       model(),
                                       "-p",
                                       "Once upon a time",
                                       "-n",
                                       "12",
                                       "--ctx",
                                       "64",
                                       "--threads-max",
                                       "4",
                                       "--target",
                                       target,
                                       "--temp",
                                       "0.8",
                                       "--seed",
                                       "5",
                                       "-q",
                                       "--cflag=-O0"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return llmc(arguments);
  }

  testing::TemporaryFolder temporary_, folder_;
};

#define LLMC_NEEDS_TARGET(name) \
  if (!executable(**target::find(name))) LLMC_MISSING_CROSS(without_emulator(**target::find(name)))

TEST_F(Emulated, EveryTargetGivesTheSameBits) {
  evaluate::IdentityOptions options;
  options.models = {tinyfable()};
  options.threads = {1, 3};
  options.chunks = {1, 5, 12};
  options.tokens = 12;
  options.steps = 4;
  options.native.compile.cflags = {"-O0"};
  std::string without;
  for (const target::Target& target : target::all()) {
    if (executable(target)) {
      options.targets.emplace_back(target.name);
    } else if (!target.emulator.empty()) {
      without += " " + std::string(target.name);
    }
  }
  const auto report = evaluate::measure_identity(options);
  ASSERT_TRUE(report.ok()) << llmc::format(report.error().first());
  ASSERT_EQ(report->rows.size(), 1u);
  EXPECT_EQ(report->rows[0].cells.size(), 2 * options.targets.size());
  EXPECT_EQ(report->differences(), 0u);
  for (const evaluate::IdentityCell& cell : report->rows[0].cells) {
    EXPECT_EQ(cell.hash, report->rows[0].cells[0].hash) << cell.target << " " << cell.threads;
    EXPECT_EQ(cell.nan_logits, 0u);
  }
  if (!without.empty()) LLMC_MISSING_CROSS("equal; no emulator for" << without);
}

TEST_F(Emulated, ARunnerSaysWhatThisProcessSays) {
  const ProgramRun here = run("generic"),
                   runner = run("generic", {"--emulator", kNoEmulator, "-t", "3"});
  ASSERT_EQ(here.code, 0) << here.err;
  ASSERT_EQ(runner.code, 0) << runner.err;
  EXPECT_EQ(runner.out, here.out) << "with one draw a token";
  EXPECT_THAT(here.out, HasSubstr("Once upon a time"));
}

TEST_F(Emulated, AnArm64TextIsTheNativeOne) {
  LLMC_NEEDS_TARGET("arm64");
  const ProgramRun here = run("generic"), arm = run("arm64", {"-t", "2"});
  ASSERT_EQ(arm.code, 0) << arm.err;
  EXPECT_EQ(arm.out, here.out);
}

TEST_F(Emulated, BundlesWithTheirWeightsInside) {
  const std::string bundle = (folder_.path() / "fable").string();
  const ProgramRun made = llmc({"compile", model(), "-o", bundle, "--target", "generic", "-q",
                                "--cflag=-O0", "--ctx", "64"});
  ASSERT_EQ(made.code, 0) << made.err;
  const ProgramRun here =
      llmc({"run", bundle, "--ids", "1,2,3", "-n", "5", "--temp", "0", "--json"});
  const ProgramRun runner = llmc({"run", bundle, "--ids", "1,2,3", "-n", "5", "--temp", "0",
                                  "--json", "--emulator", kNoEmulator});
  ASSERT_EQ(runner.code, 0) << runner.err;
  EXPECT_EQ(nlohmann::json::parse(last_line(runner.out))["logits_hash"],
            nlohmann::json::parse(last_line(here.out))["logits_hash"]);
}

TEST_F(Emulated, ADamagedRunnerInTheCacheIsMadeAnew) {
  const fs::path cache = folder_.path() / "cache";
  const auto ran = [&] {
    return llmc({"run", model(), "--ids", "1,2", "-n", "2", "--temp", "0", "--target", "generic",
                 "--cflag=-O0", "-q", "--emulator", kNoEmulator},
                {"XDG_CACHE_HOME=" + cache.string()});
  };
  const ProgramRun first = ran();
  ASSERT_EQ(first.code, 0) << first.err;
  const auto runner = [&] {
    for (const auto& entry : fs::directory_iterator(cache / "llmc"))
      if (entry.path().filename().string().ends_with("-runner")) return entry.path() / "runner";
    return fs::path();
  };
  ASSERT_FALSE(runner().empty());
  const auto size = fs::file_size(runner());
  fs::resize_file(runner(), 0);
  const ProgramRun truncated = ran();
  EXPECT_EQ(truncated.code, 0) << truncated.err;
  EXPECT_EQ(fs::file_size(runner()), size);
  fs::resize_file(runner(), size / 2);
  EXPECT_EQ(ran().code, 0);
  fs::remove(runner());
  const ProgramRun missing = ran();
  EXPECT_EQ(missing.code, 0) << missing.err;
  EXPECT_EQ(missing.out, first.out);
}

TEST_F(Emulated, SessionsOfOneModelAreProcessesOfTheirOwn) {
  exec::NativeOptions options;
  options.compile = options_for(tinyfable(), "generic", passes::kQ4Mixed);
  options.compile.cflags = {"-O0"};
  options.emulator = kNoEmulator;
  const auto model = exec::load_native(options);
  ASSERT_TRUE(model.ok()) << llmc::format(model.error().first());
  EXPECT_EQ((*model)->emulator(), "/usr/bin/env");
  const auto one = (*model)->start(1), two = (*model)->start(2);
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_TRUE((*one)->logits()->empty()) << "nothing was run";
  const std::vector<std::int32_t> ids{5, 6, 7};
  ASSERT_TRUE((*one)->prefill(ids).ok());
  EXPECT_EQ((*one)->position(), 3u);
  EXPECT_EQ((*two)->position(), 0u);
  // What a session refuses leaves it as it was.
  EXPECT_FALSE((*one)->prefill(std::vector<std::int32_t>{-1}).ok());
  llmc_sampling wrong{};
  wrong.top_p = std::nanf("");
  EXPECT_FALSE((*one)->call(&exec::Api::set_sampling, &wrong).ok());
  EXPECT_FALSE((*one)->call(&exec::Api::rewind, 4).ok());
  EXPECT_EQ((*one)->position(), 3u);
  EXPECT_TRUE((*one)->step().ok());
  ASSERT_TRUE((*one)->call(&exec::Api::rewind, 2).ok());
  EXPECT_EQ((*one)->position(), 2u);
  EXPECT_FALSE((*one)->sample().ok()) << "no logits below the end";
}

/// y = (x w)[i], and data for it.
void write_function(const fs::path& folder) {
  testing::OnnxBuilder b(17);
  b.float_input("x", {3, 4});
  b.input("i", onnx::TensorProto::INT64, {2});
  std::vector<float> w(8), x(12);
  for (std::size_t k = 0; k < w.size(); ++k) w[k] = static_cast<float>(k) - 3;
  for (std::size_t k = 0; k < x.size(); ++k) x[k] = static_cast<float>(k) / 4;
  b.node("Gather", {b.node("MatMul", {"x", b.floats("w", {4, 2}, w)}), "i"}, {{"axis", 0}}, "y");
  b.float_output("y", {2, 2});
  b.save(folder / "model.onnx");
  const std::vector<std::int64_t> rows{2, 0};
  std::vector<float> y;
  for (const std::int64_t row : rows) {
    for (std::size_t c = 0; c < 2; ++c) {
      float sum = 0;
      for (std::size_t k = 0; k < 4; ++k)
        sum += x[static_cast<std::size_t>(row) * 4 + k] * w[k * 2 + c];
      y.push_back(sum);
    }
  }
  const auto save = [&](const char* file, const char* name, int type,
                        std::initializer_list<std::int64_t> dims, const auto& values) {
    onnx::TensorProto tensor;
    tensor.set_name(name);
    tensor.set_data_type(type);
    for (const std::int64_t dim : dims) tensor.add_dims(dim);
    tensor.set_raw_data(values.data(), values.size() * sizeof values[0]);
    testing::write_bytes(folder / file, tensor.SerializeAsString());
  };
  save("input_0.pb", "x", onnx::TensorProto::FLOAT, {3, 4}, x);
  save("input_1.pb", "i", onnx::TensorProto::INT64, {2}, rows);
  save("output_0.pb", "y", onnx::TensorProto::FLOAT, {2, 2}, y);
}

TEST_F(Emulated, FunctionsAgreeWithTestData) {
  write_function(folder_.path());
  const std::vector<std::string> command{
      "test-onnx", (folder_.path() / "model.onnx").string(), folder_.path().string(), "--rtol", "0",
      "--target"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), command.begin(), command.end());
    const ProgramRun ran = llmc(more);
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_THAT(ran.out, HasSubstr("1 of 1 data sets agree"));
  };
  with({"generic", "--emulator", kNoEmulator});
  LLMC_NEEDS_TARGET("lasx");
  with({"lasx"});
}

TEST_F(Emulated, WhatIsWrongWithAnEmulatorIsSaid) {
  const auto expect = [&](const std::string& emulator, int code, const std::string& words) {
    const ProgramRun ran = run("generic", {"--emulator", emulator});
    EXPECT_EQ(ran.code, code) << emulator << "\n" << ran.err;
    EXPECT_THAT(ran.err, HasSubstr(words)) << emulator;
    EXPECT_EQ(ran.out, "") << emulator;
    if (code == 6) EXPECT_THAT(ran.err, HasSubstr("\nhint: ")) << emulator;
  };
  expect("/bin/false", 6, "/bin/false did not run the compiled program (exit code 1)");
  expect("/nonexistent/qemu -cpu max", 6, "cannot run '/nonexistent/qemu'");
  expect("cat", 6, "sent an invalid reply");
  expect("  ", 2, "--emulator needs a command");
  expect("", 2, "--emulator needs a command");
  const std::string gone =
      write_script(folder_.path() / "gone", "echo 'no such \x1b[31mcpu' >&2; exit 7");
  expect(gone, 6, "(exit code 7)\n  no such \\x1b[31mcpu");
  const std::string killed = write_script(folder_.path() / "killed", "kill -9 $$");
  expect(killed, 6, "(signal 9)");
}

TEST_F(Emulated, ARunnerThatEndsInTheMiddleIsSaid) {
  // After the start and the sampling parameters its input ends: it does, too.
  const std::string early =
      write_script(folder_.path() / "early", "dd bs=1 count=300 2>/dev/null | \"$1\"");
  const ProgramRun ran = run("generic", {"--emulator", early});
  EXPECT_EQ(ran.code, 6) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("did not reply while the compiled program was running"));
}

TEST_F(Emulated, WithoutAnEmulator) {
  const std::string target =
      target::host_architecture() == target::Architecture::kLoongArch64 ? "arm64" : "lasx";
  // A copy, because emulators are searched next to the program.
  const fs::path program = folder_.path() / "llmc";
  fs::copy_file(LLMC_PROGRAM, program);
  const std::vector<std::string> nowhere{"PATH=/nonexistent", "LLMC_CROSS_DIR="};
  const ProgramRun ran = llmc({"verify", model(), "--target", target}, nowhere, program.string());
  EXPECT_EQ(ran.code, 6) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("was not found"));
  EXPECT_THAT(ran.err, HasSubstr("--emulator"));
  const ProgramRun named =
      llmc({"verify", model(), "--target", target},
           {nowhere[0], nowhere[1], "LLMC_EMULATOR=/nonexistent/emulator"}, program.string());
  EXPECT_EQ(named.code, 6) << named.err;
}

TEST_F(Emulated, AProcessorWithoutTheInstructionsIsAStatus) {
  LLMC_NEEDS_TARGET("arm64");
  const ProgramRun ran = run("arm64", {"--emulator", "qemu-aarch64 -cpu cortex-a72"});
  EXPECT_EQ(ran.code, 4) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("lacks instructions"));
  EXPECT_THAT(ran.err, HasSubstr("-cpu"));
}

TEST_F(Emulated, InstructionsOfAKernelAreCounted) {
  const fs::path plugins = cross_folder() / "plugins";
  if (!fs::exists(plugins / "count.so") || !fs::exists(plugins / "qemu-loongarch64"))
    LLMC_MISSING_CROSS("no counting emulator: tools/instructions/setup.sh builds it");
  // qemu parts a plugin's words at commas.
  fs::create_directories(folder_.path() / "a,b");
  fs::create_directory_symlink(plugins, folder_.path() / "a,b" / "plugins");
  const std::vector<std::string> command{
      "bench",   "--kernel",    "gemm", "--shape",  "24x64x3", "--target", "lasx",
      "--count", "--opt-level", "3",    "--format", "q4",      "-o",       "json"};
  const std::string place = "LLMC_CROSS_DIR=" + (folder_.path() / "a,b").string();
  const ProgramRun ran = llmc(command, {place});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto row = nlohmann::json::parse(ran.out)["results"][0];
  EXPECT_GT(row["instructions"], 0);
  EXPECT_GT(row["instructions"], row["vector_instructions"]);
  // The user's emulator goes before the one that is found.
  const ProgramRun named = llmc(command, {place, "LLMC_EMULATOR=/bin/false"});
  EXPECT_EQ(named.code, 6) << named.err;
  EXPECT_THAT(named.err, HasSubstr("no plugin found"));
}

TEST_F(Emulated, IdentityAsATable) {
  const ProgramRun ran =
      llmc({"identity", "--cflag=-O0", model(), "--targets", "generic", "-t", "1,2", "--chunk", "3",
            "--tokens", "4", "--steps", "1", "--emulator", "generic=env", "-o", "md"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("| model | weights | generic 1t | generic 2t |"));
  EXPECT_THAT(ran.out,
              ::testing::ContainsRegex("tinyfable \\| q4m, kv f16 \\| [0-9a-f]{16} \\| same \\|"));
  for (const auto& wrong : std::vector<std::vector<std::string>>{{"--emulator", "env"},
                                                                 {"--emulator", "arm64= "},
                                                                 {"--emulator", "arm65=env"},
                                                                 {"--targets", "pentium"},
                                                                 {"--chunk", "0"},
                                                                 {"--quant", "q4,q5"}}) {
    std::vector<std::string> arguments{"identity", model()};
    arguments.insert(arguments.end(), wrong.begin(), wrong.end());
    const ProgramRun refused = llmc(arguments);
    EXPECT_EQ(refused.code, 2) << wrong[0] << "\n" << refused.err;
  }
}

TEST_F(Emulated, IdentityTriesEmulators) {
  // One that is found by itself is left out when it does not work, one that was named is an error.
  fs::create_directories(folder_.path() / "cross/bin");
  for (const char* architecture : {"aarch64", "loongarch64"})
    write_script(folder_.path() / "cross/bin" / fmt::format("qemu-{}", architecture), "exit 3");
  const auto identity = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"identity", "--cflag=-O0", model(), "-t",
                                       "1",        "--chunk",     "3",     "--tokens",
                                       "4",        "--steps",     "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return llmc(arguments, {"LLMC_CROSS_DIR=" + (folder_.path() / "cross").string()});
  };
  const ProgramRun without = identity({});
  EXPECT_EQ(without.code, 0) << without.err;
  EXPECT_THAT(without.err, HasSubstr("lasx skipped: "));
  EXPECT_THAT(without.out, Not(HasSubstr("lasx 1t")));
  const ProgramRun named = identity({"--emulator", "lasx=/bin/false"});
  EXPECT_EQ(named.code, 6) << named.err;
  EXPECT_THAT(named.err, HasSubstr("/bin/false did not run the compiled program"));
}

TEST_F(Emulated, IdentityNamesTheFirstLogitThatDiffers) {
  LLMC_NEEDS_TARGET("generic");
  // The second target's code is replaced by that of a model with the same weights, other constants.
  const ModelFolder one, other({.norm_epsilon = 1e-2f});
  const std::string kept = (folder_.path() / "kept").string();
  const std::string keep =
      write_script(folder_.path() / "keep", "cp \"$1\" " + kept + "\nexec \"$@\"");
  const std::string swap = write_script(folder_.path() / "swap", "shift\nexec " + kept + " \"$@\"");
  const auto identity = [&](const ModelFolder& model, const std::string& targets,
                            const std::string& emulator) {
    return llmc({"identity", "--cflag=-O0", model.path().string(), "--targets", targets, "-t", "1",
                 "--chunk", "3", "--tokens", "4", "--steps", "1", "--emulator", emulator, "-o",
                 "md"});
  };
  const ProgramRun first = identity(other, "generic", "generic=" + keep);
  ASSERT_EQ(first.code, 0) << first.err;
  const ProgramRun ran = identity(one, "generic,avx2", "avx2=" + swap);
  EXPECT_EQ(ran.code, 7) << ran.err;
  EXPECT_THAT(ran.out, ::testing::ContainsRegex(
                           "q4m, kv f16 \\| [0-9a-f]{16} \\| \\*\\*[0-9a-f]{16}\\*\\* \\|"));
  EXPECT_THAT(ran.err, HasSubstr("tiny-model q4m, kv f16, avx2 1t: prompt in chunks of 3: logit 0 "
                                 "after position 0 is "));
  EXPECT_THAT(ran.err, HasSubstr("1 of 2 cells differ"));
}

TEST_F(Emulated, IdentityPrintsRowsBeforeAModelThatFails) {
  LLMC_NEEDS_TARGET("generic");
  const std::string bad = (folder_.path() / "bad.onnx").string();
  ASSERT_TRUE(write_file(bad, std::string_view("not a model")).ok());
  const ProgramRun ran = llmc({"identity", "--cflag=-O0", model(), bad, "--targets", "generic",
                               "-t", "1", "--chunk", "3", "--tokens", "4", "--steps", "1"});
  EXPECT_EQ(ran.code, 3) << ran.err;
  EXPECT_THAT(ran.out, ::testing::ContainsRegex("\ntinyfable +q4m, kv f16 +[0-9a-f]{16}\n"));
  EXPECT_THAT(ran.err, HasSubstr("4 prompt tokens in chunks of 3, then 1 greedy step; "));
  EXPECT_THAT(ran.err, HasSubstr("bad.onnx"));
}

}  // namespace
}  // namespace llmc::tests
#endif
