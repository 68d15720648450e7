#pragma once

/// Matrix products of the device `opencl` in OpenCL C 1.2. docs/numerics.md defines the order of
/// their operations.
namespace llmc::hosted {

/// product() of any format. Follows kOpenClFormats (opencl_formats.h) in a program. In each step a
/// group copies the words of its matrix rows, decoded, and of its input rows to local memory. A
/// work item multiplies four rows of the matrix with four rows of the input.
inline constexpr char kOpenClProduct[] = R"CL(
/* Words between two words of a row in local memory: a multiple of 4, and not of 32, so that the
 * stores of a group use different banks. */
#define ROW_STRIDE (TILE_ROWS + 4)
#define TOKEN_STRIDE (TILE_TOKENS + 4)
#define TILE_WORDS (8 * (ROW_STRIDE + TOKEN_STRIDE))
#define LOCAL_WORDS (2 * TILE_WORDS)

#define ITEM_ROWS 4
#define ITEM_TOKENS 4
uint tile_row(uint r) {
  const uint x = get_local_id(0);
  return x / 4 * 16 + r / 2 * 8 + x % 4 * 2 + r % 2;
}
uint tile_token(uint t) { return (uint)get_local_id(1) * 4 + t; }

/* What a work item multiplies: rows r of the tile's panels, with rows token[t] of the input. */
typedef struct {
  __global const uchar* panel[2]; /* of rows 0 and 1, and of rows 2 and 3 */
  uint lane;                      /* of row 0 in its panel */
  uint token[4];                  /* rows after the last one are the last one */
} Place;

#if FORMAT == 2
/* Adds superblock `s`, whose products are `sum`, to the results. */
void end_super(const Input* in, const Place* place, uint s, int sum[4][4], float y[4][4]) {
  int least[4][4];
  for (uint r = 0; r < 4; ++r)
    for (uint t = 0; t < 4; ++t) least[r][t] = 0;
  for (uint b = 0; b < blocks_in(in->k, s); ++b) {
    int total[4];
    for (uint t = 0; t < 4; ++t)
      total[t] = sum16(in, place->token[t], s * 16 + 2 * b) +
                 sum16(in, place->token[t], s * 16 + 2 * b + 1);
    for (uint r = 0; r < 4; ++r) {
      const int m = least_of(place->panel[r / 2], in->k, s * 8 + b, place->lane + r % 2);
      for (uint t = 0; t < 4; ++t) least[r][t] += m * total[t];
    }
  }
  for (uint r = 0; r < 4; ++r) {
    const float scale = scale_of_row(place->panel[r / 2], place->lane + r % 2, 0);
    const float low = scale_of_row(place->panel[r / 2], place->lane + r % 2, 1);
    for (uint t = 0; t < 4; ++t)
      y[r][t] = fma(scale_of(in, place->token[t], s),
                    fma(scale, (float)sum[r][t], low * (float)least[r][t]), y[r][t]);
  }
}
#elif FORMAT == 3
/* Adds the last group of weights of steps up to `step`, whose products are `sum`, to those of the
 * superblock. */
void end_group(const Input* in, const Place* place, uint step, uint half_block, int sum[4][4],
               float part[4][4]) {
  const uint end = step % 8 * 2 + half_block + 1;
  int total[4];
  for (uint t = 0; t < 4; ++t) {
    total[t] = 0;
    if (NEEDS_TOTALS)
      for (uint h = (end - 1) / (BLOCK / 16) * (BLOCK / 16); h < end; ++h)
        total[t] += sum16(in, place->token[t], step / 8 * 16 + h);
  }
  for (uint r = 0; r < 4; ++r) {
    const Group group =
        group_of(place->panel[r / 2], in->k, step, half_block, place->lane + r % 2);
    for (uint t = 0; t < 4; ++t) {
      part[r][t] = add_group(group, sum[r][t], total[t], part[r][t]);
      sum[r][t] = 0;
    }
  }
}
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
 * the matrix or the input do not have are undefined. */
void product(__global const uchar* matrix, uint rows, const Input* in, __local uint* tiles,
             float y[4][4]) {
  const uint k = in->k, x = get_local_id(0), item = item_of_group();
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

  Packed weights[256 / ITEMS];
  uint2 inputs = load_inputs(in, token, 0, item % 4);
  for (uint i = 0; i < 256 / ITEMS; ++i) weights[i] = load_packed(from[i], k, 0, v, lane);
  for (uint step = 0; step < steps_of(k); ++step) {
    __local uint* tile = tiles + step % 2 * TILE_WORDS;
    for (uint i = 0; i < 256 / ITEMS; ++i) {
      const uint2 words = decode(weights[i], step, v);
      tile[to[i]] = words.x;
      tile[to[i] + ROW_STRIDE] = words.y;
    }
    tile[to_token] = inputs.x;
    tile[to_token + TOKEN_STRIDE] = inputs.y;
    barrier(CLK_LOCAL_MEM_FENCE);
    /* The next step's words arrive while this one's are multiplied. */
    if (step + 1 < steps_of(k)) {
      inputs = load_inputs(in, token, step + 1, item % 4);
      for (uint i = 0; i < 256 / ITEMS; ++i)
        weights[i] = load_packed(from[i], k, step + 1, v, lane);
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

)CL";

/// The kernels `linear` and `gated_linear`. Follows the source of product() in a program.
inline constexpr char kOpenClLinear[] = R"CL(
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
  __local uint tiles[LOCAL_WORDS] __attribute__((aligned(16)));
  const Input input = input_of(codes, sums, scales, in, x, k, count);
  float v[ITEM_ROWS][ITEM_TOKENS];
  product(weights + matrix, rows, &input, tiles, v);
  const uint first_token = (uint)get_group_id(1) * TILE_TOKENS;
  for (uint r = 0; r < ITEM_ROWS; ++r) {
    const uint row = (uint)get_group_id(0) * TILE_ROWS + tile_row(r), packed_row = first_row + row;
    if (row >= rows || packed_row >= n) continue;
    __global float* results = (__global float*)(scratch + out) + packed_row;
    float before[ITEM_TOKENS];
    if (y != NONE)
      for (uint t = 0; t < ITEM_TOKENS; ++t)
        before[t] = ((__global const float*)(scratch + y))[
            (ulong)min(first_token + tile_token(t), count - 1) * n + packed_row];
    for (uint t = 0; t < ITEM_TOKENS; ++t)
      v[r][t] = apply(function, add_bias(v[r][t], weights, bias, packed_row));
    for (uint t = 0; t < ITEM_TOKENS; ++t)
      if (first_token + tile_token(t) < count)
        results[(ulong)(first_token + tile_token(t)) * n] =
            y != NONE ? before[t] + v[r][t] : v[r][t];
  }
}

/* f(gate) * up, f32[count][n / 2]. */
__kernel __attribute__((reqd_work_group_size(16, GROUP_Y, 1)))
void gated_linear(__global const uchar* weights, ulong matrix, uint rows,
                  __global const char* codes, __global const short* sums,
                  __global const float* scales, __global const uchar* in, ulong x, uint k,
                  uint count, uint n, ulong bias, uint function, __global uchar* scratch,
                  ulong out) {
  __local uint tiles[LOCAL_WORDS] __attribute__((aligned(16)));
  const Input input = input_of(codes, sums, scales, in, x, k, count);
  float v[ITEM_ROWS][ITEM_TOKENS]; /* of gates, then of their ups */
  product(weights + matrix, rows, &input, tiles, v);
  const uint first_token = (uint)get_group_id(1) * TILE_TOKENS;
  for (uint r = 0; r < ITEM_ROWS / 2; ++r) {
    const uint gate_row = (uint)get_group_id(0) * TILE_ROWS + tile_row(r);
    const uint column = gate_row / 16 * 8 + gate_row % 8;
    if (gate_row >= rows || column >= n / 2) continue;
    for (uint t = 0; t < ITEM_TOKENS; ++t)
      if (first_token + tile_token(t) < count)
        ((__global float*)(scratch + out))[(ulong)(first_token + tile_token(t)) * (n / 2) +
                                           column] =
            apply(function, add_bias(v[r][t], weights, bias, gate_row)) *
            add_bias(v[r + ITEM_ROWS / 2][t], weights, bias, gate_row + 8);
  }
}
)CL";

}  // namespace llmc::hosted
