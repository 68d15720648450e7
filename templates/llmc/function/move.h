#pragma once

#include "llmc/function/scalar.h"

/// Data movement controlled by indices. A negative index counts from the end. If an index is out of
/// range, the kernel returns false and neither reads nor writes outside its tensors.
namespace llmc {
inline namespace LLMC_ISA {
namespace function {

/// Returns the position in [0, size) that `index` refers to, where a negative index counts from the
/// end, or -1 if `index` is outside [-size, size).
template <class I>
LLMC_INLINE int64_t position(I index, int64_t size) {
  const int64_t i = static_cast<int64_t>(index);
  const int64_t front = i < 0 ? i + size : i;
  return front < 0 || front >= size ? -1 : front;
}

template <class From, class To>
LLMC_INLINE void copy_elements(const From* __restrict from, To* __restrict to, int64_t n) {
  if constexpr (__is_same(From, To)) {
    if (n > 0) __builtin_memcpy(to, from, static_cast<size_t>(n) * sizeof(To));
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = narrow<To>(static_cast<Wide<To>>(widen(from[i])));
  }
}

/// Copies a transposed block of 8 x 8 numbers of 32 bits: to[r * to_stride + c] =
/// from[c * stride + r]. Pairs of rows exchange elements at distances of 1, 2 and 4.
LLMC_INLINE void transpose_block(const void* from, int64_t stride, void* to, int64_t to_stride) {
  typedef uint32_t Row __attribute__((vector_size(32)));
  const auto* source = static_cast<const unsigned char*>(from);
  auto* target = static_cast<unsigned char*>(to);
  Row x[8], y[8];
  for (int i = 0; i < 8; ++i) __builtin_memcpy(&x[i], source + i * stride * 4, sizeof(Row));
  for (int i = 0; i < 8; i += 2) {
    y[i] = __builtin_shufflevector(x[i], x[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
    y[i + 1] = __builtin_shufflevector(x[i], x[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
  }
  for (int i = 0; i < 8; i += 1 + i % 2 * 2) {
    x[i] = __builtin_shufflevector(y[i], y[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
    x[i + 2] = __builtin_shufflevector(y[i], y[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
  }
  for (int i = 0; i < 4; ++i) {
    y[i] = __builtin_shufflevector(x[i], x[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    y[i + 4] = __builtin_shufflevector(x[i], x[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
  for (int i = 0; i < 8; ++i) __builtin_memcpy(target + i * to_stride * 4, &y[i], sizeof(Row));
}

/// Copies a transposed tile: to[r * kTile + c] = from[c * stride + r].
template <int kTile, class T>
inline void transpose_tile(const T* __restrict from, int64_t stride, int64_t rows, int64_t columns,
                           T* __restrict to) {
  if constexpr (sizeof(T) == 4) {
    if (rows == kTile && columns == kTile) {
      for (int64_t c = 0; c < kTile; c += 8)
        for (int64_t r = 0; r < kTile; r += 8)
          transpose_block(from + c * stride + r, stride, to + r * kTile + c, kTile);
      return;
    }
  }
  for (int64_t c = 0; c < columns; ++c) {
#pragma clang loop vectorize(disable)
    for (int64_t r = 0; r < rows; ++r) to[r * kTile + c] = from[c * stride + r];
  }
}

/// Sizes of gather(): x is [rows][size], elements are runs of `inner` numbers, and `count` is the
/// number of indices.
struct GatherSizes {
  int64_t size = 0, inner = 0, count = 0;
};
/// Computes y[r][c] = x[r][indices[c]] for rows r in [begin, end). If an index is out of range,
/// the values of y are undefined.
template <class From, class To, class I>
inline bool gather(const From* __restrict x, const I* __restrict indices, To* __restrict y,
                   int64_t begin, int64_t end, const GatherSizes& sizes) {
  const auto [size, inner, count] = sizes;
  if (size == 0) return (end - begin) * count == 0;
  bool valid = true;
  for (int64_t r = begin; r < end; ++r) {
    const From* const row = x + r * size * inner;
    To* const out = y + r * count * inner;
    const auto copy = [&](int64_t c, int64_t n) {
      const int64_t at = position(indices[c], size);
      valid &= at >= 0;
      copy_elements(row + (at < 0 ? 0 : at) * n, out + c * n, n);
    };
    if (inner == 1) {
      for (int64_t c = 0; c < count; ++c) copy(c, 1);
    } else {
      for (int64_t c = 0; c < count; ++c) copy(c, inner);
    }
  }
  return valid;
}

/// Sizes of gather_elements() and scatter_elements(): the number of elements of all of x
/// (scatter_elements()), and the size of x along `axis`.
struct ElementsSizes {
  int64_t total = 0, size = 0, axis = 0;
};
/// Computes y[i] = x[i with coordinate `axis` replaced by indices[i]] for the rows [begin, end) of
/// y. `of_dims` are the dims of y, the last of which is a row; `of_strides` and `of_index_strides`
/// are the strides of x and of the indices along them, in elements. If an index is out of range,
/// the values of y are undefined.
template <class T, class I, class Dims, class Strides, class IndexStrides>
inline bool gather_elements(const T* __restrict x, const I* __restrict indices, T* __restrict y,
                            int64_t begin, int64_t end, const ElementsSizes& sizes,
                            const Dims& of_dims, const Strides& of_strides,
                            const IndexStrides& of_index_strides) {
  const auto [total, size, axis] = sizes;
  const int64_t* dims = of_dims.values;
  const int64_t* strides = of_strides.values;
  const int64_t* index_strides = of_index_strides.values;
  const int64_t last = Dims::count - 1, columns = dims[last];
  const int64_t step = last == axis ? 0 : strides[last], across = strides[axis];
  const int64_t index_step = index_strides[last];
  const bool adjacent = step == 0 && across == 1 && index_step == 1;
  if (begin >= end) return true;
  if (size == 0) return columns == 0;
  int64_t coordinates[16] = {};
  int64_t first = 0, first_index = 0;
  const auto move = [&](int64_t d, int64_t steps) {
    coordinates[d] += steps;
    if (d != axis) first += steps * strides[d];
    first_index += steps * index_strides[d];
  };
  for (int64_t d = last, rest = begin; d-- > 0; rest /= dims[d]) move(d, rest % dims[d]);
  bool valid = true;
  for (int64_t row = begin; row < end; ++row) {
    const T* const from = x + first;
    const I* const index = indices + first_index;
    T* const out = y + row * columns;
    const auto copy = [&](int64_t c, int64_t next_index, int64_t next, int64_t next_across) {
      const int64_t at = static_cast<int64_t>(index[c * next_index]);
      const uint64_t front = static_cast<uint64_t>(at < 0 ? at + size : at);
      const bool inside = front < static_cast<uint64_t>(size);
      valid &= inside;
      out[c] = from[c * next + (inside ? static_cast<int64_t>(front) : 0) * next_across];
    };
    if (adjacent) {
      for (int64_t c = 0; c < columns; ++c) copy(c, 1, 0, 1);
    } else {
      for (int64_t c = 0; c < columns; ++c) copy(c, index_step, step, across);
    }
    for (int64_t d = last; d-- > 0; move(d, -dims[d])) {
      move(d, 1);
      if (coordinates[d] < dims[d]) break;
    }
  }
  return valid;
}

/// Scatter operation that replaces an element by its update. The other operations (Sum, Max, …) are
/// in reduce.h.
struct Replace {
  template <class T>
  static LLMC_INLINE T join(T, T update) {
    return update;
  }
};

/// Copies x to y, then sets y[i with coordinate `axis` replaced by indices[i]] = join(old,
/// updates[i]).
template <class T, class I, class Op, class Dims = Sizes<>, class Strides = Sizes<>>
inline bool scatter_elements(const T* __restrict x, const I* __restrict indices,
                             const T* __restrict updates, T* __restrict y,
                             const ElementsSizes& sizes, const Dims& of_dims = {},
                             const Strides& of_strides = {}) {
  const int64_t rank = Dims::count, size = sizes.size, axis = sizes.axis;
  const int64_t* dims = of_dims.values;
  const int64_t* strides = of_strides.values;
  copy_elements(x, y, sizes.total);
  int64_t coordinate[16] = {};
  int64_t count = 1;
  for (int64_t d = 0; d < rank; ++d) count *= dims[d];
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = position(indices[i], size);
    if (at < 0) return false;
    int64_t to = at * strides[axis];
    for (int64_t d = 0; d < rank; ++d)
      if (d != axis) to += coordinate[d] * strides[d];
    y[to] = Op::join(y[to], updates[i]);
    for (int64_t d = rank; d-- > 0;) {
      if (++coordinate[d] < dims[d]) break;
      coordinate[d] = 0;
    }
  }
  return true;
}

/// Returns the offset in elements of a tuple of `depth` indices, or -1 if an index is out of range.
template <class I>
LLMC_INLINE int64_t tuple_position(const I* tuple, int64_t depth, const int64_t* dims,
                                   const int64_t* strides) {
  int64_t at = 0;
  for (int64_t d = 0; d < depth; ++d) {
    const int64_t i = position(tuple[d], dims[d]);
    if (i < 0) return -1;
    at += i * strides[d];
  }
  return at;
}

/// Sizes of gather_tuples() and scatter_tuples(): indices are `batches` batches of `tuples` tuples,
/// and results and updates are rows of `inner` elements. Batches of x are `batch_stride` elements
/// apart. scatter_tuples() has one batch, and x has `total` elements.
struct TupleSizes {
  int64_t total = 0, batches = 0, batch_stride = 0, tuples = 0, inner = 0;
};
/// Computes y[b][t] = x[b][indices[b][t]]. A tuple has one index for each of the dims `of_dims`
/// of x, along which x has the strides `of_strides`.
template <class T, class I, class Dims = Sizes<>, class Strides = Sizes<>>
inline bool gather_tuples(const T* __restrict x, const I* __restrict indices, T* __restrict y,
                          const TupleSizes& sizes, const Dims& of_dims = {},
                          const Strides& of_strides = {}) {
  const auto [total, batches, batch_stride, tuples, inner] = sizes;
  const int64_t depth = Dims::count;
  const int64_t* dims = of_dims.values;
  const int64_t* strides = of_strides.values;
  for (int64_t b = 0; b < batches; ++b) {
    for (int64_t t = 0; t < tuples; ++t) {
      const int64_t at = tuple_position(indices + (b * tuples + t) * depth, depth, dims, strides);
      if (at < 0) return false;
      copy_elements(x + b * batch_stride + at, y + (b * tuples + t) * inner, inner);
    }
  }
  return true;
}

/// Copies x to y, then sets y[tuple] = join(old, row of updates) for each tuple of indices, element
/// by element.
template <class T, class I, class Op, class Dims = Sizes<>, class Strides = Sizes<>>
inline bool scatter_tuples(const T* __restrict x, const I* __restrict indices,
                           const T* __restrict updates, T* __restrict y, const TupleSizes& sizes,
                           const Dims& of_dims = {}, const Strides& of_strides = {}) {
  const int64_t depth = Dims::count, inner = sizes.inner;
  const int64_t* dims = of_dims.values;
  const int64_t* strides = of_strides.values;
  copy_elements(x, y, sizes.total);
  for (int64_t t = 0; t < sizes.tuples; ++t) {
    const int64_t at = tuple_position(indices + t * depth, depth, dims, strides);
    if (at < 0) return false;
    for (int64_t i = 0; i < inner; ++i) y[at + i] = Op::join(y[at + i], updates[t * inner + i]);
  }
  return true;
}

}  // namespace function
}  // namespace LLMC_ISA
}  // namespace llmc
