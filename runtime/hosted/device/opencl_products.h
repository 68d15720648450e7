#pragma once

/// Matrix products of the device `opencl` in OpenCL C 1.2. docs/numerics.md defines the order of
/// their operations, templates/llmc/quant/ the layout of the matrices.
namespace llmc::hosted {

/// Products of a matrix format, after kOpenClRows (opencl_rows.h). FORMAT is 0 (f32), 1 (f16), 2
/// (q4) or 3 (coded); coded matrices define BITS, BLOCK, SCALE_BYTES and ZERO.
///
/// A group of 16 x GROUP_Y work items computes a tile of the result: 64 packed rows of the matrix,
/// which are eight panels, for 4 * GROUP_Y rows of the input. Step by step it copies eight words
/// of each row to local memory, 32 codes or 8 floats: of the matrix, decoded, and of the input. A
/// work item multiplies four rows with four.
inline constexpr char kOpenClProducts[] = R"CL(
#define ITEMS (16 * GROUP_Y)
#define TILE_ROWS 64
#define TILE_TOKENS (4 * GROUP_Y)
/* Words between two words of a row in local memory: a multiple of 4, and not of 32, so that the
 * stores of a group use different banks. */
#define ROW_STRIDE (TILE_ROWS + 4)
#define TOKEN_STRIDE (TILE_TOKENS + 4)
#define TILE_WORDS (8 * (ROW_STRIDE + TOKEN_STRIDE))

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

/* What a work item multiplies: rows r of the tile's panels, with rows token[t] of the input. */
typedef struct {
  __global const uchar* panel[2]; /* of rows 0 and 1, and of rows 2 and 3 */
  uint lane;                      /* of row 0 in its panel */
  uint token[4];                  /* rows after the last one are the last one */
} Place;

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
uint2 load_weights(__global const uchar* panel, uint k, uint step, uint v, uint lane) {
  const uint at = step * 8 + v * 2;
  return (uint2)(at < k ? as_uint(weight(panel, at, lane)) : 0,
                 at + 1 < k ? as_uint(weight(panel, at + 1, lane)) : 0);
}
uint2 load_inputs(const Input* in, uint token, uint step, uint v) {
  const uint at = step * 8 + v * 2;
  __global const float* row = in->rows + (ulong)token * in->k;
  return (uint2)(at < in->k ? as_uint(row[at]) : 0, at + 1 < in->k ? as_uint(row[at + 1]) : 0);
}

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
#define NUMBER(i, p) (SCALE_BYTES == 4 ? ((__global const float*)(p))[i] : vload_half(i, (__global const half*)(p)))
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

/* Words 2 * v and 2 * v + 1 of block `step` of one row, 4 codes each. Codes of q4 are multiplied
 * with the scale of their block, which gives at most 225. */
uint2 load_weights(__global const uchar* panel, uint k, uint step, uint v, uint lane) {
  const uint s = step / 8, b = step % 8;
  __global const uchar* codes = panel + HEADER + s * super_bytes(8);
  __global const uint* block = (__global const uint*)codes + b * (8 * BITS) + lane;
#if BITS == 8
  return (uint2)(block[v * 16], block[v * 16 + 8]);
#else
  const uint word = block[v * 8];
  uint2 pair = (uint2)(word, word >> 4) & 0x0f0f0f0fu;
#if BITS == 6
  const uint upper = block[32 + v / 2 * 8] >> (v % 2 * 4);
  pair |= ((uint2)(upper, upper >> 2) & 0x03030303u) << 4;
#endif
#if FORMAT == 2
  pair *= (uint)(codes[blocks_in(k, s) * 128 + b / 2 * 8 + lane] >> (b % 2 * 4) & 15);
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
/* Adds a superblock, whose products are `sum`, to the results. */
void end_super(const Input* in, const Place* place, uint s, int sum[4][4], float y[4][4]) {
  const uint blocks = blocks_in(in->k, s);
  const ulong mins_at = HEADER + s * super_bytes(8) + blocks * 128 + (blocks + 1) / 2 * 8;
  int least[4][4];
  for (uint r = 0; r < 4; ++r)
    for (uint t = 0; t < 4; ++t) least[r][t] = 0;
  for (uint b = 0; b < blocks; ++b) {
    int total[4];
    for (uint t = 0; t < 4; ++t)
      total[t] = sum16(in, place->token[t], s * 16 + 2 * b) +
                 sum16(in, place->token[t], s * 16 + 2 * b + 1);
    const int alone = b + 1 == blocks && b % 2 == 0;
    for (uint r = 0; r < 4; ++r) {
      const uint lane = place->lane + r % 2;
      const int m = place->panel[r / 2][mins_at + b / 2 * 16 + (alone ? lane : lane * 2 + b % 2)];
      for (uint t = 0; t < 4; ++t) least[r][t] += m * total[t];
    }
  }
  for (uint r = 0; r < 4; ++r) {
    __global const ushort* header = (__global const ushort*)place->panel[r / 2];
    const float scale = as_float((uint)header[place->lane + r % 2] << 16);
    const float low = as_float((uint)header[8 + place->lane + r % 2] << 16);
    for (uint t = 0; t < 4; ++t)
      y[r][t] = fma(scale_of(in, place->token[t], s),
                    fma(scale, (float)sum[r][t], low * (float)least[r][t]), y[r][t]);
  }
}
#else
/* Adds the last group of weights of steps up to `step`, whose products are `sum`, to those of the
 * superblock. */
void end_group(const Input* in, const Place* place, uint step, uint half_block, int sum[4][4],
               float part[4][4]) {
  /* What the stored codes are larger than the codes, and the zero point of formats without. */
  const int offset = BITS == 6 ? 32 : BITS == 8 && ZERO == 2 ? -128 : 0;
  const uint s = step / 8, blocks = blocks_in(in->k, s);
  const uint end = step % 8 * 2 + half_block + 1, group = (end - 1) / (BLOCK / 16);
  const ulong scales = s * super_bytes(8) + blocks * 32 * BITS;
  int total[4];
  for (uint t = 0; t < 4; ++t) {
    total[t] = 0;
    if (offset != 0 || ZERO != 0 || BITS == 4)
      for (uint h = group * (BLOCK / 16); h < end; ++h)
        total[t] += sum16(in, place->token[t], s * 16 + h);
  }
  for (uint r = 0; r < 4; ++r) {
    const uint at = group * 8 + place->lane + r % 2;
    const float d = NUMBER(at, place->panel[r / 2] + scales);
#if ZERO != 0
    __global const uchar* zeros =
        place->panel[r / 2] + scales + groups_of(blocks) * 8 * SCALE_BYTES;
#endif
#if ZERO == 2
    const float z = NUMBER(at, zeros);
#elif ZERO == 1
    const float z = (float)((int)zeros[at] - (BITS == 8 ? 128 : 0));
#else
    const float z = BITS == 4 ? 8.0f : 0.0f;
#endif
    for (uint t = 0; t < 4; ++t) {
      const float products = (float)(sum[r][t] - offset * total[t]);
      part[r][t] = fma(d, fma(-z, (float)total[t], products), part[r][t]);
      sum[r][t] = 0;
    }
  }
}
#endif
#endif

#define MULTIPLY(r, word)                        \
  sum[r][0] = multiply(word, a.x, sum[r][0]);    \
  sum[r][1] = multiply(word, a.y, sum[r][1]);    \
  sum[r][2] = multiply(word, a.z, sum[r][2]);    \
  sum[r][3] = multiply(word, a.w, sum[r][3]);

/* Adds the products of words `begin` .. `end` - 1 of a step. */
void multiply_words(__local const uint* tile, uint begin, uint end, Sum sum[4][4]) {
  for (uint i = begin; i < end; ++i) {
    const uint4 w = *(__local const uint4*)(tile + i * ROW_STRIDE + get_local_id(0) * 4);
    const uint4 a = *(__local const uint4*)(tile + 8 * ROW_STRIDE + i * TOKEN_STRIDE +
                                            get_local_id(1) * 4);
    MULTIPLY(0, w.x)
    MULTIPLY(1, w.y)
    MULTIPLY(2, w.z)
    MULTIPLY(3, w.w)
  }
}

/* Computes y[r][t], rows r of a work item's place in the tile for rows t of the input. Rows that
 * the matrix or the input do not have are undefined. `tiles` has 2 * TILE_WORDS words. */
void product(__global const uchar* matrix, uint rows, const Input* in, __local uint* tiles,
             float y[4][4]) {
  const uint k = in->k, x = get_local_id(0), item = (uint)get_local_id(1) * 16 + x;
  const uint y_item = get_local_id(1), first_token = (uint)get_group_id(1) * TILE_TOKENS;
  const uint first_panel = (uint)get_group_id(0) * 8, last_panel = rows / 8 - 1;
  Place place;
  for (uint i = 0; i < 2; ++i)
    place.panel[i] = matrix + min(first_panel + x / 4 * 2 + i, last_panel) * panel_bytes(k);
  place.lane = x % 4 * 2;
  for (uint t = 0; t < 4; ++t)
    place.token[t] = min(first_token + y_item * 4 + t, in->count - 1);
  const int used = first_token + y_item * 4 < in->count;
  Sum sum[4][4];
  float part[4][4];
  for (uint r = 0; r < 4; ++r)
    for (uint t = 0; t < 4; ++t) sum[r][t] = part[r][t] = y[r][t] = 0;

  /* Pairs of words that this work item copies: `item` and each ITEMS after it of the 4 pairs of a
   * row in a step. */
  const uint v = item / 8 % 4, lane = item % 8;
  __global const uchar* from[256 / ITEMS];
  uint to[256 / ITEMS];
  for (uint i = 0; i < 256 / ITEMS; ++i) {
    const uint panel = (item + i * ITEMS) / 32;
    from[i] = matrix + min(first_panel + panel, last_panel) * panel_bytes(k);
    /* The place of work item x has its four rows side by side. */
    to[i] = v * 2 * ROW_STRIDE + panel / 2 * 16 + lane / 2 * 4 + panel % 2 * 2 + lane % 2;
  }
  const uint token = min(first_token + item / 4, in->count - 1);
  const uint to_token = 8 * ROW_STRIDE + item % 4 * 2 * TOKEN_STRIDE + item / 4;

  uint2 weights[256 / ITEMS], inputs = load_inputs(in, token, 0, item % 4);
  for (uint i = 0; i < 256 / ITEMS; ++i) weights[i] = load_weights(from[i], k, 0, v, lane);
  for (uint step = 0; step < steps_of(k); ++step) {
    __local uint* tile = tiles + step % 2 * TILE_WORDS;
    for (uint i = 0; i < 256 / ITEMS; ++i) {
      tile[to[i]] = weights[i].x;
      tile[to[i] + ROW_STRIDE] = weights[i].y;
    }
    tile[to_token] = inputs.x;
    tile[to_token + TOKEN_STRIDE] = inputs.y;
    barrier(CLK_LOCAL_MEM_FENCE);
    /* The next step's words arrive while this one's are multiplied. */
    if (step + 1 < steps_of(k)) {
      inputs = load_inputs(in, token, step + 1, item % 4);
      for (uint i = 0; i < 256 / ITEMS; ++i)
        weights[i] = load_weights(from[i], k, step + 1, v, lane);
    }
    if (!used) continue;
#if FORMAT == 0 || FORMAT == 1
    multiply_words(tile, 0, min(k - step * 8, 8u), y);
#elif FORMAT == 2
    multiply_words(tile, 0, 8, sum);
    if (step % 8 == 7 || step + 1 == steps_of(k)) {
      end_super(in, &place, step / 8, sum, y);
      for (uint r = 0; r < 4; ++r)
        for (uint t = 0; t < 4; ++t) sum[r][t] = 0;
    }
#else
    const int last = step % 8 == 7 || step + 1 == steps_of(k);
    multiply_words(tile, 0, 4, sum);
    if (BLOCK == 16) end_group(in, &place, step, 0, sum, part);
    multiply_words(tile, 4, 8, sum);
    if (last || (step + 1) % (BLOCK <= 32 ? 1 : BLOCK / 32) == 0)
      end_group(in, &place, step, 1, sum, part);
    if (last)
      for (uint r = 0; r < 4; ++r)
        for (uint t = 0; t < 4; ++t) {
          y[r][t] = fma(scale_of(in, place.token[t], step / 8), part[r][t], y[r][t]);
          part[r][t] = 0.0f;
        }
#endif
  }
}

Input input_of(__global const char* codes, __global const short* sums, __global const float* scales,
               __global const uchar* in, ulong x, uint k, uint count) {
  Input input;
  input.codes = codes;
  input.sums = sums;
  input.scales = scales;
  input.rows = (__global const float*)(in + x);
  input.k = k;
  input.count = count;
  return input;
}

float add_bias(float v, __global const uchar* weights, ulong bias, uint packed_row) {
  return bias == NONE ? v : v + ((__global const float*)(weights + bias))[packed_row];
}

/* Rows first_row .. of the result, f32[count][n], from a matrix of `rows` packed rows. */
__kernel __attribute__((reqd_work_group_size(16, GROUP_Y, 1)))
void linear(__global const uchar* weights, ulong matrix, uint rows, uint first_row,
            __global const char* codes, __global const short* sums, __global const float* scales,
            __global const uchar* in, ulong x, uint k, uint count, uint n, ulong bias,
            uint function, __global uchar* scratch, ulong y, ulong out) {
  __local uint tiles[2 * TILE_WORDS] __attribute__((aligned(16)));
  const Input input = input_of(codes, sums, scales, in, x, k, count);
  float v[4][4];
  product(weights + matrix, rows, &input, tiles, v);
  const uint item = get_local_id(0);
  for (uint r = 0; r < 4; ++r) {
    const uint row =
        get_group_id(0) * TILE_ROWS + item / 4 * 16 + r / 2 * 8 + item % 4 * 2 + r % 2;
    const uint packed_row = first_row + row;
    for (uint t = 0; t < 4; ++t) {
      const uint token = get_global_id(1) * 4 + t;
      if (row >= rows || packed_row >= n || token >= count) continue;
      const ulong at = (ulong)token * n + packed_row;
      float result = apply(function, add_bias(v[r][t], weights, bias, packed_row));
      if (y != NONE) result = ((__global const float*)(scratch + y))[at] + result;
      ((__global float*)(scratch + out))[at] = result;
    }
  }
}

/* f(gate) * up, f32[count][n / 2]. */
__kernel __attribute__((reqd_work_group_size(16, GROUP_Y, 1)))
void gated_linear(__global const uchar* weights, ulong matrix, uint rows,
                  __global const char* codes, __global const short* sums,
                  __global const float* scales, __global const uchar* in, ulong x, uint k,
                  uint count, uint n, ulong bias, uint function, __global uchar* scratch,
                  ulong out) {
  __local uint tiles[2 * TILE_WORDS] __attribute__((aligned(16)));
  const Input input = input_of(codes, sums, scales, in, x, k, count);
  float v[4][4]; /* of two gates, then of their two ups */
  product(weights + matrix, rows, &input, tiles, v);
  const uint item = get_local_id(0);
  for (uint r = 0; r < 2; ++r) {
    const uint panels = get_group_id(0) * 4 + item / 4, lane = item % 4 * 2 + r;
    const uint column = panels * 8 + lane, gate_row = panels * 16 + lane;
    for (uint t = 0; t < 4; ++t) {
      const uint token = get_global_id(1) * 4 + t;
      if (gate_row >= rows || column >= n / 2 || token >= count) continue;
      const float g = apply(function, add_bias(v[r][t], weights, bias, gate_row));
      ((__global float*)(scratch + out))[(ulong)token * (n / 2) + column] =
          g * add_bias(v[r + 2][t], weights, bias, gate_row + 8);
    }
  }
}
)CL";

}  // namespace llmc::hosted
