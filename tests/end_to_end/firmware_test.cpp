// The shipped model without an operating system: docs/examples/firmware, in an emulated machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>

#include "compiler/support/subprocess.h"
#include "tests/end_to_end/cross.h"
#include "tests/end_to_end/models.h"
#include "tests/end_to_end/program.h"

#ifdef LLMC_PROGRAM
namespace llmc::tests {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kFirmwarePrompt = "Once upon a time";
constexpr const char* kFirmwareTokens = "40";

/// The number after `name` in the table that the firmware prints; -1 if there is none.
long printed(const std::string& text, const std::string& name) {
  const std::size_t at = text.find("\n" + name + " ");
  return at == std::string::npos ? -1 : std::atol(text.c_str() + at + 1 + name.size());
}

struct Board {
  const char* architecture;
  const char* qemu;
  const char* target;
  std::uint64_t flash;
  const char* wild_pointer;
  const char* below_the_stack;

  friend void PrintTo(const Board& c, std::ostream* out) { *out << c.architecture; }
};

void build(const fs::path& repository, const Board& board, const std::string& out) {
  output_of({"env", "LLMC=" LLMC_PROGRAM, "sh",
             (repository / "docs/examples/firmware/build.sh").string(), board.architecture, out,
             kFirmwarePrompt, kFirmwareTokens});
}

/// What the image in `out` writes until it switches off.
std::string run(const Board& board, const std::string& qemu, const std::string& out,
                const std::vector<std::string>& options = {}) {
  const fs::path script = fs::path(LLMC_SOURCE_DIR) / "docs/examples/firmware/run.sh";
  std::vector<std::string> argv = {"env", "QEMU_SYSTEM=" + qemu, "timeout",          "300",
                                   "sh",  script.string(),       board.architecture, out};
  argv.insert(argv.end(), options.begin(), options.end());
  return output_of(argv);
}

/// A folder like the repository's, with the example to alter.
fs::path copy_of_the_example(const fs::path& folder) {
  const fs::path source = LLMC_SOURCE_DIR;
  fs::create_directories(folder / "docs/examples");
  fs::copy(source / "docs/examples/firmware", folder / "docs/examples/firmware",
           fs::copy_options::recursive);
  fs::create_directory_symlink(source / "models", folder / "models");
  return folder;
}

void replace_in(const fs::path& file, const std::string& what, const std::string& by) {
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  std::string content = text.str();
  const std::size_t at = content.find(what);
  ASSERT_NE(at, std::string::npos) << file << ": " << what;
  std::ofstream(file) << content.replace(at, what.size(), by);
}

class Firmware : public ::testing::TestWithParam<Board> {};

TEST_P(Firmware, WritesTheTextOfTheHostAndTakesTheBytesOfThePlan) {
  const Board& board = GetParam();
  const std::string qemu = find_emulator(board.qemu);
  if (qemu.empty()) LLMC_MISSING_CROSS(board.qemu << " is not there or does not start");
  testing::TemporaryFolder folder;
  const std::string out = (folder.path() / "out").string();
  build(LLMC_SOURCE_DIR, board, out);
  const std::string text = run(board, qemu, out);
  if (board.architecture == std::string("arm64")) {
    EXPECT_EQ(run(board, qemu, out, {"-M", "virtualization=on"}), text) << "begun at level 2";
  }

  std::string host = output_of({LLMC_PROGRAM, "run", tinyfable().string(), "-p", kFirmwarePrompt,
                                "-n", kFirmwareTokens, "--temp", "0", "-q"});
  ASSERT_THAT(host, StartsWith(kFirmwarePrompt));
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
  // The plan of the bundle counts every function; the linker leaves out what nothing calls: states,
  // batches, grammars, beams, embeddings.
  const auto made =
      nlohmann::json::parse(output_of({"cat", out + "/model/tinyfable.plan.json"}))["bytes"];
  EXPECT_LE(printed(text, "  model code"), made["code"].get<long>());
  EXPECT_GT(printed(text, "  model code"), made["code"].get<long>() * 3 / 4);
}

TEST_P(Firmware, BeginsBehindAPromptThatWasCompiledIn) {
  const Board& board = GetParam();
  const std::string qemu = find_emulator(board.qemu);
  if (qemu.empty()) LLMC_MISSING_CROSS(board.qemu << " is not there or does not start");
  const testing::TemporaryFolder folder;
  const std::string out = (folder.path() / "out").string();
  const std::string prompt = (folder.path() / "prompt.txt").string();
  std::ofstream(prompt) << kFirmwarePrompt << "\n";
  const char* const kMore = ", there was a fox";
  output_of({"env", "LLMC=" LLMC_PROGRAM, "SYSTEM_PROMPT=" + prompt, "sh",
             LLMC_SOURCE_DIR "/docs/examples/firmware/build.sh", board.architecture, out, kMore,
             kFirmwareTokens});
  const std::string text = run(board, qemu, out);
  const std::string host =
      output_of({LLMC_PROGRAM, "run", tinyfable().string(), "--system-prompt", prompt, "-p", kMore,
                 "-n", kFirmwareTokens, "--temp", "0", "-q"});
  ASSERT_THAT(host, StartsWith(kMore));
  EXPECT_THAT(text, StartsWith(host));
  const auto made =
      nlohmann::json::parse(output_of({"cat", out + "/model/tinyfable.plan.json"}))["bytes"];
  EXPECT_GT(made["prompt"].get<long>(), 0);
  EXPECT_EQ(printed(text, "  prompt"), made["prompt"].get<long>());
  EXPECT_EQ(printed(text, "  weights"), made["weights"].get<long>());
  EXPECT_EQ(printed(text, "  arena"), made["arena"].get<long>());
}

TEST_P(Firmware, SaysWhatAWildPointerPointedAt) {
  const Board& board = GetParam();
  const std::string qemu = find_emulator(board.qemu);
  if (qemu.empty()) LLMC_MISSING_CROSS(board.qemu << " is not there or does not start");
  testing::TemporaryFolder folder;
  const fs::path copy = copy_of_the_example(folder.path());
  replace_in(copy / "docs/examples/firmware/main.c", "  board_init();\n",
             "  board_init();\n  *(volatile char*)0xffffff8765432110 = 1;\n");
  const std::string out = (folder.path() / "out").string();
  build(copy, board, out);
  const std::string text = run(board, qemu, out);
  EXPECT_THAT(text, StartsWith(std::string("\nfault: ") + board.wild_pointer + "\n"));
  EXPECT_THAT(text, HasSubstr("\n  address ffffff8765432110\n"));
  const std::size_t at = text.find("\n  at      ");
  ASSERT_NE(at, std::string::npos) << text;
  const std::uint64_t where = std::stoull(text.substr(at + 11), nullptr, 16);
  EXPECT_GE(where, board.flash);
  EXPECT_LT(where, board.flash + fs::file_size(out + "/firmware.bin"));
}

TEST_P(Firmware, AStackThatOverflowsFaults) {
  const Board& board = GetParam();
  const std::string qemu = find_emulator(board.qemu);
  if (qemu.empty()) LLMC_MISSING_CROSS(board.qemu << " is not there or does not start");
  testing::TemporaryFolder folder;
  const fs::path copy = copy_of_the_example(folder.path());
  replace_in(copy / "docs/examples/firmware/sections.ld", "STACK_BYTES = 32K", "STACK_BYTES = 4K");
  const std::string out = (folder.path() / "out").string();
  build(copy, board, out);
  EXPECT_THAT(run(board, qemu, out),
              AllOf(StartsWith("\nfault: "), HasSubstr(board.below_the_stack)));
}

INSTANTIATE_TEST_SUITE_P(Boards, Firmware,
                         ::testing::Values(Board{"arm64", "qemu-system-aarch64", "arm64", 0,
                                                 "exception", "address 000000003fff"},
                                           Board{"loongarch64", "qemu-system-loongarch64", "lasx",
                                                 0x1c000000, "outside_windows",
                                                 "address ffffffffffff"}),
                         [](const auto& info) { return std::string(info.param.architecture); });

}  // namespace
}  // namespace llmc::tests
#endif
