#pragma once

/// Matrix formats and quantized rows, for the products of the device `opencl`.
/// templates/llmc/quant/ defines the layout of the matrices.
namespace llmc::hosted {

/// Source that follows kOpenClRows (opencl_rows.h) in a program. FORMAT is 0 (f32), 1 (f16), 2 (q4)
/// or 3 (coded). For coded matrices, BITS, BLOCK, SCALE_BYTES and ZERO must also be defined.
///
/// A group of 16 x GROUP_Y work items computes a tile of the result: 64 packed rows of the matrix,
/// which are eight panels, for 4 * GROUP_Y rows of the input. A step processes eight words of each
/// row: 32 codes or 8 floats.
inline constexpr char kOpenClFormats[] = R"CL(
#define ITEMS (16 * GROUP_Y)
#define TILE_ROWS 64
#define TILE_TOKENS (4 * GROUP_Y)

uint item_of_group(void) { return (uint)get_local_id(1) * 16 + (uint)get_local_id(0); }
uint blocks_of(uint k) { return (k + 31) / 32; }
uint blocks_in(uint k, uint super) { return min(blocks_of(k) - super * 8, 8u); }
ulong round_up(ulong a, ulong b) { return (a + b - 1) / b * b; }

/* The input of a product: quantized rows, or rows of floats. */
typedef struct {
  __global const char* codes;
  __global const short* sums;
  __global const float* scales;
  __global const float* rows;
  uint k, count;
} Input;

#if FORMAT == 0 || FORMAT == 1
typedef float Sum;
ulong panel_bytes(uint k) { return round_up((ulong)k * 8 * (FORMAT == 0 ? 4 : 2), 64); }
uint steps_of(uint k) { return (k + 7) / 8; }

float weight(__global const uchar* panel, uint k, uint lane) {
#if FORMAT == 0
  return ((__global const float*)panel)[k * 8 + lane];
#else
  return vload_half(k * 8 + lane, (__global const half*)panel);
#endif
}

/* Words 2 * v and 2 * v + 1 of a step of one row. */
typedef uint2 Packed;
Packed load_packed(__global const uchar* panel, uint k, uint step, uint v, uint lane) {
  const uint at = step * 8 + v * 2;
  return (uint2)(at < k ? as_uint(weight(panel, at, lane)) : 0,
                 at + 1 < k ? as_uint(weight(panel, at + 1, lane)) : 0);
}
uint2 load_inputs(const Input* in, uint token, uint step, uint v) {
  const uint at = step * 8 + v * 2;
  __global const float* row = in->rows + (ulong)token * in->k;
  return (uint2)(at < in->k ? as_uint(row[at]) : 0, at + 1 < in->k ? as_uint(row[at + 1]) : 0);
}

uint2 decode(Packed words, uint step, uint v) { return words; }
float multiply(uint w, uint a, float sum) { return fma(as_float(a), as_float(w), sum); }
#else
typedef int Sum;
uint steps_of(uint k) { return blocks_of(k); }

#if FORMAT == 2
#define BITS 4
ulong super_bytes(uint blocks) {
  return round_up(blocks * 128 + (blocks + 1) / 2 * 8 + blocks * 8, 16);
}
#define HEADER 32
#else
#define ZERO_BYTES (ZERO == 0 ? 0 : ZERO == 1 ? 1 : SCALE_BYTES)
uint groups_of(uint blocks) { return (blocks * 32 + BLOCK - 1) / BLOCK; }
ulong super_bytes(uint blocks) {
  return round_up(blocks * 32 * BITS + groups_of(blocks) * 8 * (SCALE_BYTES + ZERO_BYTES), 64);
}
#define HEADER 0
#endif

ulong panel_bytes(uint k) {
  const uint last = (blocks_of(k) - 1) / 8;
  return HEADER + last * super_bytes(8) + super_bytes(blocks_in(k, last));
}

/* What load_packed() reads of words 2 * v and 2 * v + 1 of block `step` of one row, 4 codes each.
 * They are decoded later, so that several loads are on the way at the same time. */
typedef struct {
  uint word, upper, scale; /* BITS 8: the words; 4: their codes; 6: 4 and 2 bits of their codes */
} Packed;
Packed load_packed(__global const uchar* panel, uint k, uint step, uint v, uint lane) {
  const uint s = step / 8, b = step % 8;
  __global const uchar* codes = panel + HEADER + s * super_bytes(8);
  __global const uint* block = (__global const uint*)codes + b * (8 * BITS) + lane;
  Packed packed = {block[v * (BITS == 8 ? 16 : 8)], 0, 0};
#if BITS == 8
  packed.upper = block[v * 16 + 8];
#elif BITS == 6
  packed.upper = block[32 + v / 2 * 8];
#endif
#if FORMAT == 2
  packed.scale = codes[blocks_in(k, s) * 128 + b / 2 * 8 + lane];
#endif
  return packed;
}
/* The two words. Codes of q4 are multiplied with the scale of their block, which gives at most
 * 225. */
uint2 decode(Packed packed, uint step, uint v) {
#if BITS == 8
  return (uint2)(packed.word, packed.upper);
#else
  uint2 pair = (uint2)(packed.word, packed.word >> 4) & 0x0f0f0f0fu;
#if BITS == 6
  const uint upper = packed.upper >> (v % 2 * 4);
  pair |= ((uint2)(upper, upper >> 2) & 0x03030303u) << 4;
#endif
#if FORMAT == 2
  pair *= packed.scale >> (step % 2 * 4) & 15;
#endif
  return pair;
#endif
}
uint2 load_inputs(const Input* in, uint token, uint step, uint v) {
  const ulong row = (ulong)token * blocks_of(in->k) * 32;
  return ((__global const uint2*)(in->codes + row + step * 32))[v];
}

int multiply(uint w, uint a, int sum) {
#if BITS == 8
  return dot_signed(w, a, sum);
#else
  return dot_unsigned(w, a, sum);
#endif
}

/* The sum of the 16 codes `half_block` of an input row. */
int sum16(const Input* in, uint token, uint half_block) {
  return in->sums[(ulong)token * blocks_of(in->k) * 2 + half_block];
}
float scale_of(const Input* in, uint token, uint super) {
  return in->scales[(ulong)token * ((in->k + SUPER - 1) / SUPER) + super];
}

#if FORMAT == 2
/* What is added to the codes of block `step`, in units of the row's second scale. */
uint least_of(__global const uchar* panel, uint k, uint step, uint lane) {
  const uint s = step / 8, b = step % 8, blocks = blocks_in(k, s);
  const int alone = b + 1 == blocks && b % 2 == 0;
  return panel[HEADER + s * super_bytes(8) + blocks * 128 + (blocks + 1) / 2 * 8 + b / 2 * 16 +
               (alone ? lane : lane * 2 + b % 2)];
}
/* A row's scale of its products (which = 0), or of the least values of its blocks (1). */
float scale_of_row(__global const uchar* panel, uint lane, uint which) {
  return as_float((uint)((__global const ushort*)panel)[which * 8 + lane] << 16);
}
#else
/* What the stored codes are larger than the codes. */
#define OFFSET (BITS == 6 ? 32 : BITS == 8 && ZERO == 2 ? -128 : 0)
#define NEEDS_TOTALS (OFFSET != 0 || ZERO != 0 || BITS == 4)

/* The scale and the zero point of a group of weights, as they are stored. */
typedef struct {
  uint scale, zero;
} Group;
#if SCALE_BYTES == 4
#define BITS_OF(i, p) (((__global const uint*)(p))[i])
#define NUMBER(bits) as_float(bits)
#else
#define BITS_OF(i, p) ((uint)((__global const ushort*)(p))[i])
#define NUMBER(bits) half_value(bits)
float half_value(uint bits) {
  const ushort number = (ushort)bits;
  return vload_half(0, (const half*)&number);
}
#endif
/* Of the group with codes 16 * half_block of block `step`. */
Group group_of(__global const uchar* panel, uint k, uint step, uint half_block, uint lane) {
  const uint s = step / 8, blocks = blocks_in(k, s);
  const uint at = (step % 8 * 2 + half_block) / (BLOCK / 16) * 8 + lane;
  __global const uchar* scales = panel + s * super_bytes(8) + blocks * 32 * BITS;
  Group group = {BITS_OF(at, scales), 0};
#if ZERO != 0
  __global const uchar* zeros = scales + groups_of(blocks) * 8 * SCALE_BYTES;
  group.zero = ZERO == 2 ? BITS_OF(at, zeros) : zeros[at];
#endif
  return group;
}
/* Adds a group to the sum of its superblock. `total` is the sum of the input's codes. */
float add_group(Group group, int sum, int total, float part) {
#if ZERO == 2
  const float zero = NUMBER(group.zero);
#elif ZERO == 1
  const float zero = (float)((int)group.zero - (BITS == 8 ? 128 : 0));
#else
  const float zero = BITS == 4 ? 8.0f : 0.0f;
#endif
  const float products = (float)(sum - OFFSET * total);
  return fma(NUMBER(group.scale), fma(-zero, (float)total, products), part);
}
#endif
#endif
)CL";

}  // namespace llmc::hosted
