#pragma once

#include "llmc/kernels/stage.h"
#include "llmc/sizes.h"

/// Embedding: x[t] = table[tokens[t]], converted to f32.
namespace llmc {
inline namespace LLMC_ISA {

/// A table that is only read row by row (quant/table.h).
template <TableKind Kind, size_t Rows, size_t Width>
struct Table {
  static constexpr size_t kRows = Rows;
  static constexpr size_t kWidth = Width;
  static constexpr size_t bytes = table_bytes(Kind, Rows, Width);
  const unsigned char* data;

  LLMC_INLINE float at(size_t row, size_t i) const {
    return table_decode(Kind, data + row * table_row_bytes(Kind, Width), Width, i);
  }
};
template <size_t Rows, size_t Width>
using TableF32 = Table<TableKind::kF32, Rows, Width>;
template <size_t Rows, size_t Width>
using TableF16 = Table<TableKind::kF16, Rows, Width>;
template <size_t Rows, size_t Width>
using TableBF16 = Table<TableKind::kBF16, Rows, Width>;
template <size_t Rows, size_t Width>
using TableQ8 = Table<TableKind::kQ8, Rows, Width>;
template <uint32_t Bits, uint32_t Block, CodedScale Scale, CodedZero Zero, size_t Rows,
          size_t Width>
using TableCoded = Table<coded_table({Bits, Block, Scale, Zero}), Rows, Width>;

/// A packed weight matrix that is read as a table: the output head, if it shares its weights with
/// the embedding.
template <class Weight>
struct WeightTable {
  static constexpr size_t kRows = Weight::kRows;
  static constexpr size_t kWidth = Weight::kColumns;
  Weight weight;

  LLMC_INLINE float at(size_t row, size_t k) const {
    return weight_decode(Weight::kKind, weight.panel(row / kPanelRows), kWidth, row % kPanelRows,
                         k);
  }
};

/// Selects the row of the token's id. If the caller passes rows in place of token ids
/// (llmc_run::embeddings), they are used instead.
struct ByToken {
  static constexpr bool kAcceptsEmbeddings = true;
  LLMC_INLINE static size_t row(const llmc_run* run, size_t t) {
    return static_cast<size_t>(static_cast<int64_t>(run->tokens[t]));
  }
};
/// Selects the row of the token's position, for learned position embeddings.
struct ByPosition {
  static constexpr bool kAcceptsEmbeddings = false;
  LLMC_INLINE static size_t row(const llmc_run* run, size_t t) { return position_of(run, t); }
};

template <class Ids, class T>
LLMC_INLINE void embedding_rows(const KernelContext& context, T table, float* x) {
  const llmc_run* run = context.run;
  if constexpr (Ids::kAcceptsEmbeddings) {
    if (run->embeddings != nullptr) {
      __builtin_memcpy(x, run->embeddings, context.tokens * T::kWidth * sizeof(float));
      return;
    }
  }
  for_each_token(context, [=](size_t t) {
    const size_t id = Ids::row(run, t);
    const size_t row = id < T::kRows ? id : 0;
    for (size_t i = 0; i < T::kWidth; ++i) x[t * T::kWidth + i] = table.at(row, i);
  });
}

/// Copies the rows that the caller passes in place of token ids (llmc_run::embeddings) to
/// x f32[tokens][Width].
template <size_t Width>
inline void input_rows(const KernelContext& context, float* x) {
  __builtin_memcpy(x, context.run->embeddings, context.tokens * Width * sizeof(float));
}

/// Writes the selected rows to x f32[tokens][Width]. The core checks ids; an id outside the table
/// reads row 0.
template <class Ids = ByToken, TableKind Kind, size_t Rows, size_t Width>
inline void embedding(const KernelContext& context, const Table<Kind, Rows, Width>& table,
                      float* x) {
  embedding_rows<Ids>(context, table, x);
}
template <class Ids = ByToken, WeightKind Kind, size_t Rows, size_t K>
inline void embedding(const KernelContext& context, const Weight<Kind, Rows, K>& weight, float* x) {
  embedding_rows<Ids>(context, WeightTable<Weight<Kind, Rows, K>>{weight}, x);
}

/// Computes x[i] = table[ids[i]] for the rows of the call. Negative ids count from the end. For an
/// id outside the table, reads row 0 and returns false.
template <class T, class Id>
inline bool lookup(const KernelContext& context, T table, const Id* ids, float* x) {
  constexpr auto kRows = static_cast<int64_t>(T::kRows);
  bool inside = true;
  for (size_t i = 0; i < context.tokens; ++i) {
    const auto id = static_cast<int64_t>(ids[i]);
    inside &= id >= -kRows && id < kRows;
  }
  for_each_token(context, [=](size_t t) {
    const auto id = static_cast<int64_t>(ids[t]);
    const int64_t row = id >= 0 ? id : id + kRows;
    const size_t at = row >= 0 && row < kRows ? static_cast<size_t>(row) : 0;
    for (size_t i = 0; i < T::kWidth; ++i) x[t * T::kWidth + i] = table.at(at, i);
  });
  return inside;
}

}  // namespace LLMC_ISA
}  // namespace llmc
