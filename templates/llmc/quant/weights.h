#pragma once

#include "llmc/quant/coded.h"
#include "llmc/quant/f16.h"
#include "llmc/quant/f32.h"
#include "llmc/quant/hadamard.h"
#include "llmc/quant/q4.h"
#include "llmc/quant/q8.h"
#include "llmc/quant/split.h"

/// Formats of weight matrices, and types for packed matrices. Shape and format are template
/// arguments; the address is set at run time. `Rows` is the number of packed rows (sizes.h). The
/// other headers of quant/ define the layouts.
namespace llmc {
inline namespace LLMC_ISA {

/// The format of a weight matrix. Values from kFirstCoded on are coded formats:
/// coded_weight(format).
enum class WeightKind : uint16_t { kF32, kF16, kQ8, kQ4 };

constexpr WeightKind coded_weight(CodedFormat f) {
  return static_cast<WeightKind>(coded_number(f));
}
constexpr bool is_coded(WeightKind kind) {
  return static_cast<uint16_t>(kind) >= kFirstCoded;
}
/// Returns the format of a coded kind. For other kinds, returns the format equivalent to kQ8.
constexpr CodedFormat coded_format(WeightKind kind) {
  return is_coded(kind) ? coded_format(static_cast<uint16_t>(kind)) : CodedFormat{};
}
/// Returns the kind that stores the same weights without splitting their codes; `kind` itself if it
/// is not split.
constexpr WeightKind unsplit(WeightKind kind) {
  CodedFormat format = coded_format(kind);
  if (!format.split) return kind;
  format.split = false;
  return coded_weight(format);
}
/// Returns whether products with these weights use int8 activations.
constexpr bool is_quantized(WeightKind kind) {
  return kind != WeightKind::kF32 && kind != WeightKind::kF16;
}

constexpr size_t weight_panel_bytes(WeightKind kind, size_t k) {
  switch (kind) {
    case WeightKind::kF32:
      return f32_panel_bytes(k);
    case WeightKind::kF16:
      return f16_panel_bytes(k);
    case WeightKind::kQ8:
      return q8_panel_bytes(k);
    case WeightKind::kQ4:
      return q4_panel_bytes(k);
  }
  return coded_panel_bytes(coded_format(kind), k);
}
/// Returns the size of a packed matrix of `rows` packed rows (packed_*_rows() in sizes.h) and `k`
/// columns: a multiple of 64 bytes, for q4 of 16.
constexpr size_t weight_bytes(WeightKind kind, size_t rows, size_t k) {
  return panel_count(rows) * weight_panel_bytes(kind, k);
}
/// Returns the weight in row `row` (0..7) and column `k` of a panel with `k_total` columns.
constexpr float weight_decode(WeightKind kind, const uint8_t* panel, size_t k_total, size_t row,
                              size_t k) {
  switch (kind) {
    case WeightKind::kF32:
      return f32_decode(panel, row, k);
    case WeightKind::kF16:
      return f16_decode(panel, row, k);
    case WeightKind::kQ8:
      return q8_decode(panel, k_total, row, k);
    case WeightKind::kQ4:
      return q4_decode(panel, k_total, row, k);
  }
  return coded_decode(coded_format(kind), panel, k_total, row, k);
}

template <WeightKind Kind, size_t Rows, size_t Columns, Basis basis = Basis::kPlain>
struct Weight {
  static constexpr WeightKind kKind = Kind;
  static constexpr Basis kBasis = basis;
  static constexpr size_t kRows = Rows;
  static constexpr size_t kColumns = Columns;
  static constexpr size_t kPanels = panel_count(Rows);
  static constexpr size_t kPanelBytes = weight_panel_bytes(Kind, Columns);
  static constexpr size_t bytes = kPanels * kPanelBytes;
  static constexpr bool kQuantized = is_quantized(Kind);
  static_assert(kQuantized || kBasis == Basis::kPlain, "float products read rows as they are");

  const unsigned char* data;

  const unsigned char* panel(size_t i) const { return data + i * kPanelBytes; }
};

template <size_t Rows, size_t K, Basis basis = Basis::kPlain>
using WeightQ4 = Weight<WeightKind::kQ4, Rows, K, basis>;
template <size_t Rows, size_t K, Basis basis = Basis::kPlain>
using WeightQ8 = Weight<WeightKind::kQ8, Rows, K, basis>;
template <size_t Rows, size_t K, Basis basis = Basis::kPlain>
using WeightQ6 = Weight<coded_weight(kSixBits), Rows, K, basis>;
template <size_t Rows, size_t K, Basis basis = Basis::kPlain>
using WeightSplitQ6 = Weight<coded_weight(kSplitSixBits), Rows, K, basis>;
/// Weights with the codes of a quantized model (quant/coded.h).
template <uint32_t Bits, uint32_t Block, CodedScale Scale, CodedZero Zero, size_t Rows, size_t K>
using WeightCoded = Weight<coded_weight({Bits, Block, Scale, Zero}), Rows, K>;
template <size_t Rows, size_t K>
using WeightF16 = Weight<WeightKind::kF16, Rows, K>;
template <size_t Rows, size_t K>
using WeightF32 = Weight<WeightKind::kF32, Rows, K>;

/// Two matrices with different formats that are used as one: the rows of `First`, then those of
/// `Second`, for example query and key rows in q4 and value rows in q8. Both use the same prepared
/// input.
template <class First, class Second>
struct Joined {
  static_assert(First::kColumns == Second::kColumns, "joined matrices disagree about K");
  static_assert(First::kQuantized == Second::kQuantized, "one of them reads quantized rows");
  static_assert(First::kBasis == Second::kBasis, "joined matrices disagree about the basis");
  static constexpr WeightKind kKind = First::kKind;
  static constexpr size_t kColumns = First::kColumns;
  static constexpr size_t kPanels = First::kPanels + Second::kPanels;
  static constexpr size_t kRows = kPanels * kPanelRows;
  static constexpr bool kQuantized = First::kQuantized;
  static constexpr Basis kBasis = First::kBasis;

  First first;
  Second second;
};

}  // namespace LLMC_ISA
}  // namespace llmc
