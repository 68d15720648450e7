// A library checks the processor before it runs what the processor may lack, and runs no more than
// its target says: on emulated processors with exactly the target's features, and on ones without.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>

#include "compiler/support/file.h"
#include "compiler/target/target.h"
#include "llmc/llmc.h"
#include "tests/end_to_end/cross.h"
#include "tests/end_to_end/models.h"

#ifdef LLMC_PROGRAM
namespace llmc::tests {
namespace {

namespace fs = std::filesystem;

struct Leak {
  const char* test;
  const char* target;
  const char* sysroot;  // in the cross folder; empty: this machine's
  const char* triple;
  const char* qemu;
  const char* with;     // a processor with the target's features and few more; "": this one, if it
                        // has them, where qemu emulates none
  const char* without;  // one without

  friend void PrintTo(const Leak& c, std::ostream* out) { *out << c.target; }
};

// The status of init, then of a prompt longer than every tile and some steps.
constexpr const char* kProgram = R"(
#include <stdio.h>

#include "tinyfable.h"
static _Alignas(64) unsigned char arena[TINYFABLE_ARENA_BYTES];
int main(void) {
  int32_t prompt[37], token;
  llmc_session* session;
  int status = tinyfable_init(&session, arena, sizeof arena, NULL);
  for (int i = 0; i < 37; ++i) prompt[i] = 1 + 7 * i;
  if (status == LLMC_OK) status = llmc_prefill(session, prompt, 37, NULL);
  for (int i = 0; i < 3 && status == LLMC_OK; ++i) status = llmc_step(session, &token);
  printf("%d\n", status);
  return 0;
}
)";

class CpuLeak : public ::testing::TestWithParam<Leak> {};

TEST_P(CpuLeak, InitRefusesAProcessorWithoutTheFeaturesAndNothingTraps) {
  const Leak& leak = GetParam();
  const bool foreign = *leak.sysroot != 0;
  const fs::path sysroot = cross_folder() / leak.sysroot;
  const fs::path qemu = cross_folder() / "bin" / leak.qemu;
  if (!fs::exists(qemu) || (foreign && !fs::exists(sysroot / "usr" / leak.triple)))
    LLMC_MISSING_CROSS("no " << leak.qemu << " or libraries in " << cross_folder());

  const auto run = [](const std::vector<std::string>& argv) {
    const auto output = run_command(argv);
    if (!output.ok()) return std::string("does not start");
    EXPECT_EQ(output->exit_code, 0) << argv[0] << ": " << output->standard_error;
    return output->standard_output;
  };
  testing::TemporaryFolder folder;
  const std::string out = folder.path().string();
  run({LLMC_PROGRAM, "compile", tinyfable().string(), std::string("--target=") + leak.target, "-q",
       "-o", out + "/bundle"});
  ASSERT_TRUE(write_file(folder.path() / "main.c", std::string_view(kProgram)).ok());
  std::vector<std::string> compile{"clang-19", std::string("--target=") + leak.triple,
                                   "-fuse-ld=lld"};
  if (foreign) {
    compile.push_back("--sysroot=" + sysroot.string());
    compile.push_back("--gcc-toolchain=" + (sysroot / "usr").string());
  }
  compile.insert(compile.end(), {"-I" + out + "/bundle", out + "/main.c",
                                 out + "/bundle/libtinyfable.a", "-o", out + "/main"});
  run(compile);

  const auto status_on = [&](const char* cpu) {
    std::vector<std::string> argv{qemu.string(), "-cpu", cpu};
    if (foreign) argv.insert(argv.end(), {"-L", (sysroot / "usr" / leak.triple).string()});
    argv.push_back(out + "/main");
    return run(argv);
  };
  EXPECT_EQ(status_on(leak.without), std::to_string(LLMC_ERROR_CPU) + "\n") << leak.without;
  if (*leak.with != 0) {
    EXPECT_EQ(status_on(leak.with), std::to_string(LLMC_OK) + "\n") << leak.with;
  } else if (target::runs_here(**target::find(leak.target))) {
    EXPECT_EQ(run({out + "/main"}), std::to_string(LLMC_OK) + "\n");
  }
}

INSTANTIATE_TEST_SUITE_P(
    Targets, CpuLeak,
    ::testing::Values(
        Leak{"avx2", "avx2", "", "x86_64-linux-gnu", "qemu-x86_64", "Haswell", "Nehalem"},
        Leak{"avxvnni", "avxvnni", "", "x86_64-linux-gnu", "qemu-x86_64", "", "Haswell"},
        Leak{"avx512", "avx512", "", "x86_64-linux-gnu", "qemu-x86_64", "", "Haswell"},
        Leak{"amx", "amx", "", "x86_64-linux-gnu", "qemu-x86_64", "", "Haswell"},
        Leak{"arm64", "arm64", "arm64", "aarch64-linux-gnu", "qemu-aarch64", "neoverse-n1",
             "cortex-a72"},
        Leak{"arm64_i8mm", "arm64-i8mm", "arm64", "aarch64-linux-gnu", "qemu-aarch64",
             "neoverse-v1,sve=off", "neoverse-n1"},
        Leak{"lasx", "lasx", "loong64", "loongarch64-linux-gnu", "qemu-loongarch64", "la464",
             "la464,lasx=off"}),
    [](const auto& info) { return std::string(info.param.test); });

}  // namespace
}  // namespace llmc::tests
#endif
