#pragma once

/// Kernels of the device `opencl` in OpenCL C 1.2. docs/numerics.md defines the order of their
/// operations.
namespace llmc::hosted {

/// Common start of all programs: functions, and the kernels that process rows (norms, quantization
/// of activations, elementwise operations).
inline constexpr char kOpenClRows[] = R"CL(
#pragma OPENCL FP_CONTRACT OFF

#define NONE 0xffffffffffffffffUL
#define SUPER 256
#define MAGIC 12582912.0f

/* sum and the products of four bytes of w with four signed bytes of a. BYTE_PRODUCTS: ByteProducts
 * of opencl_find.h. */
#if BYTE_PRODUCTS == 2
int dot_unsigned(uint w, uint a, int sum) {
  int result;
  asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(result) : "r"(w), "r"(a), "r"(sum));
  return result;
}
int dot_signed(uint w, uint a, int sum) {
  int result;
  asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(result) : "r"(w), "r"(a), "r"(sum));
  return result;
}
#elif BYTE_PRODUCTS == 1
int dot_unsigned(uint w, uint a, int sum) { return sum + dot_4x8packed_us_int(w, a); }
int dot_signed(uint w, uint a, int sum) { return sum + dot_4x8packed_ss_int(w, a); }
#else
int byte_product(int w, uint a) { return w * (char)a; }
int dot_unsigned(uint w, uint a, int sum) {
  return sum + ((byte_product((uchar)w, a) + byte_product((uchar)(w >> 8), a >> 8)) +
                (byte_product((uchar)(w >> 16), a >> 16) + byte_product(w >> 24, a >> 24)));
}
int dot_signed(uint w, uint a, int sum) {
  return sum + ((byte_product((char)w, a) + byte_product((char)(w >> 8), a >> 8)) +
                (byte_product((char)(w >> 16), a >> 16) + byte_product((char)(w >> 24), a >> 24)));
}
#endif

float exp_exact(float x) {
  const float shifted = fma(x, 1.44269504f, MAGIC);
  const float n = shifted - MAGIC;
  float r = fma(n, -0.693359375f, x);
  r = fma(n, 2.12194440e-4f, r);
  float p = 1.9875691500e-4f;
  p = fma(p, r, 1.3981999507e-3f);
  p = fma(p, r, 8.3334519073e-3f);
  p = fma(p, r, 4.1665795894e-2f);
  p = fma(p, r, 1.6666665459e-1f);
  p = fma(p, r, 5.0000001201e-1f);
  p = fma(p, r * r, r) + 1.0f;
  const uint whole = as_uint(shifted) - 0x4b400000u;
  const uint low = as_uint(as_int(whole) >> 1);
  p = p * as_float((low + 127u) << 23);
  p = p * as_float((whole - low + 127u) << 23);
  p = x < -104.0f ? 0.0f : p;
  return 89.0f < x ? as_float(0x7f800000) : p;
}

float with_sign_of(float v, float x) {
  return as_float((as_uint(v) & 0x7fffffffu) | (as_uint(x) & 0x80000000u));
}

float tanh_exact(float x) {
  const float magnitude = as_float(as_uint(x) & 0x7fffffffu), square = x * x;
  float p = -5.70498872745e-3f;
  p = fma(p, square, 2.06390887954e-2f);
  p = fma(p, square, -5.37397155531e-2f);
  p = fma(p, square, 1.33314422036e-1f);
  p = fma(p, square, -3.33332819422e-1f);
  const float small = fma(p * square, x, x);
  const float large = 1.0f - 2.0f / (exp_exact(magnitude + magnitude) + 1.0f);
  return magnitude < 0.625f ? small : with_sign_of(large, x);
}

float erf_exact(float x) {
  const float t = as_float(as_uint(x) & 0x7fffffffu), s = x * x;
  float p = fma(-1.72853470e-5f, t, 3.83197126e-4f);
  p = fma(p, s, fma(-3.88396438e-3f, t, 2.42546219e-2f));
  p = fma(p, t, -1.06777877e-1f);
  p = fma(p, t, -6.34846687e-1f);
  p = fma(p, t, -1.28717512e-1f);
  p = fma(p, t, 0.0f - t);
  const float large = 1.0f - exp_exact(p);
  float q = -5.96761703e-4f;
  q = fma(q, s, 4.99119423e-3f);
  q = fma(q, s, -2.67681349e-2f);
  q = fma(q, s, 1.12819925e-1f);
  q = fma(q, s, -3.76125336e-1f);
  q = fma(q, s, 1.28379166e-1f);
  return 0.927734375f < t ? with_sign_of(large, x) : fma(q, x, x);
}

