// clang 19 makes an xvshuf of some shuffles of two 256-bit vectors that it cannot do, with an index
// that is too large (docs/kernels.md, "LoongArch LASX"). The code that stores q, k and v had some.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "compiler/bench/gemm_operands.h"
#include "compiler/driver/toolchain.h"
#include "compiler/support/file.h"
#include "compiler/target/target.h"
#include "tests/support/temporary_folder.h"

namespace llmc::tests {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Returns the size of the numbers that a directive of the assembler defines; 0 if it defines none.
std::size_t number_bytes(const std::string& directive) {
  if (directive == ".byte") return 1;
  if (directive == ".half") return 2;
  if (directive == ".word") return 4;
  return directive == ".dword" ? 8 : 0;
}

/// Returns the labels of the constants that are the indices of wrong shuffles: of n numbers, one of
/// the first n/2 is n, and none is larger.
std::vector<std::string> wrong_indices(const std::string& assembly) {
  std::vector<std::string> found;
  std::vector<unsigned long> numbers;
  std::size_t bytes = 0;
  std::string label, line;
  const auto end_constant = [&] {
    const std::size_t n = numbers.size();
    if (n > 0 && n * bytes == 32) {
      const auto middle = numbers.begin() + static_cast<std::ptrdiff_t>(n / 2);
      if (std::find(numbers.begin(), middle, n) != middle &&
          *std::max_element(numbers.begin(), numbers.end()) == n)
        found.push_back(label);
    }
    numbers.clear();
  };
  for (std::istringstream text(assembly); std::getline(text, line);) {
    std::istringstream words(line);
    std::string first, number;
    words >> first >> number;
    const bool is_number = !number.empty() && number[0] >= '0' && number[0] <= '9';
    if (const std::size_t size = number_bytes(first); size != 0 && is_number) {
      bytes = size;
      numbers.push_back(std::stoul(number, nullptr, 0));
    } else {
      end_constant();
      label = first;
    }
  }
  end_constant();
  return found;
}

TEST(Shuffles, WrongIndicesAreFound) {
  EXPECT_THAT(wrong_indices(".A:\n\t.dword\t0  # 0x0\n\t.dword\t4\n\t.dword\t1\n\t.dword\t0\n"
                            ".B:\n\t.dword\t0\n\t.dword\t3\n\t.dword\t1\n\t.dword\t3\n"),
              ElementsAre(".A:"));
}

/// Storing q, k and v uses a head as vectors and as single floats, and its shape is the model's.
TEST(Shuffles, OfHeadsAreRightOnLoongArch) {
  std::string source =
      "#include \"llmc/kernels.h\"\nnamespace llmc {\ninline namespace LLMC_ISA {\n";
  for (const auto& [dims, rotation] : {std::pair{"20", ".dims = 20"},
                                       {"28", ".dims = 28"},
                                       {"40", ".dims = 32, .interleaved = true"},
                                       {"44", ".dims = 36, .interleaved = true"}}) {
    const std::string config = std::string("<QkvConfig<AttentionShape<6, 2, ") + dims +
                               ", 32, 2, KvFormats{KvFormat::kF16, KvFormat::kInt8}>, Rotation{" +
                               rotation + "}>>;\n";
    source += "template struct QkvRope" + config + "template struct QkvNormRope" + config;
  }
  source += "}\n}\n";
  const auto target = target::find("lasx");
  ASSERT_TRUE(target.ok());
  const auto toolchain = driver::find_toolchain("");
  ASSERT_TRUE(toolchain.ok());
  const testing::TemporaryFolder folder;
  ASSERT_TRUE(bench::write_kernel_sources(folder.path(), source).ok());
  const Status compiled = driver::compile_source(*toolchain, folder.path(),
                                                 driver::model_arguments(**target, "heads", {"-S"}),
                                                 "gemm.cpp", "heads.s");
  ASSERT_TRUE(compiled.ok()) << compiled.error().first().message;
  const auto assembly = read_file(folder.path() / "heads.s");
  ASSERT_TRUE(assembly.ok());
  EXPECT_THAT(*assembly, HasSubstr("xvshuf."));
  EXPECT_THAT(wrong_indices(*assembly), IsEmpty());
}

}  // namespace
}  // namespace llmc::tests
