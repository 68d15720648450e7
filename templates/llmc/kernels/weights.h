#pragma once

#include "llmc/sizes.h"

/// Packed weight matrices as types. Shape and format are known at compile time, the address at run
/// time. `Rows` is the number of packed rows (sizes.h); quant/ defines the layouts.
namespace llmc {
inline namespace LLMC_ISA {

template <WeightKind Kind, size_t Rows, size_t Columns>
struct Weight {
  static constexpr WeightKind kKind = Kind;
  static constexpr size_t kRows = Rows;
  static constexpr size_t kColumns = Columns;
  static constexpr size_t kPanels = panel_count(Rows);
  static constexpr size_t kPanelBytes = weight_panel_bytes(Kind, Columns);
  static constexpr size_t bytes = kPanels * kPanelBytes;
  static constexpr bool kQuantized = is_quantized(Kind);

  const unsigned char* data;

  const unsigned char* panel(size_t i) const { return data + i * kPanelBytes; }
};

template <size_t Rows, size_t K>
using WeightQ4 = Weight<WeightKind::kQ4, Rows, K>;
template <size_t Rows, size_t K>
using WeightQ8 = Weight<WeightKind::kQ8, Rows, K>;
template <size_t Rows, size_t K>
using WeightQ6 = Weight<WeightKind::kQ6, Rows, K>;
/// Weights from quantized models (quant/coded.h).
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
  static constexpr WeightKind kKind = First::kKind;
  static constexpr size_t kColumns = First::kColumns;
  static constexpr size_t kPanels = First::kPanels + Second::kPanels;
  static constexpr size_t kRows = kPanels * kPanelRows;
  static constexpr bool kQuantized = First::kQuantized;

  First first;
  Second second;
};

}  // namespace LLMC_ISA
}  // namespace llmc
