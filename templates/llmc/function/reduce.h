#pragma once

#include "llmc/function/scalar.h"

/// Reductions along one axis of x[outer][size][inner], row-major, to y[outer][inner]. Float sums
/// have the same order on every target. For inner = 1 (softmax: for every inner), lane j of eight
/// adds x[j], x[j + 8], …, and the lanes are added in the order of reduce() in docs/numerics.md.
/// Otherwise x[0], x[1], … are added in sequence.
namespace llmc {
inline namespace LLMC_ISA {
namespace function {

inline constexpr int64_t kLanes = 8;

/// Sizes of x[outer][size][inner], which is reduced along its second dim. `k`: see top_k().
struct AxisSizes {
  int64_t outer = 0, size = 0, inner = 0, k = 0;
};
/// Sizes of the rows of a norm, and the number that it adds to a variance or mean square.
struct NormSizes {
  int64_t rows = 0, size = 0;
  float epsilon = 0;
};

struct Sum {
  template <class T>
  static constexpr T first = 0;
  template <class T>
  static LLMC_INLINE T join(T a, T b) {
    return add(a, b);
  }
  template <class T>
  static LLMC_INLINE T finish(T sum, int64_t) {
    return sum;
  }
};
struct Mean : Sum {
  template <class T>
  static LLMC_INLINE T finish(T sum, int64_t n) {
    return div(sum, static_cast<T>(n));
  }
};
struct Product : Sum {
  template <class T>
  static constexpr T first = 1;
  template <class T>
  static LLMC_INLINE T join(T a, T b) {
    return mul(a, b);
  }
};
template <class T>
constexpr T largest_of() {
  if constexpr (kIsFloat<T>)
    return static_cast<T>(__builtin_huge_val());
  else if constexpr (!kIsSigned<T>)
    return static_cast<T>(~static_cast<T>(0));
  else
    return static_cast<T>((uint64_t{1} << (sizeof(T) * 8 - 1)) - 1);
}
template <class T>
constexpr T smallest_of() {
  if constexpr (kIsFloat<T>)
    return -largest_of<T>();
  else if constexpr (!kIsSigned<T>)
    return 0;
  else
    return static_cast<T>(-largest_of<T>() - 1);
}
struct Max : Sum {
  template <class T>
  static constexpr T first = smallest_of<T>();
  template <class T>
  static LLMC_INLINE T join(T a, T b) {
    return max(a, b);
  }
};
struct Min : Sum {
  template <class T>
  static constexpr T first = largest_of<T>();
  template <class T>
  static LLMC_INLINE T join(T a, T b) {
    return min(a, b);
  }
};
// For bools (0 and 1), Max is "any" and Min is "all".

/// Returns the reduction of f(i) for i = 0 .. n-1, in the order above.
template <class Op, class T, class F>
LLMC_INLINE T reduce_row(int64_t n, F&& f) {
  T lane[kLanes];
  for (int64_t j = 0; j < kLanes; ++j) lane[j] = Op::template first<T>;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int64_t j = 0; j < kLanes; ++j) lane[j] = Op::join(lane[j], f(i + j));
  for (int64_t j = 0; i + j < n; ++j) lane[j] = Op::join(lane[j], f(i + j));
  const T a = Op::join(Op::join(lane[0], lane[4]), Op::join(lane[2], lane[6]));
  const T b = Op::join(Op::join(lane[1], lane[5]), Op::join(lane[3], lane[7]));
  return Op::join(a, b);
}

template <class T, class Op>
inline void reduce(const T* __restrict x, T* __restrict y, const AxisSizes& sizes) {
  const int64_t outer = sizes.outer, n = sizes.size, inner = sizes.inner;
  if (inner == 1) {
    for (int64_t o = 0; o < outer; ++o) {
      const T* row = x + o * n;
      y[o] = Op::finish(reduce_row<Op, T>(n, [&](int64_t i) { return row[i]; }), n);
    }
    return;
  }
  for (int64_t o = 0; o < outer; ++o) {
    T* to = y + o * inner;
    for (int64_t j = 0; j < inner; ++j) to[j] = Op::template first<T>;
    for (int64_t i = 0; i < n; ++i) {
      const T* from = x + (o * n + i) * inner;
      for (int64_t j = 0; j < inner; ++j) to[j] = Op::join(to[j], from[j]);
    }
    for (int64_t j = 0; j < inner; ++j) to[j] = Op::finish(to[j], n);
  }
}

/// Computes y = e^(x - max) / sum along the axis. If all x are -infinity, the results are NaN.
template <class T>
inline void softmax(const T* __restrict x, T* __restrict y, const AxisSizes& sizes) {
  const int64_t outer = sizes.outer, n = sizes.size, inner = sizes.inner;
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t j = 0; j < inner; ++j) {
      const T* from = x + o * n * inner + j;
      T* to = y + o * n * inner + j;
      const T most = reduce_row<Max, T>(n, [&](int64_t i) { return from[i * inner]; });
      if (inner == 1) {
        for (int64_t i = 0; i < n; ++i) to[i] = exp(from[i] - most);
      } else {
        for (int64_t i = 0; i < n; ++i) to[i * inner] = exp(from[i * inner] - most);
      }
      const T sum = reduce_row<Sum, T>(n, [&](int64_t i) { return to[i * inner]; });
      for (int64_t i = 0; i < n; ++i) to[i * inner] = to[i * inner] / sum;
    }
  }
}

