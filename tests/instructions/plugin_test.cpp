// The counter itself: a loop of known length, in every architecture's assembly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "compiler/support/file.h"
#include "compiler/support/subprocess.h"
#include "tests/support/temporary_folder.h"

namespace llmc::tests {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

struct Machine {
  const char* name;
  const char* cpu;
  const char* flags;
  int start_count, start_vectors;
  /// The above; then 1000 times 3 of which one is on vectors; then 3, the last of which exits.
  const char* start;
  const char* repeated;
  const char* leave;
};

void PrintTo(const Machine& machine, std::ostream* out) {
  *out << machine.name;
}

fs::path plugins() {
  const char* cross = std::getenv("LLMC_CROSS_DIR");
  return (cross != nullptr && *cross != 0 ? fs::path(cross) : fs::path(LLMC_BINARY_DIR) / "cross") /
         "plugins";
}

std::string function(const std::string& name, const std::string& body) {
  return ".globl " + name + "\n.type " + name + ", %function\n" + name + ":\n" + body + ".size " +
         name + ", . - " + name + "\n";
}

std::string line(const std::string& what, int all, int vector) {
  return what + "\t" + std::to_string(all) + "\t" + std::to_string(vector) + "\t0\n";
}

class CountedLoop : public ::testing::TestWithParam<Machine> {};

TEST_P(CountedLoop, IsCountedExactlyEveryTime) {
  const Machine& machine = GetParam();
  const int start = machine.start_count, vectors = machine.start_vectors;
  const fs::path plugin = plugins() / "count.so";
  const fs::path emulator = plugins() / (std::string("qemu-") + machine.name);
  if (!fs::exists(plugin) || !fs::exists(emulator)) {
    GTEST_SKIP() << emulator << " or count.so is missing; tools/instructions/setup.sh builds them, "
                 << "with --x86 for x86-64, too";
  }
  const testing::TemporaryFolder folder;
  const fs::path source = folder.path() / "loop.s", program = folder.path() / "loop";
  const std::string text = ".text\n" + function("_start", machine.start) +
                           function("repeated", machine.repeated) +
                           function("leave", machine.leave);
  ASSERT_TRUE(write_file(source, text).ok());
  const auto built = run_command(
      {"clang-19", std::string("--target=") + machine.name + "-linux-gnu", machine.flags,
       "-nostdlib", "-static", "-fuse-ld=lld", source.string(), "-o", program.string()});
  ASSERT_TRUE(built.ok());
  ASSERT_EQ(built->exit_code, 0) << built->standard_error;
  for (const char* run : {"first", "second"}) {
    const fs::path counts = folder.path() / run;
    const auto ran = run_command({emulator.string(), "-cpu", machine.cpu, "-plugin",
                                  plugin.string() + ",out=" + counts.string(), program.string()});
    ASSERT_TRUE(ran.ok());
    ASSERT_EQ(ran->exit_code, 0) << ran->standard_error;
    const auto written = read_file(counts);
    ASSERT_TRUE(written.ok());
    EXPECT_THAT(*written, HasSubstr(line("function\t_start", start, vectors)));
    EXPECT_THAT(*written, HasSubstr("function\trepeated\t3000\t1000\t0\n"));
    EXPECT_THAT(*written, HasSubstr("function\tleave\t3\t0\t0\n"));
    EXPECT_THAT(*written, HasSubstr(line("total", start + 3003, vectors + 1000)));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Machines, CountedLoop,
    ::testing::Values(
        Machine{"aarch64", "neoverse-n1", "-march=armv8.2-a", 1, 0, "  mov x1, #1000\n",
                "  add v0.4s, v0.4s, v1.4s\n  subs x1, x1, #1\n  b.ne repeated\n",
                "  mov x0, #0\n  mov x8, #94\n  svc #0\n"},
        // The first use of LASX traps, whereupon it is turned on and the instruction runs again.
        Machine{"loongarch64", "la464", "-mlasx", 3, 2,
                "  xvxor.v $xr0, $xr0, $xr0\n  ori $a1, $zero, 1000\n",
                "  xvadd.w $xr0, $xr0, $xr1\n  addi.d $a1, $a1, -1\n  bnez $a1, repeated\n",
                "  move $a0, $zero\n  ori $a7, $zero, 94\n  syscall 0\n"},
        Machine{"x86_64", "Haswell", "-mavx2", 1, 0, "  mov $1000, %ecx\n",
                "  vpaddd %ymm0, %ymm1, %ymm0\n  dec %ecx\n  jne repeated\n",
                "  xor %edi, %edi\n  mov $231, %eax\n  syscall\n"}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace llmc::tests
