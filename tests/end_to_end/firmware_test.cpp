// The shipped model without an operating system: docs/examples/firmware, in an emulated machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "compiler/support/subprocess.h"
#include "tests/end_to_end/cross.h"
#include "tests/end_to_end/models.h"

#ifdef LLMC_PROGRAM
namespace llmc::tests {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kPrompt = "Once upon a time";
constexpr const char* kTokens = "40";

std::string output_of(const std::vector<std::string>& argv) {
  const auto output = run_command(argv);
  if (!output.ok()) {
    expect_ok(output.error());
    return {};
  }
  EXPECT_EQ(output->exit_code, 0) << argv[0] << ": " << output->standard_error;
  return output->standard_output;
}

/// The number behind `name` in the table that the firmware prints; -1 when there is none.
long printed(const std::string& text, const std::string& name) {
  const std::size_t at = text.find("\n" + name + " ");
  return at == std::string::npos ? -1 : std::atol(text.c_str() + at + 1 + name.size());
}

struct Board {
  const char* architecture;
  const char* qemu;
  const char* target;
};

class Firmware : public ::testing::TestWithParam<Board> {};

TEST_P(Firmware, WritesTheTextOfTheHostAndTakesTheBytesOfThePlan) {
  const Board& board = GetParam();
  const std::string qemu = find_emulator(board.qemu);
  if (qemu.empty()) GTEST_SKIP() << board.qemu << " is not there or does not start";
  testing::TemporaryFolder folder;
  const fs::path example = fs::path(LLMC_SOURCE_DIR) / "docs/examples/firmware";
  const std::string out = (folder.path() / "out").string();
  output_of({"env", "LLMC=" LLMC_PROGRAM, "sh", (example / "build.sh").string(), board.architecture,
             out, kPrompt, kTokens});
  const std::string text = output_of({"env", "QEMU_SYSTEM=" + qemu, "timeout", "300", "sh",
                                      (example / "run.sh").string(), board.architecture, out});

  std::string host = output_of({LLMC_PROGRAM, "run", tinyfable().string(), "-p", kPrompt, "-n",
                                kTokens, "--temp", "0", "-q"});
  ASSERT_THAT(host, StartsWith(kPrompt));
  while (host.ends_with('\n')) host.pop_back();
  EXPECT_THAT(text, StartsWith(host + "\n"));

  const auto plan =
      nlohmann::json::parse(output_of({LLMC_PROGRAM, "plan", tinyfable().string(), "--target",
                                       board.target, "--threads-max", "1", "--json"}))["bytes"];
  EXPECT_EQ(printed(text, "  weights"), plan["weights"].get<long>()) << text;
  EXPECT_EQ(printed(text, "  arena"), plan["arena"].get<long>());
  // Nothing but these two and the stack.
  EXPECT_LE(printed(text, "  other data"), 64);
  EXPECT_EQ(printed(text, "ram"),
            printed(text, "  arena") + printed(text, "  other data") + printed(text, "  stack"));
  EXPECT_GT(printed(text, "    used"), 0);
  EXPECT_LT(printed(text, "    used"), printed(text, "  stack"));
  const long parts =
      printed(text, "  weights") + printed(text, "  model code") + printed(text, "  program");
  EXPECT_EQ(printed(text, "flash"), static_cast<long>(fs::file_size(out + "/firmware.bin")));
  EXPECT_GE(printed(text, "flash"), parts);
  EXPECT_LT(printed(text, "flash"), parts + 4 * 64) << "more than alignment between the parts";
  // The plan of the bundle counts every function; the linker leaves out what nothing calls.
  const auto made =
      nlohmann::json::parse(output_of({"cat", out + "/model/tinyfable.plan.json"}))["bytes"];
  EXPECT_LE(printed(text, "  model code"), made["code"].get<long>());
  EXPECT_GT(printed(text, "  model code"), made["code"].get<long>() * 9 / 10);
}

INSTANTIATE_TEST_SUITE_P(Boards, Firmware,
                         ::testing::Values(Board{"arm64", "qemu-system-aarch64", "arm64"},
                                           Board{"loongarch64", "qemu-system-loongarch64", "lasx"}),
                         [](const auto& info) { return std::string(info.param.architecture); });

}  // namespace
}  // namespace llmc::tests
#endif