/// Computes y = (x - mean) / sqrt(mean((x - mean)^2) + epsilon) * scale + bias for one row of n
/// elements. `bias` may be nullptr.
template <class T>
inline void layer_norm_row(const T* __restrict x, T* __restrict y, int64_t n, T epsilon,
                           const T* __restrict scale, const T* __restrict bias) {
  const T count = static_cast<T>(n);
  const T mean = reduce_row<Sum, T>(n, [&](int64_t i) { return x[i]; }) / count;
  const T variance = reduce_row<Sum, T>(n,
                                        [&](int64_t i) {
                                          const T d = x[i] - mean;
                                          return d * d;
                                        }) /
                     count;
  const T r = static_cast<T>(1) / sqrt(variance + epsilon);
  if (bias == nullptr) {
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * r * scale[i];
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * r * scale[i] + bias[i];
  }
}
template <class T>
inline void layer_norm(const T* x, const T* scale, const T* bias, T* y, const NormSizes& sizes) {
  for (int64_t r = 0; r < sizes.rows; ++r)
    layer_norm_row<T>(x + r * sizes.size, y + r * sizes.size, sizes.size,
                      static_cast<T>(sizes.epsilon), scale, bias);
}
template <class T>
inline void layer_norm(const T* x, const T* scale, T* y, const NormSizes& sizes) {
  layer_norm<T>(x, scale, nullptr, y, sizes);
}

/// Computes y = x / sqrt(mean(x^2) + epsilon) * scale for each row.
template <class T>
inline void rms_norm(const T* __restrict x, const T* __restrict scale, T* __restrict y,
                     const NormSizes& sizes) {
  const int64_t n = sizes.size;
  for (int64_t r = 0; r < sizes.rows; ++r) {
    const T* from = x + r * n;
    T* to = y + r * n;
    const T mean =
        reduce_row<Sum, T>(n, [&](int64_t i) { return from[i] * from[i]; }) / static_cast<T>(n);
    const T factor = static_cast<T>(1) / sqrt(mean + static_cast<T>(sizes.epsilon));
    for (int64_t i = 0; i < n; ++i) to[i] = from[i] * factor * scale[i];
  }
}

struct Largest {
  template <class T>
  static LLMC_INLINE bool better(T a, T b) {
    return a > b || (a != a && b == b);
  }
};
struct Smallest {
  template <class T>
  static LLMC_INLINE bool better(T a, T b) {
    return a < b || (a != a && b == b);
  }
};
struct First {
  static constexpr bool kLast = false;
};
struct Last {
  static constexpr bool kLast = true;
};

/// Computes the index of the best element along the axis (`Order`: Largest or Smallest); of equal
/// elements, the first or the last (`Among`). NaN is better than all numbers.
template <class T, class Order, class Among>
inline void arg_best(const T* __restrict x, int64_t* __restrict y, const AxisSizes& sizes) {
  const int64_t outer = sizes.outer, n = sizes.size, inner = sizes.inner;
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t j = 0; j < inner; ++j) {
      const T* from = x + o * n * inner + j;
      int64_t best = 0;
      for (int64_t i = 1; i < n; ++i) {
        const T a = from[i * inner], b = from[best * inner];
        if (Among::kLast ? !Order::better(b, a) : Order::better(a, b)) best = i;
      }
      y[o * inner + j] = best;
    }
  }
}

struct Including {
  static constexpr bool kExclusive = false;
};
struct Excluding {
  static constexpr bool kExclusive = true;
};
struct Forwards {
  static constexpr bool kReverse = false;
};
struct Backwards {
  static constexpr bool kReverse = true;
};
/// Computes y[i] = x[0] + … + x[i], without x[i] if kExclusive, and from the other end if kReverse.
template <class T, class Own, class Direction>
inline void cumulative_sum(const T* __restrict x, T* __restrict y, const AxisSizes& sizes) {
  const int64_t outer = sizes.outer, n = sizes.size, inner = sizes.inner;
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t j = 0; j < inner; ++j) {
      T sum = 0;
      for (int64_t i = 0; i < n; ++i) {
        const int64_t at = (o * n + (Direction::kReverse ? n - 1 - i : i)) * inner + j;
        const T next = add(sum, x[at]);
        y[at] = Own::kExclusive ? sum : next;
        sum = next;
      }
    }
  }
}

/// Computes values and indices of the k <= n best elements along the axis, best first. Equal
/// elements are in the order of their indices.
template <class T, class Order>
inline void top_k(const T* __restrict x, T* __restrict values, int64_t* __restrict indices,
                  const AxisSizes& sizes) {
  const auto [outer, n, inner, k] = sizes;
  if (k == 0) return;
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t j = 0; j < inner; ++j) {
      const T* from = x + o * n * inner + j;
      T* value = values + o * k * inner + j;
      int64_t* index = indices + o * k * inner + j;
      int64_t found = 0;
      for (int64_t i = 0; i < n; ++i) {
        const T v = from[i * inner];
        if (found == k && !Order::better(v, value[(k - 1) * inner])) continue;
        int64_t at = found < k ? found++ : k - 1;
        for (; at > 0 && Order::better(v, value[(at - 1) * inner]); --at) {
          value[at * inner] = value[(at - 1) * inner];
          index[at * inner] = index[(at - 1) * inner];
        }
        value[at * inner] = v;
        index[at * inner] = i;
      }
    }
  }
}

}  // namespace function
}  // namespace LLMC_ISA
}  // namespace llmc