/* LLMC_FUNCTION_… of one operand. */
float apply(uint function, float x) {
  switch (function) {
    case 1: return as_float(as_uint(x) ^ 0x80000000u);
    case 2: return as_float(as_uint(x) & 0x7fffffffu);
    case 3: return sqrt(x);
    case 4: return 1.0f / x;
    case 5: return exp_exact(x);
    case 6: return 1.0f / (1.0f + exp_exact(0.0f - x));
    case 7: return x / (1.0f + exp_exact(0.0f - x));
    case 8: return x > 0.0f ? x : 0.0f;
    case 9: return tanh_exact(x);
    case 10: return erf_exact(x);
    case 11: return (0.5f * x) * (1.0f + erf_exact(x * 0.707106781f));
    case 12: {
      const float u = x * fma(x * x, 0.0713548163f, 1.59576912f);
      return x / (1.0f + exp_exact(0.0f - u));
    }
    default: return x;
  }
}

/* LLMC_FUNCTION_… of two operands. */
float combine(uint function, float a, float b) {
  switch (function) {
    case 13: return a + b;
    case 14: return a - b;
    case 15: return a * b;
    case 16: return a / b;
    case 17: return a < b ? a : b;
    default: return a > b ? a : b;
  }
}

/* A group of NORM_ITEMS work items normalizes one row of n. Sums are defined as those of eight
 * lanes, so only eight work items add. Before that, all of them copy the row to local memory. */
#define NORM_ITEMS 64
#define NORM_TILE 1024

/* The sum of eight lanes of `source`, or of the squares of `source` - mean. */
float row_sum(__global const float* source, uint n, int squares, float mean, __local float* tile,
              __local float* lanes) {
  const uint j = get_local_id(0);
  float sum = 0.0f;
  for (uint first = 0; first < n; first += NORM_TILE) {
    const uint count = min(n - first, (uint)NORM_TILE);
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll 16
    for (uint i = j; i < count; i += NORM_ITEMS) tile[i] = source[first + i] - mean;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (j >= 8) continue;
    if (squares) {
#pragma unroll 16
      for (uint i = j; i < count; i += 8) sum = fma(tile[i], tile[i], sum);
    } else {
#pragma unroll 16
      for (uint i = j; i < count; i += 8) sum = sum + tile[i];
    }
  }
  if (j < 8) lanes[j] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);
  sum = ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +
        ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
  barrier(CLK_LOCAL_MEM_FENCE);
  return sum;
}

__kernel __attribute__((reqd_work_group_size(NORM_ITEMS, 1, 1)))
void norm_rows(__global const uchar* weights, __global const uchar* in, ulong x, ulong y,
               __global uchar* results, ulong out, ulong weight, ulong bias, float epsilon, uint n,
               uint layer_norm) {
  __local float tile[NORM_TILE], lanes[8];
  const ulong row = get_group_id(0);
  __global const float* source = (__global const float*)(in + x) + row * n;
  __global const float* scale = (__global const float*)(weights + weight);
  const float mean = layer_norm ? row_sum(source, n, 0, 0.0f, tile, lanes) / (float)n : 0.0f;
  const float inverse =
      1.0f / sqrt(row_sum(source, n, 1, mean, tile, lanes) / (float)n + epsilon);
#pragma unroll 4
  for (uint i = get_local_id(0); i < n; i += NORM_ITEMS) {
    float v = ((layer_norm ? source[i] - mean : source[i]) * inverse) * scale[i];
    if (bias != NONE) v = v + ((__global const float*)(weights + bias))[i];
    if (y != NONE) v = ((__global const float*)(in + y))[row * n + i] + v;
    ((__global float*)(results + out))[row * n + i] = v;
  }
}

/* Transforms the groups of n elements, a power of two, of a superblock with `columns` elements, 8
 * of each work item: llmc/kernels/hadamard.h. */
void hadamard(__local float* group, float* v, uint columns, uint n) {
  const uint j = get_local_id(0);
  for (uint i = 0; i < 8; ++i) {
    const uint at = (j * 8 + i) & (n - 1);
    const uint middle = at >> 3 & at >> 4 & 1, upper = n >= 128 && at >= n / 4 * 3;
    group[j * 8 + i] = middle != upper ? -v[i] : v[i];
  }
  for (uint h = n / 2; h > 0; h /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint pair = j; pair < columns / 2; pair += 32) {
      const uint i = (pair & ~(h - 1)) * 2 + (pair & (h - 1));
      const float u = group[i], w = group[i + h];
      group[i] = u + w;
      group[i + h] = u - w;
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint i = 0; i < 8; ++i)
    if (j * 8 + i < columns) v[i] = group[j * 8 + i];
}

/* A group of 32 work items quantizes a superblock of one row, 8 elements each. codes: [rows]
 * [blocks * 32], sums of 16 codes: [rows][blocks * 2], scales: [rows][superblocks]. */
