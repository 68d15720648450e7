#pragma once

#include "llmc/sizes.h"

/// Packed weight matrices as types: shape and format at compile time, address at run time. `Rows`
/// counts packed rows (sizes.h); layouts are in quant/.
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
  static constexpr bool kQuantized = Kind == WeightKind::kQ4 || Kind == WeightKind::kQ8;

  const unsigned char* data;

  const unsigned char* panel(size_t i) const { return data + i * kPanelBytes; }
};

template <size_t Rows, size_t K>
using WeightQ4 = Weight<WeightKind::kQ4, Rows, K>;
template <size_t Rows, size_t K>
using WeightQ8 = Weight<WeightKind::kQ8, Rows, K>;
template <size_t Rows, size_t K>
using WeightF16 = Weight<WeightKind::kF16, Rows, K>;
template <size_t Rows, size_t K>
using WeightF32 = Weight<WeightKind::kF32, Rows, K>;

}  // namespace LLMC_ISA
}  // namespace llmc
