// The inner loops of 4-bit weights as clang compiles them for every target: nothing on the stack,
// no scalar conversions, no calls, and no more instructions than docs/kernels.md says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/bench/gemm_operands.h"
#include "compiler/driver/toolchain.h"
#include "compiler/support/file.h"
#include "compiler/support/subprocess.h"
#include "compiler/target/target.h"
#include "tests/support/temporary_folder.h"

namespace llmc::tests {
namespace {

namespace fs = std::filesystem;

struct Loops {
  const char* target;
  const char* kernel;        // of a prompt
  double prompt, one_token;  // most instructions per multiply-add
};

void PrintTo(const Loops& loops, std::ostream* out) {
  *out << loops.target;
}

class Q4Loops : public ::testing::TestWithParam<Loops> {};

/// Checks the loop of `kernel`; `most`: instructions per multiply-add.
void expect_registers(const fs::path& object, const std::string& kernel, double most) {
  const auto ran =
      run_command({"python3", (fs::path(LLMC_SOURCE_DIR) / "tools/check_loops.py").string(),
                   "--function", kernel, object.string()});
  ASSERT_TRUE(ran.ok());
  EXPECT_EQ(ran->exit_code, 0) << ran->standard_output << ran->standard_error;
  const std::string& text = ran->standard_output;
  const std::size_t comma = text.find(" multiply-adds, ");
  ASSERT_NE(comma, std::string::npos) << text;
  EXPECT_LE(std::stod(text.substr(comma + 16)), most) << text;
}

/// Compiles y[tokens][64] = x[tokens][columns] . w^T and checks the loop of `kernel`.
void check(const char* target_name, const std::string& kernel, std::uint64_t columns,
           std::uint64_t tokens, double most) {
  SCOPED_TRACE(kernel + ", columns: " + std::to_string(columns));
  const testing::TemporaryFolder folder;
  const auto target = target::find(target_name);
  ASSERT_TRUE(target.ok());
  const auto toolchain = driver::find_toolchain("");
  ASSERT_TRUE(toolchain.ok());
  const emit::GemmKernel gemm{WeightKind::kQ4, 64, columns, tokens};
  ASSERT_TRUE(bench::write_kernel_sources(folder.path(), emit::gemm_source(gemm, **target)).ok());
  const Status compiled =
      driver::compile_source(*toolchain, folder.path(),
                             driver::model_arguments(**target, "gemm", {}), "gemm.cpp", "gemm.o");
  ASSERT_TRUE(compiled.ok()) << compiled.error().first().message;

  expect_registers(folder.path() / "gemm.o", kernel, most);
}

TEST_P(Q4Loops, StayInRegisters) {
  const Loops& loops = GetParam();
  // Full superblocks, then a partial one with its own block.
  for (const std::uint64_t columns : {1024, 288}) {
    check(loops.target, loops.kernel, columns, 32, loops.prompt);
    check(loops.target, "q4_panels_gemv", columns, 1, loops.one_token);
  }
}

/// Compiles a kernel for `target_name` and checks the loop of the functions that match `kernel`.
void check_kernel(const char* target_name, const std::string& instance, const std::string& kernel,
                  double most) {
  SCOPED_TRACE(instance);
  const auto target = target::find(target_name);
  ASSERT_TRUE(target.ok());
  const auto toolchain = driver::find_toolchain("");
  ASSERT_TRUE(toolchain.ok());
  const testing::TemporaryFolder folder;
  const std::string source =
      "#include \"llmc/kernels.h\"\nnamespace llmc {\ninline namespace LLMC_ISA {\ntemplate void " +
      instance + ";\n}\n}\n";
  ASSERT_TRUE(bench::write_kernel_sources(folder.path(), source).ok());
  const Status compiled =
      driver::compile_source(*toolchain, folder.path(),
                             driver::model_arguments(**target, "gemm", {}), "gemm.cpp", "gemm.o");
  ASSERT_TRUE(compiled.ok()) << compiled.error().first().message;
  expect_registers(folder.path() / "gemm.o", kernel, most);
}

/// Formats of quantized models, whose loop has everything that a group of 32 needs: most
/// instructions per multiply-add. (AArch64 keeps something on the stack there, docs/kernels.md.)
TEST(CodedLoops, StayInRegistersOnLoongArch) {
  for (const auto& [format, most] :
       {std::pair{"4, 32, CodedScale::kF16, CodedZero::kInteger", 0.131},
        {"4, 128, CodedScale::kF16, CodedZero::kInteger", 0.1115}}) {
    check_kernel("lasx",
                 std::string("coded_panels_tokens<CodedFormat{") + format +
                     "}, 1024>(const uint8_t*, size_t, const Quantized, size_t, size_t, float*)",
                 "coded_panels_tokens", most);
  }
}

/// Tiles of q6 and q8 with vpdpbusd.
TEST(CodedLoops, StayInRegistersWithVnni) {
  for (const char* const bits : {"6", "8"}) {
    check_kernel("avx512",
                 std::string("vnni_codes_group<VnniVector, CodedFormat{") + bits +
                     ", 32, CodedScale::kF16, CodedZero::kNone}>(const uint8_t*, size_t, size_t, "
                     "const Quantized, size_t, size_t, float*)",
                 "VnniCodes.*tileILm6E", 0.0325);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Targets, Q4Loops,
    ::testing::Values(Loops{"avx2", "q4_panels_tokens", 0.108, 0.170},
                      // A tile of all 11 tokens, which 32 are cut into.
                      Loops{"avxvnni", "VnniPanels.*4tileILm6E", 0.054, 0.170},
                      Loops{"avx512", "VnniPanels.*4tileILm11E", 0.0255, 0.170},
                      Loops{"arm64", "q4_exact_panels_tokens", 0.0735, 0.185},
                      Loops{"arm64-i8mm", "q4_exact_panels_tokens", 0.044, 0.185},
                      Loops{"lasx", "q4_panels_tokens", 0.099, 0.147}),
    [](const auto& info) {
      std::string name = info.param.target;
      std::erase(name, '-');
      return name;
    });

}  // namespace
}  // namespace llmc::tests
