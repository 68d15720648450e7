#pragma once

/// F32x16: a pair of F32x8, for kernels with many independent lanes. A target with registers of 16
/// floats defines LLMC_F32X16 and the type in its header. On other targets, the type consists of
/// two F32x8. The operations on each lane are the same as with F32x8.
///
///     splat16(x), splat16_at(p), zero_f32x16()    operators + - *, fma(a, b, c)
///     load(p, q), store(p, q, v)     the first eight lanes are at p, the others at q
///     load_f16(p, q)                 the same from f16
///     load_i8_f32(p, q)              the same from signed bytes, as floats
///     join(a, b)                     a: the first eight lanes, b: the others
///     low(v), high(v) -> F32x8       the first eight lanes, the others
///
/// Operations for both widths, which exp_nonpositive() uses (math.h):
///
///     splat_to<V>(x)
///     add_exponent(v, n)             adds the low bits of n to v's exponent field
///     zero_below(x, limit, v)        x < limit ? 0 : v
namespace llmc {
inline namespace LLMC_ISA {

LLMC_INLINE F32x8 add_exponent(F32x8 v, F32x8 n) {
  return from_bits(bits(v) + shift_left<23>(bits(n)));
}
LLMC_INLINE F32x8 zero_below(F32x8 x, float limit, F32x8 v) {
  return select(less(x, splat(limit)), zero_f32(), v);
}

#if defined(LLMC_F32X16)
inline constexpr size_t kRegisterFloats = 16;
#else
inline constexpr size_t kRegisterFloats = 8;
struct F32x16 {
  F32x8 a, b;
};
LLMC_INLINE F32x16 splat16(float x) {
  const F32x8 v = splat(x);
  return {v, v};
}
LLMC_INLINE F32x16 splat16_at(const float* p) {
  const F32x8 v = splat_at(p);
  return {v, v};
}
LLMC_INLINE F32x16 zero_f32x16() {
  return {zero_f32(), zero_f32()};
}
LLMC_INLINE F32x16 load(const float* p, const float* q) {
  return {load(p), load(q)};
}
LLMC_INLINE F32x16 load_f16(const uint8_t* p, const uint8_t* q) {
  return {load_f16(p), load_f16(q)};
}
LLMC_INLINE F32x16 load_i8_f32(const uint8_t* p, const uint8_t* q) {
  return {to_f32(load_i8(p)), to_f32(load_i8(q))};
}
LLMC_INLINE void store(float* p, float* q, F32x16 v) {
  store(p, v.a);
  store(q, v.b);
}
LLMC_INLINE F32x16 join(F32x8 a, F32x8 b) {
  return {a, b};
}
LLMC_INLINE F32x8 low(F32x16 v) {
  return v.a;
}
LLMC_INLINE F32x8 high(F32x16 v) {
  return v.b;
}
LLMC_INLINE F32x16 operator+(F32x16 a, F32x16 b) {
  return {a.a + b.a, a.b + b.b};
}
LLMC_INLINE F32x16 operator-(F32x16 a, F32x16 b) {
  return {a.a - b.a, a.b - b.b};
}
LLMC_INLINE F32x16 operator*(F32x16 a, F32x16 b) {
  return {a.a * b.a, a.b * b.b};
}
LLMC_INLINE F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  return {fma(a.a, b.a, c.a), fma(a.b, b.b, c.b)};
}
LLMC_INLINE F32x16 add_exponent(F32x16 v, F32x16 n) {
  return {add_exponent(v.a, n.a), add_exponent(v.b, n.b)};
}
LLMC_INLINE F32x16 zero_below(F32x16 x, float limit, F32x16 v) {
  return {zero_below(x.a, limit, v.a), zero_below(x.b, limit, v.b)};
}
#endif

template <class V>
V splat_to(float x);
template <>
LLMC_INLINE F32x8 splat_to<F32x8>(float x) {
  return splat(x);
}
template <>
LLMC_INLINE F32x16 splat_to<F32x16>(float x) {
  return splat16(x);
}

/// Memory formats of Lanes: f32 and f16.
struct Floats {
  static constexpr size_t kBytes = sizeof(float);
  static LLMC_INLINE F32x8 load(const unsigned char* p) {
    return llmc::load(reinterpret_cast<const float*>(p));
  }
  static LLMC_INLINE F32x16 load(const unsigned char* p, const unsigned char* q) {
    return llmc::load(reinterpret_cast<const float*>(p), reinterpret_cast<const float*>(q));
  }
};
struct Halves {
  static constexpr size_t kBytes = sizeof(uint16_t);
  static LLMC_INLINE F32x8 load(const unsigned char* p) { return load_f16(p); }
  static LLMC_INLINE F32x16 load(const unsigned char* p, const unsigned char* q) {
    return load_f16(p, q);
  }
};

/// Operations on one or two (kGroups) vectors of eight lanes as one value. `Numbers` defines the
/// memory format: kBytes bytes per number, load(p), which loads eight numbers, and load(p, q),
/// which loads eight from p and eight from q. store_at() stores the vectors `stride` floats apart.
template <size_t kGroups>
struct Lanes;
template <>
struct Lanes<1> {
  using Vector = F32x8;
  static LLMC_INLINE F32x8 zero() { return zero_f32(); }
  static LLMC_INLINE F32x8 splat_at(const float* p) { return llmc::splat_at(p); }
  template <class Numbers>
  static LLMC_INLINE F32x8 load(const unsigned char* const* p, size_t index) {
    return Numbers::load(p[0] + index * Numbers::kBytes);
  }
  static LLMC_INLINE F32x8 load(const float* p) { return llmc::load(p); }
  static LLMC_INLINE void store(float* p, F32x8 v) { llmc::store(p, v); }
  static LLMC_INLINE void store_at(float* p, size_t, F32x8 v) { llmc::store(p, v); }
};
template <>
struct Lanes<2> {
  using Vector = F32x16;
  static LLMC_INLINE F32x16 zero() { return zero_f32x16(); }
  static LLMC_INLINE F32x16 splat_at(const float* p) { return splat16_at(p); }
  template <class Numbers>
  static LLMC_INLINE F32x16 load(const unsigned char* const* p, size_t index) {
    const size_t offset = index * Numbers::kBytes;
    return Numbers::load(p[0] + offset, p[1] + offset);
  }
  static LLMC_INLINE F32x16 load(const float* p) { return llmc::load(p, p + 8); }
  static LLMC_INLINE void store(float* p, F32x16 v) { llmc::store(p, p + 8, v); }
  static LLMC_INLINE void store_at(float* p, size_t stride, F32x16 v) {
    llmc::store(p, p + stride, v);
  }
};

}  // namespace LLMC_ISA
}  // namespace llmc
