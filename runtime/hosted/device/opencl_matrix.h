#pragma once

/// Products of quantized matrices with instructions that multiply small matrices of bytes (tensor
/// cores), for GPUs that have them. docs/numerics.md defines the order of the operations of floats;
/// sums of integers are exact in any order.
namespace llmc::hosted {

/// product() for groups of 16 x 8 work items. Follows kOpenClFormats (opencl_formats.h) in a
/// program. A group is 4 warps of 32 work items; a warp computes 16 packed rows for 32 rows of the
/// input, in tiles of 16 x 8. A stage consists of STEPS steps of 32 codes. It is copied to local
/// memory, with the matrix decoded. MATRIX_PRODUCTS: opencl_find.h.
inline constexpr char kOpenClMatrixProduct[] = R"CL(
#if FORMAT == 3 && BLOCK == 16
#define STEPS 2
#else
#define STEPS 4
#endif
/* Words between two rows in local memory. 8 * STEPS are used; with 8 more, the pairs of words of 16
 * work items 4 * g + v, which are read at the same time, are in different banks. */
#define STRIDE (8 * STEPS + 8)
#if FORMAT == 2
#define GROUPS STEPS /* of a row in a stage */
#define GROUP_WORDS 1
#else
#define GROUPS (STEPS * 32 > BLOCK ? STEPS * 32 / BLOCK : 1)
#define GROUP_WORDS 2
#endif
/* A stage is the rows of the matrix and of the input, what their groups have, and the scales of the
 * input. */
#define GROUPS_AT ((TILE_ROWS + TILE_TOKENS) * STRIDE)
#define SCALES_AT (GROUPS_AT + TILE_ROWS * GROUPS * GROUP_WORDS)
#define STAGE_WORDS (SCALES_AT + TILE_TOKENS)
#define LOCAL_WORDS (2 * STAGE_WORDS)
#define ROW_PAIRS (TILE_ROWS * 4 * STEPS / ITEMS)
#define TOKEN_PAIRS (TILE_TOKENS * 4 * STEPS / ITEMS)
#define ITEM_GROUPS ((TILE_ROWS * GROUPS + ITEMS - 1) / ITEMS)

#define ITEM_ROWS 2
#define ITEM_TOKENS 8
uint warp_row(void) { return item_of_group() / 32 * 16; }
uint tile_row(uint r) { return warp_row() + r * 8 + item_of_group() % 32 / 4; }
uint tile_token(uint t) { return t / 2 * 8 + item_of_group() % 4 * 2 + t % 2; }

typedef int Sums[ITEM_ROWS][ITEM_TOKENS];

__local const uint* words_of(__local const uint* stage, uint row, uint step) {
  return stage + row * STRIDE + step * 8;
}

#if MATRIX_PRODUCTS == 1
#if BITS == 8
#define TYPES "s8.s8"
#else
#define TYPES "u8.s8"
#endif
/* Adds products of 16 rows of 32 codes with the rows of the input. A work item 4 * g + v has
 * words 2 * v and 2 * v + 1 of rows g (low) and g + 8 (high). */
void multiply_rows(uint2 low, uint2 high, __local const uint* stage, uint step, Sums sum) {
  const uint lane = item_of_group() % 32;
  __local const uint* tokens =
      stage + (TILE_ROWS + lane / 4) * STRIDE + step * 8 + lane % 4 * 2;
#pragma unroll
  for (uint t = 0; t < ITEM_TOKENS; t += 2) {
    const uint2 in = *(__local const uint2*)(tokens + t * 4 * STRIDE);
    int a, b, c, d;
    asm volatile(
        "mma.sync.aligned.m16n8k32.row.col.s32." TYPES ".s32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
        : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
        : "r"(low.x), "r"(high.x), "r"(low.y), "r"(high.y), "r"(in.x), "r"(in.y), "r"(sum[0][t]),
          "r"(sum[0][t + 1]), "r"(sum[1][t]), "r"(sum[1][t + 1]));
    sum[0][t] = a;
    sum[0][t + 1] = b;
    sum[1][t] = c;
    sum[1][t + 1] = d;
  }
}
/* The words of a work item in `halves` of a step: 1 is the first 16 codes, 2 the others, 3 both. */
uint2 in_halves(uint2 words, uint halves) {
  return (halves >> item_of_group() % 4 / 2 & 1) != 0 ? words : (uint2)(0, 0);
}

void multiply_step(__local const uint* stage, uint step, uint halves, Sums sum) {
  const uint lane = item_of_group() % 32;
  __local const uint* rows =
      stage + (warp_row() + lane / 4) * STRIDE + step * 8 + lane % 4 * 2;
  multiply_rows(in_halves(*(__local const uint2*)rows, halves),
                in_halves(*(__local const uint2*)(rows + 8 * STRIDE), halves), stage, step, sum);
}
void multiply_equal(uint low, uint high, __local const uint* stage, uint step, uint halves,
                    Sums sum) {
  multiply_rows(in_halves((uint2)(low, low), halves), in_halves((uint2)(high, high), halves), stage,
                step, sum);
}
#else
/* Adds the products of this work item's rows and tokens in `halves` of a step: 1 is the first 16
 * codes, 2 the others, 3 both. */
void multiply_step(__local const uint* stage, uint step, uint halves, Sums sum) {
  for (uint i = halves == 2 ? 4 : 0; i < (halves == 1 ? 4 : 8); ++i)
    for (uint r = 0; r < ITEM_ROWS; ++r)
      for (uint t = 0; t < ITEM_TOKENS; ++t)
        sum[r][t] = multiply(words_of(stage, tile_row(r), step)[i],
                             words_of(stage, TILE_ROWS + tile_token(t), step)[i], sum[r][t]);
}
/* The same with rows of equal codes: words `low` and `high`. */
void multiply_equal(uint low, uint high, __local const uint* stage, uint step, uint halves,
                    Sums sum) {
  for (uint i = halves == 2 ? 4 : 0; i < (halves == 1 ? 4 : 8); ++i)
    for (uint t = 0; t < ITEM_TOKENS; ++t) {
      const uint in = words_of(stage, TILE_ROWS + tile_token(t), step)[i];
      sum[0][t] = multiply(low, in, sum[0][t]);
      sum[1][t] = multiply(high, in, sum[1][t]);
    }
}
#endif

/* A work item's part of the next stage, on the way to local memory. */
typedef struct {
  Packed rows[ROW_PAIRS];
  uint2 tokens[TOKEN_PAIRS];
#if FORMAT == 2
  uint groups[ITEM_GROUPS]; /* least_of() */
#else
  Group groups[ITEM_GROUPS];
#endif
  float scale;
} TileLoads;

/* Steps after the last one are the last one. */
void load_stage(__global const uchar* matrix, uint first_panel, uint last_panel, const Input* in,
                uint first_token, uint first_step, TileLoads* to) {
  const uint item = item_of_group(), k = in->k, last_step = steps_of(k) - 1;
#pragma unroll
  for (uint i = 0; i < ROW_PAIRS; ++i) {
    const uint at = item + i * ITEMS, step = min(first_step + at / (TILE_ROWS * 4), last_step);
    __global const uchar* panel =
        matrix + min(first_panel + at / 32 % (TILE_ROWS / 8), last_panel) * panel_bytes(k);
    to->rows[i] = load_packed(panel, k, step, at / 8 % 4, at % 8);
  }
#pragma unroll
  for (uint i = 0; i < TOKEN_PAIRS; ++i) {
    const uint at = item + i * ITEMS, step = min(first_step + at / 4 % STEPS, last_step);
    to->tokens[i] =
        load_inputs(in, min(first_token + at / (4 * STEPS), in->count - 1), step, at % 4);
  }
#pragma unroll
  for (uint i = 0; i < ITEM_GROUPS; ++i) {
    const uint at = item + i * ITEMS;
    __global const uchar* panel =
        matrix + min(first_panel + at / 8 % (TILE_ROWS / 8), last_panel) * panel_bytes(k);
    const uint group = at / TILE_ROWS % GROUPS;
#if FORMAT == 2
    to->groups[i] = least_of(panel, k, min(first_step + group, last_step), at % 8);
#else
    to->groups[i] = group_of(panel, k, min(first_step + group * BLOCK / 32, last_step),
                                group * BLOCK / 16 % 2, at % 8);
#endif
  }
  to->scale =
      scale_of(in, min(first_token + item % TILE_TOKENS, in->count - 1), first_step / 8);
}

void store_stage(const TileLoads* from, uint first_step, __local uint* stage) {
  const uint item = item_of_group();
#pragma unroll
  for (uint i = 0; i < ROW_PAIRS; ++i) {
    const uint at = item + i * ITEMS, row = at / 32 % (TILE_ROWS / 8) * 8 + at % 8;
    const uint step = at / (TILE_ROWS * 4), v = at / 8 % 4;
    *(__local uint2*)(stage + row * STRIDE + step * 8 + v * 2) =
        decode(from->rows[i], first_step + step, v);
  }
#pragma unroll
  for (uint i = 0; i < TOKEN_PAIRS; ++i) {
    const uint at = item + i * ITEMS;
    *(__local uint2*)(stage + (TILE_ROWS + at / (4 * STEPS)) * STRIDE + at % (4 * STEPS) * 2) =
        from->tokens[i];
  }
#pragma unroll
  for (uint i = 0; i < ITEM_GROUPS; ++i) {
    const uint at = item + i * ITEMS;
    if (at >= TILE_ROWS * GROUPS) continue;
#if FORMAT == 2
    stage[GROUPS_AT + at] = from->groups[i] * 0x01010101u;
#else
    stage[GROUPS_AT + 2 * at] = from->groups[i].scale;
    stage[GROUPS_AT + 2 * at + 1] = from->groups[i].zero;
#endif
  }
  if (item < TILE_TOKENS) stage[SCALES_AT + item] = as_uint(from->scale);
}

void clear(Sums sum) {
  for (uint r = 0; r < ITEM_ROWS; ++r)
    for (uint t = 0; t < ITEM_TOKENS; ++t) sum[r][t] = 0;
}

/* Computes results[r][t]: rows tile_row(r) of the tile for its rows tile_token(t) of the input.
 * Rows that the matrix or the input do not have are undefined. */
void product(__global const uchar* matrix, uint rows, const Input* in, __local uint* tiles,
             float results[ITEM_ROWS][ITEM_TOKENS]) {
  const uint k = in->k, steps = steps_of(k), lane = item_of_group() % 32 / 4;
  const uint first_token = (uint)get_group_id(1) * TILE_TOKENS;
  const uint first_panel = (uint)get_group_id(0) * 8, last_panel = rows / 8 - 1;
  __global const uchar* panel[ITEM_ROWS];
  for (uint r = 0; r < ITEM_ROWS; ++r)
    panel[r] = matrix + min(first_panel + warp_row() / 8 + r, last_panel) * panel_bytes(k);
  float y[ITEM_ROWS][ITEM_TOKENS];
  for (uint r = 0; r < ITEM_ROWS; ++r)
    for (uint t = 0; t < ITEM_TOKENS; ++t) y[r][t] = 0.0f;
  Sums sum, total; /* total: of q4, the least values; of other formats, the input's codes */
  clear(sum);
  clear(total);
#if FORMAT == 2
  float scale[ITEM_ROWS], low[ITEM_ROWS];
  for (uint r = 0; r < ITEM_ROWS; ++r) {
    scale[r] = scale_of_row(panel[r], lane, 0);
    low[r] = scale_of_row(panel[r], lane, 1);
  }
#else
  float part[ITEM_ROWS][ITEM_TOKENS];
  for (uint r = 0; r < ITEM_ROWS; ++r)
    for (uint t = 0; t < ITEM_TOKENS; ++t) part[r][t] = 0.0f;
#endif

  TileLoads next;
  load_stage(matrix, first_panel, last_panel, in, first_token, 0, &next);
  for (uint first = 0; first < steps; first += STEPS) {
    __local uint* stage = tiles + first / STEPS % 2 * STAGE_WORDS;
    store_stage(&next, first, stage);
    barrier(CLK_LOCAL_MEM_FENCE);
    /* The next stage arrives while this one is multiplied. */
    if (first + STEPS < steps)
      load_stage(matrix, first_panel, last_panel, in, first_token, first + STEPS, &next);
    for (uint i = 0; i < STEPS && first + i < steps; ++i) {
      const uint step = first + i;
      const int last = step % 8 == 7 || step + 1 == steps;
#if FORMAT == 2
      multiply_step(stage, i, 3, sum);
      multiply_equal(stage[GROUPS_AT + i * TILE_ROWS + tile_row(0)],
                     stage[GROUPS_AT + i * TILE_ROWS + tile_row(1)], stage, i, 3, total);
      if (!last) continue;
      for (uint t = 0; t < ITEM_TOKENS; ++t) {
        const float of_input = as_float(stage[SCALES_AT + tile_token(t)]);
        for (uint r = 0; r < ITEM_ROWS; ++r)
          y[r][t] =
              fma(of_input, fma(scale[r], (float)sum[r][t], low[r] * (float)total[r][t]), y[r][t]);
      }
      clear(sum);
      clear(total);
#else
      for (uint h = 0; h < (BLOCK == 16 ? 2 : 1); ++h) {
        const uint halves = BLOCK == 16 ? 1 << h : 3;
        multiply_step(stage, i, halves, sum);
        if (NEEDS_TOTALS) multiply_equal(0x01010101, 0x01010101, stage, i, halves, total);
        if (BLOCK > 32 && !last && (step + 1) % (BLOCK / 32) != 0) continue;
        for (uint r = 0; r < ITEM_ROWS; ++r) {
          __local const uint* at =
              stage + GROUPS_AT + ((i * 2 + h) / (BLOCK / 16) * TILE_ROWS + tile_row(r)) * 2;
          const Group group = {at[0], at[1]};
          for (uint t = 0; t < ITEM_TOKENS; ++t)
            part[r][t] = add_group(group, sum[r][t], total[r][t], part[r][t]);
        }
        clear(sum);
        clear(total);
      }
      if (!last) continue;
      for (uint t = 0; t < ITEM_TOKENS; ++t) {
        const float of_input = as_float(stage[SCALES_AT + tile_token(t)]);
        for (uint r = 0; r < ITEM_ROWS; ++r) {
          y[r][t] = fma(of_input, part[r][t], y[r][t]);
          part[r][t] = 0.0f;
        }
      }
#endif
    }
  }
  for (uint r = 0; r < ITEM_ROWS; ++r)
    for (uint t = 0; t < ITEM_TOKENS; ++t) results[r][t] = y[r][t];
}

/* Counts the sums of each work item that are not those of single words. */
__kernel __attribute__((reqd_work_group_size(16, GROUP_Y, 1)))
void try_matrix(__global uint* wrong) {
  __local uint stage[STAGE_WORDS] __attribute__((aligned(16)));
  const uint item = item_of_group();
  for (uint i = item; i < STAGE_WORDS; i += ITEMS) stage[i] = (i + 1) * 2654435761u;
  barrier(CLK_LOCAL_MEM_FENCE);
  Sums sum;
  clear(sum);
  multiply_step(stage, 0, 1, sum);
  multiply_step(stage, 1, 3, sum);
  uint count = 0;
  for (uint r = 0; r < ITEM_ROWS; ++r)
    for (uint t = 0; t < ITEM_TOKENS; ++t) {
      int expected = 0;
      for (uint i = 0; i < 16; ++i)
        if (i < 4 || i >= 8)
          expected = multiply(words_of(stage, tile_row(r), 0)[i],
                              words_of(stage, TILE_ROWS + tile_token(t), 0)[i], expected);
      count += sum[r][t] != expected;
    }
  wrong[item] = count;
}
)CL";

}  // namespace llmc::hosted
