#include "tools/instructions/classes.h"

#include <gtest/gtest.h>

#include <string_view>

namespace llmc::tests {
namespace {

struct Word {
  std::string_view text;  // what an assembler calls it
  std::uint32_t code;
  instruction_class expected;
};

TEST(InstructionClasses, Arm64) {
  for (const Word& word : {
           Word{"sdot v0.4s, v1.16b, v2.4b[1]", 0x4FA2E020, kVector},
           Word{"usmmla v0.4s, v1.16b, v2.16b", 0x4E82AC20, kVector},
           Word{"fmla v0.4s, v1.4s, v2.s[0]", 0x4F821020, kVector},
           Word{"ldr q0, [x0, #16]", 0x3DC00400, kVector},
           Word{"ldr d0, [x0]", 0xFD400000, kVector},
           Word{"ldp q0, q1, [x0]", 0xAD400400, kVector},
           Word{"ld1r { v0.4s }, [x0]", 0x4D40C800, kVector},
           Word{"ldr s0, [x0], #4", 0xBC404400, kScalarFloat},
           Word{"ldp s0, s1, [x0]", 0x2D400400, kScalarFloat},
           Word{"fmadd s0, s1, s2, s3", 0x1F020C20, kScalarFloat},
           Word{"scvtf s0, w0", 0x1E220000, kScalarFloat},
           Word{"ldr x0, [x1]", 0xF9400020, kOther},
           Word{"stp x0, x1, [sp]", 0xA90007E0, kOther},
           Word{"madd x0, x1, x2, x3", 0x9B020C20, kOther},
           Word{"cas w0, w1, [x2]", 0x88A07C41, kOther},
           Word{"prfm pldl1keep, [x0]", 0xF9800000, kOther},
       }) {
    EXPECT_EQ(classify_arm64(word.code), word.expected) << word.text;
  }
}

TEST(InstructionClasses, LoongArch) {
  for (const Word& word : {
           Word{"xvmaddwev.h.bu.b $xr0, $xr1, $xr2", 0x74BC0820, kVector},
           Word{"vadd.w $vr0, $vr1, $vr2", 0x700B0820, kVector},
           Word{"xvfmadd.s $xr0, $xr1, $xr2, $xr3", 0x0A118820, kVector},
           Word{"xvbitsel.v $xr0, $xr1, $xr2, $xr3", 0x0D218820, kVector},
           Word{"xvfcmp.clt.s $xr0, $xr1, $xr2", 0x0C910820, kVector},
           Word{"xvld $xr0, $a0, 32", 0x2C808080, kVector},
           Word{"xvldx $xr0, $a0, $a1", 0x38481480, kVector},
           Word{"xvldrepl.w $xr0, $a0, 4", 0x32200480, kVector},
           Word{"fmadd.s $fa0, $fa1, $fa2, $fa3", 0x08118820, kScalarFloat},
           Word{"ffint.s.w $fa0, $fa1", 0x011D1020, kScalarFloat},
           Word{"fld.s $fa0, $a0, 4", 0x2B001080, kScalarFloat},
           Word{"fsel $fa0, $fa1, $fa2, $fcc0", 0x0D000820, kScalarFloat},
           Word{"ld.w $a0, $a1, 4", 0x288010A4, kOther},
           Word{"ldx.w $a0, $a1, $a2", 0x380818A4, kOther},
           Word{"mul.w $a0, $a1, $a2", 0x001C18A4, kOther},
           Word{"preld 0, $a0, 0", 0x2AC00080, kOther},
           Word{"beqz $a0, 8", 0x40000880, kOther},
       }) {
    EXPECT_EQ(classify_loongarch64(word.code), word.expected) << word.text;
  }
}

TEST(InstructionClasses, X86) {
  struct Bytes {
    std::string_view text, code;
    instruction_class expected;
  };
  using namespace std::string_view_literals;
  for (const Bytes& bytes : {
           Bytes{"vpmaddubsw %ymm0, %ymm1, %ymm2", "\xC4\xE2\x75\x04\xD0"sv, kVector},
           Bytes{"vpmaddwd (%rax), %ymm1, %ymm2", "\xC5\xF5\xF5\x10"sv, kVector},
           Bytes{"vfmadd231ps %ymm0, %ymm1, %ymm2", "\xC4\xE2\x75\xB8\xD0"sv, kVector},
           Bytes{"vmovdqu (%rax), %ymm0", "\xC5\xFE\x6F\x00"sv, kVector},
           Bytes{"addps %xmm0, %xmm1", "\x0F\x58\xC8"sv, kVector},
           Bytes{"movups (%rax), %xmm8", "\x44\x0F\x10\x00"sv, kVector},
           Bytes{"pshufb %xmm0, %xmm1", "\x66\x0F\x38\x00\xC8"sv, kVector},
           Bytes{"vfmadd231ss %xmm0, %xmm1, %xmm2", "\xC4\xE2\x71\xB9\xD0"sv, kScalarFloat},
           Bytes{"vaddss %xmm0, %xmm1, %xmm2", "\xC5\xF2\x58\xD0"sv, kScalarFloat},
           Bytes{"cvttss2si %xmm0, %eax", "\xF3\x0F\x2C\xC0"sv, kScalarFloat},
           Bytes{"mov %eax, %ebx", "\x89\xC3"sv, kOther},
           Bytes{"imul %rax, %rbx", "\x48\x0F\xAF\xD8"sv, kOther},
           Bytes{"shlx %eax, %ebx, %ecx", "\xC4\xE2\x79\xF7\xCB"sv, kOther},
           Bytes{"prefetcht0 (%rax)", "\x0F\x18\x08"sv, kOther},
           Bytes{"popcnt %eax, %ebx", "\xF3\x0F\xB8\xD8"sv, kOther},
       }) {
    EXPECT_EQ(classify_x86_64(reinterpret_cast<const unsigned char*>(bytes.code.data()),
                              bytes.code.size()),
              bytes.expected)
        << bytes.text;
  }
  EXPECT_EQ(classify_x86_64(nullptr, 0), kOther);
}

}  // namespace
}  // namespace llmc::tests
