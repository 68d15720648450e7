// llmc-random-model: what it writes compiles and runs, and what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/onnx/model.h"
#include "compiler/support/subprocess.h"
#include "tests/end_to_end/models.h"
#include "tests/support_onnx/decoder_runner.h"

#ifdef LLMC_RANDOM_MODEL_PROGRAM
namespace llmc::tests {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

CommandOutput random_model(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), LLMC_RANDOM_MODEL_PROGRAM);
  auto output = run_command(arguments);
  if (output.ok()) return *std::move(output);
  expect_ok(output.error());
  return {};
}

TEST(RandomModelProgram, WritesWhatCompilesAndRuns) {
  const testing::TemporaryFolder folder;
  const fs::path model = folder.path() / "tiny";
  const auto made = random_model({"tiny", "-o", model, "--seed", "5", "--layers", "2"});
  ASSERT_EQ(made.exit_code, 0) << made.standard_error;
  EXPECT_EQ(made.standard_error, "");

  const std::vector<std::int32_t> prompt{1, 300, 17, 4, 511, 90, 2, 33};
  const auto exact = load(options_for(model, "generic", ir::WeightFormat::kF32));
  ASSERT_NE(exact, nullptr);
  const auto imported = importer::import_model(model);
  ASSERT_TRUE(imported.ok());
  const auto expected = testing::DecoderRunner(*imported).greedy({prompt.begin(), prompt.end()}, 6);
  ASSERT_TRUE(expected.ok());
  const auto ids = generate(*exact, prompt, 6).ids;
  EXPECT_EQ(std::vector<std::int64_t>(ids.begin(), ids.end()), *expected);

  const auto q4 = load(options_for(model, "generic", passes::kQ4Mixed));
  ASSERT_NE(q4, nullptr);
  EXPECT_EQ(generate(*q4, prompt, 6).ids.size(), 6u);
}

TEST(RandomModelProgram, ListsItsShapes) {
  const auto list = random_model({"--list"});
  EXPECT_EQ(list.exit_code, 0);
  EXPECT_THAT(list.standard_output, HasSubstr("qwen1.5-1.8b"));
  EXPECT_THAT(list.standard_output, HasSubstr("1836828672"));
}

TEST(RandomModelProgram, RefusesWhatItCannotDo) {
  const testing::TemporaryFolder folder;
  const std::string out = folder.path() / "m";
  const auto refused = [&](const std::vector<std::string>& arguments, int code,
                           const std::string& words) {
    const auto ran = random_model(arguments);
    EXPECT_EQ(ran.exit_code, code) << words;
    EXPECT_THAT(ran.standard_error, HasSubstr(words));
    EXPECT_EQ(ran.standard_output, "");
    EXPECT_EQ(entries(folder.path()), 0u) << words;
  };
  refused({}, 2, "a shape and a folder");
  refused({"tiny"}, 2, "a shape and a folder");
  refused({"giant", "-o", out}, 2, "no shape is called 'giant'");
  refused({"tiny", "-o", out, "--layers", "0"}, 2, "--layers");
  refused({"tiny", "-o", out, "--seed", "x"}, 2, "--seed");
  refused({"tiny", "-o", "/proc/none/m"}, 3, "/proc/none");
}

}  // namespace
}  // namespace llmc::tests
#endif
