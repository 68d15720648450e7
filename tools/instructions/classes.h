#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * Sorts an instruction of arm64, loongarch64 or x86-64 by its encoding into work on vector
 * registers (arithmetic, moves, and loads and stores of 64 bits or more), scalar floating point,
 * and all the rest. The encodings are those of the architectures' manuals; nothing is disassembled,
 * so the emulator needs no disassembler.
 */
enum instruction_class { kOther, kVector, kScalarFloat, kClasses };

/* Arm ARM, C4.1: bits 28..25 name the group; x1x0 are loads and stores (bit 26: of SIMD registers),
 * x111 SIMD and floating point, 0010 SVE. */
static inline enum instruction_class classify_arm64(uint32_t code) {
  const uint32_t group = code >> 25 & 15, size = code >> 30;
  if (group == 2) return kVector;
  if ((group & 7) == 7) { /* 0xx0 in bits 31..28: vector; x0x1 and 01x1: scalar */
    return (code >> 28 & 1) == 0 ? kVector : kScalarFloat;
  }
  if ((group & 5) != 4 || (code >> 26 & 1) == 0) return kOther;
  switch (code >> 27 & 7) {
    case 1:
      return kVector; /* ld1..st4 */
    case 3:           /* literal */
    case 5:
      return size == 0 ? kScalarFloat : kVector; /* pairs: s, d, q */
    default:
      break; /* one register: b, h, s, d; opc 1x: q */
  }
  return size == 3 || (size == 0 && (code >> 23 & 1) != 0) ? kVector : kScalarFloat;
}

/* LoongArch reference manual, volumes 1 and 2, tables of encodings: prefixes of the code. */
static inline enum instruction_class classify_loongarch64(uint32_t code) {
  const uint32_t top = code >> 20; /* 12 bits */
  const uint32_t six = code >> 26;
  if (six == 0x1C || six == 0x1D) return kVector;  /* LSX and LASX arithmetic */
  if (top >= 0x2C0 && top < 0x2D0) return kVector; /* vld vst xvld xvst */
  if (top >= 0x300 && top < 0x340) return kVector; /* [x]vldrepl [x]vstelm */
  if (code >> 20 == 0x384) return kVector;         /* [x]vldx [x]vstx */
  if (top >= 0x091 && top < 0x0B0) return kVector; /* [x]vfmadd and the like */
  if (top == 0x0C5 || top == 0x0C6 || top == 0x0C9 || top == 0x0CA) return kVector; /* compares */
  if (top == 0x0D1 || top == 0x0D2 || top == 0x0D5 || top == 0x0D6) return kVector; /* shuffles */
  if (top >= 0x010 && top < 0x014) return kScalarFloat;
  if (top >= 0x081 && top < 0x090) return kScalarFloat;                  /* fmadd and the like */
  if (top == 0x0C1 || top == 0x0C2 || top == 0x0D0) return kScalarFloat; /* fcmp fsel */
  if (top >= 0x2B0 && top < 0x2C0) return kScalarFloat;                  /* fld fst */
  if (top == 0x383) return kScalarFloat;                                 /* fldx */
  return kOther;
}

/* One opcode of an SSE, AVX or AVX-512 map (1: 0F, 2: 0F38, 3: 0F3A); prefix 0, 1: 66, 2: F3, 3:
 * F2. */
static inline enum instruction_class classify_x86_opcode(uint32_t map, uint32_t prefix,
                                                         uint32_t opcode) {
  if (map == 2) { /* odd ones of three rows: fused multiply-adds of one number */
    const uint32_t row = opcode >> 4;
    return (row == 9 || row == 10 || row == 11) && (opcode & 15) >= 9 && (opcode & 1) != 0
               ? kScalarFloat
               : kVector;
  }
  if (map == 3) return opcode == 0x0A || opcode == 0x0B ? kScalarFloat : kVector;
  if (prefix >= 2) { /* scalar, except moves, shuffles and conversions of vectors */
    static const unsigned char kVectors[2][10] = {
        {0x12, 0x16, 0x5B, 0x6F, 0x70, 0x7E, 0x7F, 0xE6, 0, 0},
        {0x12, 0x6F, 0x70, 0x7A, 0x7C, 0x7D, 0x7F, 0xD0, 0xE6, 0xF0}};
    return memchr(kVectors[prefix - 2], (int)opcode, 10) != NULL ? kVector : kScalarFloat;
  }
  const int scalar =
      opcode == 0x2E || opcode == 0x2F || (prefix == 1 && (opcode == 0x6E || opcode == 0x7E));
  return scalar ? kScalarFloat : kVector;
}

/* Intel SDM, volume 2, appendix A. */
static inline enum instruction_class classify_x86_64(const unsigned char* code, size_t bytes) {
  size_t i = 0;
  uint32_t prefix = 0, map = 1, opcode;
  for (; i < bytes && memchr("\x66\xF2\xF3\x2E\x36\x3E\x26\x64\x65\x67\xF0", code[i], 11) != NULL;
       ++i) {
    if (code[i] == 0x66 && prefix == 0) prefix = 1;
    if (code[i] == 0xF3) prefix = 2;
    if (code[i] == 0xF2) prefix = 3;
  }
  if (i < bytes && code[i] >> 4 == 4) ++i; /* REX */
  if (i + 3 < bytes && (code[i] == 0xC4 || code[i] == 0x62)) {
    map = code[i + 1] & (code[i] == 0xC4 ? 31 : 7);
    prefix = code[i + 2] & 3;
    opcode = code[i + (code[i] == 0xC4 ? 3 : 4)];
  } else if (i + 2 < bytes && code[i] == 0xC5) {
    prefix = code[i + 1] & 3;
    opcode = code[i + 2];
  } else { /* SSE */
    if (i + 1 >= bytes || code[i] != 0x0F) return kOther;
    opcode = code[++i];
    if (opcode == 0x38 || opcode == 0x3A) {
      map = opcode == 0x38 ? 2 : 3;
      if (++i >= bytes) return kOther;
      opcode = code[i];
      return opcode < 0xF0 && !(map == 3 && opcode == 0xF0)
                 ? classify_x86_opcode(map, prefix, opcode)
                 : kOther;
    }
    const int sse = (opcode >= 0x10 && opcode <= 0x17) || (opcode >= 0x28 && opcode <= 0x2F) ||
                    (opcode >= 0x50 && opcode <= 0x7F) || opcode == 0xC2 ||
                    (opcode >= 0xC4 && opcode <= 0xC6) || opcode >= 0xD0;
    return sse ? classify_x86_opcode(1, prefix, opcode) : kOther;
  }
  /* After a VEX prefix there are also instructions on general and on mask registers. */
  if ((map == 2 && opcode >= 0xF2 && opcode <= 0xF7) || (map == 3 && opcode == 0xF0)) return kOther;
  if (map == 1 && ((opcode >= 0x41 && opcode <= 0x4B) || (opcode >= 0x90 && opcode <= 0x99)))
    return kOther;
  return map == 0 ? kOther : classify_x86_opcode(map, prefix, opcode);
}
