#pragma once

/// Matrix products of the device `opencl` in OpenCL C 1.2. docs/numerics.md defines the order of
/// their operations, templates/llmc/quant/ the layout of the matrices.
namespace llmc::hosted {

/// Products of a matrix format, after kOpenClRows (opencl_rows.h). FORMAT is 0 (f32), 1 (f16), 2
/// (q4) or 3 (coded); coded matrices define BITS, BLOCK, SCALE_BYTES and ZERO. A work item computes
/// TOKENS rows of the result for one row of the matrix; eight of them share a panel.
inline constexpr char kOpenClProducts[] = R"CL(
uint blocks_of(uint k) { return (k + 31) / 32; }
uint blocks_in(uint k, uint super) { return min(blocks_of(k) - super * 8, 8u); }
ulong round_up(ulong a, ulong b) { return (a + b - 1) / b * b; }

/* The input of a product: quantized rows, or rows of floats. */
typedef struct {
  __global const char* codes;
  __global const short* sums;
  __global const float* scales;
  __global const float* rows;
  uint k, token[TOKENS];
} Input;

#if FORMAT == 0 || FORMAT == 1
ulong panel_bytes(uint k) { return round_up((ulong)k * 8 * (FORMAT == 0 ? 4 : 2), 64); }

void product(__global const uchar* panel, uint lane, const Input* in, float* y) {
  for (uint t = 0; t < TOKENS; ++t) y[t] = 0.0f;
  for (uint k = 0; k < in->k; ++k) {
#if FORMAT == 0
    const float w = ((__global const float*)panel)[k * 8 + lane];
#else
    const float w = vload_half(k * 8 + lane, (__global const half*)panel);
#endif
    for (uint t = 0; t < TOKENS; ++t)
      y[t] = fma(in->rows[(ulong)in->token[t] * in->k + k], w, y[t]);
  }
}
#else

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

/* Loads 16 codes of a row, half of a block: four words of four bytes. */
void load_codes(__global const uchar* codes, uint half_block, uint lane, uint* w) {
#if BITS == 8
  __global const uint* words = (__global const uint*)codes + (half_block * 4) * 8 + lane;
  for (uint i = 0; i < 4; ++i) w[i] = words[i * 8];
#else
  const uint block_words = BITS == 4 ? 32 : 48;
  __global const uint* block = (__global const uint*)codes + half_block / 2 * block_words + lane;
  const uint v = half_block % 2 * 2;
  w[0] = block[v * 8] & 0x0f0f0f0fu;
  w[1] = block[v * 8] >> 4 & 0x0f0f0f0fu;
  w[2] = block[v * 8 + 8] & 0x0f0f0f0fu;
  w[3] = block[v * 8 + 8] >> 4 & 0x0f0f0f0fu;
#if BITS == 6
  const uint upper = block[32 + half_block % 2 * 8];
  for (uint i = 0; i < 4; ++i) w[i] |= (upper >> (2 * i) & 0x03030303u) << 4;
#endif
#endif
}

int dot4(uint w, uint a) {
#if BITS == 8
  const int4 c = convert_int4(as_char4(w));
#else
  const int4 c = convert_int4(as_uchar4(w));
#endif
  const int4 p = c * convert_int4(as_char4(a));
  return (p.x + p.y) + (p.z + p.w);
}

void dot16(const uint* w, const Input* in, uint half_block, int* sum) {
  for (uint t = 0; t < TOKENS; ++t) {
    const uint4 a = vload4(half_block, (__global const uint*)(in->codes + (ulong)in->token[t] * blocks_of(in->k) * 32));
    sum[t] += (dot4(w[0], a.x) + dot4(w[1], a.y)) + (dot4(w[2], a.z) + dot4(w[3], a.w));
  }
}

int sum16(const Input* in, uint t, uint half_block) {
  return in->sums[(ulong)in->token[t] * blocks_of(in->k) * 2 + half_block];
}

float scale_of(const Input* in, uint t, uint super) {
  return in->scales[(ulong)in->token[t] * ((in->k + SUPER - 1) / SUPER) + super];
}

#if FORMAT == 2
void product(__global const uchar* panel, uint lane, const Input* in, float* y) {
  const float scale = as_float((uint)((__global const ushort*)panel)[lane] << 16);
  const float low = as_float((uint)((__global const ushort*)panel)[8 + lane] << 16);
  for (uint t = 0; t < TOKENS; ++t) y[t] = 0.0f;
  for (uint s = 0; s * 8 < blocks_of(in->k); ++s) {
    const uint blocks = blocks_in(in->k, s);
    __global const uchar* codes = panel + HEADER + s * super_bytes(8);
    __global const uchar* scales = codes + blocks * 128;
    __global const uchar* mins = scales + (blocks + 1) / 2 * 8;
    int i1[TOKENS], i2[TOKENS];
    for (uint t = 0; t < TOKENS; ++t) i1[t] = i2[t] = 0;
    for (uint b = 0; b < blocks; ++b) {
      const int c = scales[b / 2 * 8 + lane] >> (b % 2 * 4) & 15;
      const int alone = b + 1 == blocks && b % 2 == 0;
      const int m = mins[b / 2 * 16 + (alone ? lane : lane * 2 + b % 2)];
      int sum[TOKENS];
      for (uint t = 0; t < TOKENS; ++t) sum[t] = 0;
      for (uint h = 2 * b; h < 2 * b + 2; ++h) {
        uint w[4];
        load_codes(codes, h, lane, w);
        dot16(w, in, s * 16 + h, sum);
      }
      for (uint t = 0; t < TOKENS; ++t) {
        i1[t] += c * sum[t];
        i2[t] += m * (sum16(in, t, s * 16 + 2 * b) + sum16(in, t, s * 16 + 2 * b + 1));
      }
    }
    for (uint t = 0; t < TOKENS; ++t) {
      const float least = low * (float)i2[t];
      y[t] = fma(scale_of(in, t, s), fma(scale, (float)i1[t], least), y[t]);
    }
  }
}
#else
void product(__global const uchar* panel, uint lane, const Input* in, float* y) {
  /* What the stored codes are larger than the codes, and the zero point of formats without. */
  const int offset = BITS == 6 ? 32 : BITS == 8 && ZERO == 2 ? -128 : 0;
  for (uint t = 0; t < TOKENS; ++t) y[t] = 0.0f;
  for (uint s = 0; s * 8 < blocks_of(in->k); ++s) {
    const uint blocks = blocks_in(in->k, s);
    __global const uchar* codes = panel + s * super_bytes(8);
    __global const uchar* scales = codes + blocks * 32 * BITS;
#if ZERO != 0
    __global const uchar* zeros = scales + groups_of(blocks) * 8 * SCALE_BYTES;
#endif
    float part[TOKENS];
    for (uint t = 0; t < TOKENS; ++t) part[t] = 0.0f;
    for (uint group = 0; group < groups_of(blocks); ++group) {
      int sum[TOKENS], total[TOKENS];
      for (uint t = 0; t < TOKENS; ++t) sum[t] = total[t] = 0;
      const uint end = min((group + 1) * (BLOCK / 16), blocks * 2);
      for (uint h = group * (BLOCK / 16); h < end; ++h) {
        uint w[4];
        load_codes(codes, h, lane, w);
        dot16(w, in, s * 16 + h, sum);
        for (uint t = 0; t < TOKENS; ++t) total[t] += sum16(in, t, s * 16 + h);
      }
      const uint at = group * 8 + lane;
      const float d = NUMBER(at, scales);
#if ZERO == 2
      const float z = NUMBER(at, zeros);
#elif ZERO == 1
      const float z = (float)((int)zeros[at] - (BITS == 8 ? 128 : 0));
#else
      const float z = BITS == 4 ? 8.0f : 0.0f;
#endif
      for (uint t = 0; t < TOKENS; ++t) {
        const float products = (float)(sum[t] - offset * total[t]);
        part[t] = fma(d, fma(-z, (float)total[t], products), part[t]);
      }
    }
    for (uint t = 0; t < TOKENS; ++t) y[t] = fma(scale_of(in, t, s), part[t], y[t]);
  }
}
#endif
#endif

Input input_of(__global const char* codes, __global const short* sums, __global const float* scales,
               __global const uchar* in, ulong x, uint k, uint count) {
  Input input;
  input.codes = codes;
  input.sums = sums;
  input.scales = scales;
  input.rows = (__global const float*)(in + x);
  input.k = k;
  for (uint t = 0; t < TOKENS; ++t)
    input.token[t] = min((uint)get_global_id(1) * TOKENS + t, count - 1);
  return input;
}

float add_bias(float v, __global const uchar* weights, ulong bias, uint packed_row) {
  return bias == NONE ? v : v + ((__global const float*)(weights + bias))[packed_row];
}

/* Rows first_row .. of the result, f32[count][n]. */
__kernel void linear(__global const uchar* weights, ulong matrix, uint first_row,
                     __global const char* codes, __global const short* sums,
                     __global const float* scales, __global const uchar* in, ulong x, uint k,
                     uint count, uint n, ulong bias, uint function, __global uchar* scratch, ulong y,
                     ulong out) {
  const uint row = get_global_id(0), packed_row = first_row + row;
  const Input input = input_of(codes, sums, scales, in, x, k, count);
  float v[TOKENS];
  product(weights + matrix + row / 8 * panel_bytes(k), row % 8, &input, v);
  if (packed_row >= n) return;
  for (uint t = 0; t < TOKENS; ++t) {
    const uint token = get_global_id(1) * TOKENS + t;
    if (token >= count) return;
    const ulong at = (ulong)token * n + packed_row;
    float result = apply(function, add_bias(v[t], weights, bias, packed_row));
    if (y != NONE) result = ((__global const float*)(scratch + y))[at] + result;
    ((__global float*)(scratch + out))[at] = result;
  }
}

/* f(gate) * up, f32[count][n / 2]. */
__kernel void gated_linear(__global const uchar* weights, ulong matrix,
                           __global const char* codes, __global const short* sums,
                           __global const float* scales, __global const uchar* in, ulong x, uint k,
                           uint count, uint n, ulong bias, uint function, __global uchar* scratch,
                           ulong out) {
  const uint column = get_global_id(0), lane = column % 8, gate_row = column / 8 * 16 + lane;
  const Input input = input_of(codes, sums, scales, in, x, k, count);
  float gate[TOKENS], up[TOKENS];
  product(weights + matrix + column / 8 * 2 * panel_bytes(k), lane, &input, gate);
  product(weights + matrix + (column / 8 * 2 + 1) * panel_bytes(k), lane, &input, up);
  if (column >= n / 2) return;
  for (uint t = 0; t < TOKENS; ++t) {
    const uint token = get_global_id(1) * TOKENS + t;
    if (token >= count) return;
    const float g = apply(function, add_bias(gate[t], weights, bias, gate_row));
    ((__global float*)(scratch + out))[(ulong)token * (n / 2) + column] =
        g * add_bias(up[t], weights, bias, gate_row + 8);
  }
}
)CL";

}  // namespace llmc::hosted
