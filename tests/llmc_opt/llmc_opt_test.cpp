#include <gmock/gmock.h>

#include "compiler/support/file.h"
#include "compiler/support/subprocess.h"
#include "tests/support/temporary_folder.h"

/// The llmc-opt program, run as a user runs it.
namespace llmc {
namespace {

using ::testing::HasSubstr;

constexpr const char* kNorm = R"(graph @g(%x: f32[1, seq, 8]) {
  %two = constant f32[] {2}
  %p = pow %x, %two : f32[1, seq, 8]
  %m = reduce_mean %p {axes = [-1]} : f32[1, seq, 1]
  %eps = constant f32[] {1e-06}
  %a = add %m, %eps : f32[1, seq, 1]
  %s = sqrt %a : f32[1, seq, 1]
  %d = div %x, %s : f32[1, seq, 8]
  %w = constant f32[8] mapped "block_0.onnx:w"
  %y = mul %d, %w : f32[1, seq, 8]
  return %y
}
)";

class LlmcOpt : public ::testing::Test {
 protected:
  CommandOutput run(std::vector<std::string> arguments, std::string_view text = kNorm) {
    EXPECT_TRUE(write_file(input(), text).ok());
    arguments.insert(arguments.begin(), {LLMC_BINARY_DIR "/llmc-opt", input().string()});
    auto result = run_command(arguments);
    EXPECT_TRUE(result.ok()) << format(result.error().first());
    return result.ok() ? *result : CommandOutput{};
  }
  std::filesystem::path input() const { return folder_.path() / "graph.ir"; }

  const testing::TemporaryFolder folder_;
};

TEST_F(LlmcOpt, WithoutPassesPrintsTheGraph) {
  const auto result = run({"--stand-in"});
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_EQ(result.standard_error, "");
  // What it prints, it reads again.
  const auto again = run({"--stand-in"}, result.standard_output);
  EXPECT_EQ(again.standard_output, result.standard_output);
}

TEST_F(LlmcOpt, RunsNamedPassesAndThePipeline) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--stand-in", "--pass", "fuse_rms_norm", "--pass",
                                 "eliminate_dead", "--verify-each"},
        std::vector<std::string>{"--stand-in", "--pipeline"}}) {
    const auto result = run(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
    EXPECT_THAT(result.standard_output, HasSubstr("rms_norm %x, %w {epsilon = 1e-06}"));
    EXPECT_THAT(result.standard_output, HasSubstr("mapped \"block_0.onnx:w\""));
    EXPECT_THAT(result.standard_output, ::testing::Not(HasSubstr("pow")));
  }
}

TEST_F(LlmcOpt, FunctionsHaveTheirOwnAttention) {
  const std::string header = "graph @g(%q: f32[5, 4], %k: f32[4, 6], %v: f32[6, 4]";
  const std::string body =
      " { %s = matmul %q, %k %p = softmax %s {axis = -1} %y = matmul %p, %v return %y }";
  EXPECT_THAT(run({"--pipeline"}, header + ")" + body).standard_output,
              HasSubstr("scaled_attention"));
  const std::string decoder = header + ", %ids: i64[seq] {kind = token_ids})" + body;
  EXPECT_THAT(run({"--pipeline"}, decoder).standard_output,
              ::testing::Not(HasSubstr("scaled_attention")));
}

TEST_F(LlmcOpt, TimesGoToStandardError) {
  const auto result = run({"--stand-in", "--pipeline", "--time-passes"});
  EXPECT_THAT(result.standard_error, HasSubstr("fuse_rms_norm"));
  EXPECT_THAT(result.standard_error, HasSubstr("in all"));
  EXPECT_THAT(result.standard_output, ::testing::StartsWith("graph @g("));
}

TEST_F(LlmcOpt, DumpsTheGraphAfterEachPass) {
  const auto steps = folder_.path() / "steps";
  const auto result = run({"--stand-in", "--pass", "fuse_rms_norm", "--dump-ir", steps.string()});
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(steps)) {
    EXPECT_EQ(entry.path().extension(), ".ir");
    ++files;
  }
  EXPECT_EQ(files, 2u);  // before and after
}

TEST_F(LlmcOpt, EvaluatesOnMadeUpInputs) {
  const std::string text =
      "graph @g(%x: f32[seq, 2], %i: i64[seq]) { %y = abs %x %j = add %i, %i return %y, %j }";
  const auto first = run({"--eval", "--set", "seq=3"}, text);
  EXPECT_EQ(first.exit_code, 0) << first.standard_error;
  EXPECT_THAT(first.standard_output, HasSubstr("%y: f32[3, 2] {"));
  EXPECT_THAT(first.standard_output, HasSubstr("%j: i64[3] {0, 2, 4}"));
  EXPECT_EQ(run({"--eval", "--set", "seq=3"}, text).standard_output, first.standard_output);
  EXPECT_NE(run({"--eval", "--set", "seq=3", "--seed", "2"}, text).standard_output,
            first.standard_output);
  EXPECT_EQ(run({"--eval", "--set", "seq=x"}, text).exit_code, 2);
  EXPECT_EQ(run({"--eval", "--set", "seq=9223372036854775807"}, text).exit_code, 2);
}

TEST_F(LlmcOpt, WritesWholeFiles) {
  const auto output = folder_.path() / "out.ir";
  EXPECT_EQ(run({"--stand-in", "-o", output.string()}).standard_output, "");
  EXPECT_THAT(read_file(output).value(), HasSubstr("graph @g("));
  const auto failed = run({"--stand-in", "-o", (folder_.path() / "no" / "such").string()});
  EXPECT_EQ(failed.exit_code, 3);
  EXPECT_THAT(failed.standard_error, HasSubstr("cannot create"));
}

TEST_F(LlmcOpt, ErrorsHaveExitCodesAndHints) {
  const auto missing = run({});
  EXPECT_EQ(missing.exit_code, 3);
  EXPECT_THAT(missing.standard_error, HasSubstr("graph.ir: 9:24: the data of"));
  EXPECT_THAT(missing.standard_error, HasSubstr("hint: --stand-in"));
  const auto unknown = run({"--stand-in", "--pass", "no_such_pass"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.standard_error, HasSubstr("hint: llmc-opt --list"));
  EXPECT_EQ(run({"--no-such-flag"}).exit_code, 2);
  EXPECT_EQ(run({"--stand-in", "--quant", "q5"}).exit_code, 2);
  const auto broken = run({}, "graph @g(%x: f32[2]) { %y = neg %x : f32[3] return %y }");
  EXPECT_EQ(broken.exit_code, 3);
  EXPECT_EQ(broken.standard_output, "");
  EXPECT_EQ(run_command({LLMC_BINARY_DIR "/llmc-opt", "/no/such/file.ir"})->exit_code, 3);
}

TEST_F(LlmcOpt, ListsThePasses) {
  const auto result = run_command({LLMC_BINARY_DIR "/llmc-opt", "--list"});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->exit_code, 0);
  EXPECT_THAT(result->standard_output, HasSubstr("fuse_attention"));
}

TEST_F(LlmcOpt, ReadsStandardInput) {
  // Nothing on it: an empty text is an error, not a hang.
  const auto result = run_command({LLMC_BINARY_DIR "/llmc-opt"});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->exit_code, 3);
  EXPECT_THAT(result->standard_error, HasSubstr("<stdin>: 1:1: expected 'graph'"));
}

}  // namespace
}  // namespace llmc
