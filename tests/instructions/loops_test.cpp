// tools/check_loops.py: finds the inner loop by itself, and what should not be in it; and what the
// q4 products of every target look like when it is asked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/support/file.h"
#include "compiler/support/subprocess.h"
#include "tests/support/temporary_folder.h"

namespace llmc::tests {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

CommandOutput check_loops(const std::vector<std::string>& arguments) {
  std::vector<std::string> argv{"python3",
                                (fs::path(LLMC_SOURCE_DIR) / "tools/check_loops.py").string()};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  auto output = run_command(argv);
  EXPECT_TRUE(output.ok());
  return output.ok() ? *output : CommandOutput{-1, {}, {}};
}

CommandOutput check_text(const std::string& text) {
  const testing::TemporaryFolder folder;
  EXPECT_TRUE(write_file(folder.path() / "text.s", text).ok());
  return check_loops({"--text", (folder.path() / "text.s").string()});
}

// An outer loop that spills, around an inner one; and a loop without multiplications.
constexpr const char* kX86 = R"(
0000000000000100 <q4_panels_tokens>:
     100:      	vmovdqa	%ymm1, 0x40(%rsp)
     104:      	vpaddd	%ymm1, %ymm2, %ymm2
     108:      	jne	0x104 <q4_panels_tokens+0x4>
     10c:      	vmovdqu	0x20(%rax), %ymm3
     110:      	vpmaddubsw	%ymm0, %ymm3, %ymm0
     114:      	vpaddw	%ymm0, %ymm3, %ymm3
     118:      	incq	%rcx
     11c:      	jne	0x10c <q4_panels_tokens+0xc>
     120:      	jne	0x100 <q4_panels_tokens>
     124:      	retq
)";

TEST(CheckLoops, TheStackMayBeUsedOutsideOfTheInnermostLoop) {
  const CommandOutput ran = check_text(kX86);
  EXPECT_EQ(ran.exit_code, 0) << ran.standard_error;
  EXPECT_THAT(ran.standard_output, HasSubstr("0x10c..0x11c, 5 instructions, 32 multiply-adds"));
}

void expect_finding(std::string text, const std::string& line, const std::string& replacement,
                    const std::string& finding) {
  const std::size_t at = text.find(line);
  ASSERT_NE(at, std::string::npos) << line;
  const CommandOutput ran = check_text(text.replace(at, line.size(), replacement));
  EXPECT_EQ(ran.exit_code, 1) << replacement;
  EXPECT_THAT(ran.standard_error, AllOf(HasSubstr(finding), HasSubstr("q4_panels_tokens: 0x")));
}

TEST(CheckLoops, FindsSpillsConversionsAndCalls) {
  expect_finding(kX86, "0x20(%rax)", "0x20(%rsp)", "stack: vmovdqu 0x20(%rsp), %ymm3");
  expect_finding(kX86, "incq	%rcx", "vcvtsi2ss %eax, %xmm0, %xmm1", "scalar conversion");
  expect_finding(kX86, "incq	%rcx", "callq	0x400 <memcpy>", "call: callq");
}

constexpr const char* kArm = R"(
0000000000000000 <q4_panels_tokens>:
       0:      	stp	x29, x30, [sp, #-0x10]!
       4:      	ldp	q0, q1, [x20, #0x20]
       8:      	sdot	v2.4s, v0.16b, v1.4b[0]
       c:      	subs	x1, x1, #0x1            // =1
      10:      	b.ne	0x4 <q4_panels_tokens+0x4>
      14:      	ret
)";

TEST(CheckLoops, OnArm) {
  EXPECT_EQ(check_text(kArm).exit_code, 0);
  expect_finding(kArm, "[x20, #0x20]", "[sp, #0x20]", "stack: ldp q0, q1, [sp, #0x20]");
  expect_finding(kArm, "subs", "scvtf s0, w0 //", "scalar conversion: scvtf s0, w0");
  std::string vectors = kArm;
  EXPECT_EQ(check_text(vectors.replace(vectors.find("subs"), 4, "fcvtl v0.4s, v1.4h //")).exit_code,
            0);
}

TEST(CheckLoops, AFramePointerIsOneWhereItIsMadeOne) {
  std::string text = kArm;
  text.replace(text.find("[x20"), 4, "[x29");
  EXPECT_EQ(check_text(text).exit_code, 0);
  expect_finding(text, "stp", "mov x29, sp //", "stack: ldp q0, q1, [x29, #0x20]");
}

constexpr const char* kLoongArch = R"(
0000000000000000 <q4_panels_tokens>:
       0:      	xvldrepl.w	$xr1, $a1, 4
       4:      	xvmaddwev.h.bu.b	$xr2, $xr0, $xr1
       8:      	xvmaddwod.h.bu.b	$xr2, $xr0, $xr1
       c:      	bnez	$a2, -12 <q4_panels_tokens>
      10:      	ret
)";

TEST(CheckLoops, OnLoongArch) {
  const CommandOutput ran = check_text(kLoongArch);
  EXPECT_EQ(ran.exit_code, 0) << ran.standard_error;
  EXPECT_THAT(ran.standard_output, HasSubstr("4 instructions, 32 multiply-adds"));
  expect_finding(kLoongArch, "$a1, 4", "$sp, 4", "stack: xvldrepl.w $xr1, $sp, 4");
  expect_finding(kLoongArch, "xvldrepl.w\t$xr1, $a1, 4", "ffint.s.w\t$fa1, $fa0",
                 "scalar conversion: ffint.s.w");
}

TEST(CheckLoops, AFileWithoutTheLoopIsAFinding) {
  EXPECT_EQ(check_text("0000000000000000 <other>:\n   0:  \tretq\n").exit_code, 1);
  EXPECT_EQ(check_text("0000000000000000 <q4_panels_gemv>:\n   0:  \tretq\n").exit_code, 1);
  EXPECT_NE(check_loops({"/nowhere/lib.a"}).exit_code, 0);
}

}  // namespace
}  // namespace llmc::tests
