#include "peak.h"

#include <immintrin.h>

#include <ctime>

namespace llmc::bench {
namespace {
volatile std::int32_t sink;
}  // namespace

double now() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

std::uint64_t read_all(const unsigned char* data, std::size_t bytes, std::size_t streams) {
  const std::size_t part = bytes / streams / 256 * 256;
  __m256i sum[4] = {};
  for (std::size_t i = 0; i < part; i += 256) {
    for (std::size_t stream = 0; stream < streams; ++stream) {
      const unsigned char* at = data + stream * part + i;
      for (int j = 0; j < 256; j += 64) {
        _mm_prefetch(reinterpret_cast<const char*>(at + 2048 + j), _MM_HINT_T0);
      }
      const auto* p = reinterpret_cast<const __m256i*>(at);
      for (int j = 0; j < 8; ++j) {
        sum[j % 4] = _mm256_xor_si256(sum[j % 4], _mm256_load_si256(p + j));
      }
    }
  }
  const __m256i all =
      _mm256_xor_si256(_mm256_xor_si256(sum[0], sum[1]), _mm256_xor_si256(sum[2], sum[3]));
  return static_cast<std::uint64_t>(_mm256_extract_epi64(all, 0) ^ _mm256_extract_epi64(all, 1) ^
                                    _mm256_extract_epi64(all, 2) ^ _mm256_extract_epi64(all, 3));
}

#if defined(__AVX512VNNI__)
double q4_sequence(std::size_t blocks) {
  __m512i weights = _mm512_set1_epi8(3), activation = _mm512_set1_epi8(-5);
  __m512i sum[24] = {};
  for (std::size_t b = 0; b < blocks; ++b) {
    for (int v = 0; v < 8; ++v) {
      // The compiler must not see that the operands never change.
      asm volatile("" : "+v"(weights), "+v"(activation));
      for (__m512i& s : sum) s = _mm512_dpbusd_epi32(s, weights, activation);
    }
  }
  __m512i all = sum[0];
  for (const __m512i& s : sum) all = _mm512_xor_si512(all, s);
  sink = _mm512_reduce_add_epi32(all);
  return 24.0 * 8 * 64 * static_cast<double>(blocks);
}
#else
double q4_sequence(std::size_t blocks) {
  constexpr int kTokens = 6;
  __m256i codes = _mm256_set1_epi8(3), activation = _mm256_set1_epi8(-5);
  __m256i scale = _mm256_set1_epi16(7);
  __m256i total[kTokens] = {};
  for (std::size_t b = 0; b < blocks; ++b) {
    // The compiler must not see that the operands never change.
    asm volatile("" : "+x"(codes), "+x"(activation), "+x"(scale));
    __m256i sum[kTokens];
    for (__m256i& s : sum) {
      s = _mm256_maddubs_epi16(codes, activation);
      asm volatile("" : "+x"(codes));
    }
    for (int v = 1; v < 8; ++v) {
      for (__m256i& s : sum) {
        s = _mm256_add_epi16(s, _mm256_maddubs_epi16(codes, activation));
        asm volatile("" : "+x"(codes));
      }
    }
    for (int t = 0; t < kTokens; ++t) {
      total[t] = _mm256_add_epi32(total[t], _mm256_madd_epi16(sum[t], scale));
    }
  }
  __m256i all = total[0];
  for (int t = 1; t < kTokens; ++t) all = _mm256_xor_si256(all, total[t]);
  sink = _mm256_extract_epi32(all, 0);
  return 256.0 * kTokens * static_cast<double>(blocks);
}
#endif

float fma_sequence(std::size_t steps) {
  __m256 sum[12] = {};
  __m256 a = _mm256_set1_ps(0.5f), b = _mm256_set1_ps(0.25f);
  for (std::size_t i = 0; i < steps; ++i) {
    asm volatile("" : "+x"(a), "+x"(b));
    for (__m256& s : sum) s = _mm256_fmadd_ps(a, b, s);
  }
  __m256 all = sum[0];
  for (int i = 1; i < 12; ++i) all = _mm256_add_ps(all, sum[i]);
  return _mm256_cvtss_f32(all);
}

}  // namespace llmc::bench