__kernel __attribute__((reqd_work_group_size(32, 1, 1)))
void quantize_rows(__global const uchar* in, ulong x, __global char* codes, __global short* sums,
                   __global float* scales, uint k, uint transformed) {
  __local float group[SUPER];
  __local uint largest[32];
  __local int part[32];
  const uint j = get_local_id(0), super = get_group_id(0), blocks = (k + 31) / 32;
  const ulong row = get_group_id(1);
  const uint first = super * SUPER + j * 8, columns = min(k - super * SUPER, (uint)SUPER);
  __global const float* source = (__global const float*)(in + x) + row * k;
  float v[8];
  for (uint i = 0; i < 8; ++i) v[i] = first + i < k ? source[first + i] : 0.0f;
  /* The largest power of two that divides the columns. */
  const uint n = columns & (~columns + 1);
  float factor = 1.0f;
  if (transformed != 0 && n >= 32) {
    hadamard(group, v, columns, n);
    for (uint left = n; left >= 4; left /= 4) factor *= 0.5f;
  }
  uint most = 0;
  for (uint i = 0; i < 8; ++i) most = max(most, as_uint(v[i]) & 0x7fffffffu);
  largest[j] = most;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint i = 0; i < 32; ++i) most = max(most, largest[i]);
  const float magnitude = as_float(most);
  const int finite = most < 0x7f800000u, empty = magnitude < 0x1p-96f;
  if (j == 0)
    scales[row * get_num_groups(0) + super] = !finite ? as_float(0x7fc00000)
                                              : empty ? 0.0f
                                                      : magnitude / 127.0f * factor;
  const float inverse = empty ? 0.0f : 127.0f / magnitude;
  int sum = 0;
  uint words[2] = {0, 0};
  for (uint i = 0; i < 8; ++i) {
    const float scaled = v[i] * inverse;
    const int code = finite ? as_int(as_uint(scaled + MAGIC) - 0x4b400000u) : 0;
    sum += code;
    words[i / 4] |= ((uint)code & 0xff) << (i % 4 * 8);
  }
  if (first < blocks * 32)
    *(__global uint2*)(codes + row * blocks * 32 + first) = (uint2)(words[0], words[1]);
  part[j] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (j % 2 == 0 && first < blocks * 32)
    sums[row * blocks * 2 + first / 16] = (short)(part[j] + part[j + 1]);
}

/* The same from rows that the CPU has quantized: llmc/device.h. A work item copies 16 codes. */
__kernel void unpack_rows(__global const uchar* in, ulong x, __global char* codes,
                          __global short* sums, __global float* scales, uint k) {
  const uint part = get_global_id(0), blocks = (k + 31) / 32;
  const uint supers = (k + SUPER - 1) / SUPER;
  const ulong row = get_global_id(1);
  const uint code_bytes = (blocks + 1) / 2 * 64, sum_bytes = (code_bytes / 16 + 63) / 64 * 64;
  const uint row_bytes = code_bytes + sum_bytes + (supers * 4 + 63) / 64 * 64;
  __global const uchar* source = in + x + row * row_bytes;
  const uint4 words = ((__global const uint4*)source)[part];
  ((__global uint4*)(codes + row * blocks * 32))[part] = words;
  const uint ones = 0x01010101;
  sums[row * blocks * 2 + part] = (short)dot_signed(
      ones, words.x,
      dot_signed(ones, words.y, dot_signed(ones, words.z, dot_signed(ones, words.w, 0))));
  if (part < supers)
    scales[row * supers + part] = ((__global const float*)(source + code_bytes + sum_bytes))[part];
}

/* kind 0: f(x) * y; 1: f(x, y) or f(x, row) or f(x, number) or f(x, value); 2: f(x). */
__kernel void elementwise(__global const uchar* weights, __global uchar* scratch, uint kind,
                          uint function, ulong x, ulong y, ulong out, ulong row, ulong number,
                          float value, uint n) {
  const uint i = get_global_id(0);
  const ulong at = (ulong)get_global_id(1) * n + i;
  const float a = ((__global const float*)(scratch + x))[at];
  float b = value;
  if (y != NONE) {
    b = ((__global const float*)(scratch + y))[at];
  } else if (row != NONE) {
    b = ((__global const float*)(weights + row))[i];
  } else if (number != NONE) {
    b = *(__global const float*)(weights + number);
  }
  ((__global float*)(scratch + out))[at] = kind == 0   ? apply(function, a) * b
                                           : kind == 1 ? combine(function, a, b)
                                                       : apply(function, a);
}

/* Operations whose results show whether the device computes as the numerics require. */
__kernel void arithmetic(__global const uint* in, __global uint* out) {
  const float a = as_float(in[0]), b = as_float(in[1]), c = as_float(in[2]);
  const float product = a * b, three = as_float(in[3]);
  out[0] = as_uint(product + c);
  out[1] = as_uint(fma(a, b, c));
  out[2] = as_uint(a / three);
  out[3] = as_uint(sqrt(three));
  out[4] = as_uint(as_float(in[4]) * 0.5f);
  out[5] = as_uint(vload_half(0, (__global const half*)(in + 5)));
  out[6] = (uint)dot_unsigned(in[6], in[7], 7);
  out[7] = (uint)dot_signed(in[6], in[7], 7);
}
)CL";

}  // namespace llmc::hosted
