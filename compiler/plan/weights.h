#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/op.h"
#include "compiler/support/result.h"
#include "llmc/sizes.h"

/// What the weights file holds and where.
namespace llmc::plan {

enum class WeightUse : std::uint8_t {
  kMatrix,            // panels of 8 rows in `matrix` format
  kTable,             // rows looked up one by one, in `table` format
  kVector,            // f32, padded rows of zeros where the matrix has them
  kData,              // elements as the model has them, row-major; read by loop nests
  kColumnPanels,      // f32 or 16-bit matrix [K, N] as [N / 16][K][16], zeros past N
  kTransposedPanels,  // the same of a matrix that the model has as [N, K]
};

/// Which row of the model's matrix each packed row is.
enum class RowOrder : std::uint8_t {
  kPlain,  // in order, zero rows up to a multiple of 8
  kGated,  // 8 of gate, 8 of up, …
  kQkv,    // each head's rows padded to a multiple of 8
};

/// What happens to a weight between the model and the weights file.
enum class WeightConversion : std::uint8_t {
  kFloat,        // arrives as floats
  kPreserved,    // arrives quantized and is re-encoded without loss
  kRequantized,  // arrives quantized, is dequantized and quantized again
  kDequantized,  // arrives quantized, is stored as floats
};

struct PackedWeight {
  WeightUse use = WeightUse::kVector;
  WeightKind matrix = WeightKind::kF32;
  TableKind table = TableKind::kF32;
  RowOrder order = RowOrder::kPlain;
  bool pad_rows = false;  // vectors: a bias, filled up to the packed rows of its matrix
  std::uint64_t heads = 0, kv_heads = 0, head_dim = 0;  // kQkv

  ir::ConstantPtr data{};   // [rows, columns], or [columns] for vectors without a row order
  std::string label{};      // role in the emitted source: "down", "embedding"
  std::int64_t layer = -1;  // iteration of the loop it belongs to; -1: none
  std::string name{};       // in the model; untrusted text, may be empty
  std::string comment{};    // of data: its type and name; untrusted text
  std::uint64_t rows = 0, columns = 0;  // as the model has them; vectors are one column
  std::uint64_t packed_rows = 0;
  std::uint64_t offset = 0;  // in the weights file, a multiple of 64
  std::uint64_t bytes = 0;   // without the padding to the next offset

  WeightConversion conversion = WeightConversion::kFloat;
  std::string source_quantization{};  // kFloat: empty; else "4-bit, blocks of 32"
  std::string requantize_reason{};    // kRequantized: why its codes could not be kept
  int code_low = 0;                   // kPreserved: the smallest code of the model's

  /// Stored bits per weight of the model.
  double bits_per_weight() const;
  /// "q4", "table q8", "f32", "int4/32 f16"
  std::string format_name() const;
  /// "quantized from f32", "re-encoded without loss (4-bit, blocks of 32)", "requantized …"; empty
  /// for floats that stay floats and for vectors.
  std::string conversion_text() const;
};

/// Rows after padding, as weight.order and use ask for.
std::uint64_t packed_row_count(const PackedWeight& weight);
/// Source row of each packed row, -1 for padding: what ir::reorder_rows takes.
std::vector<std::int64_t> packed_row_order(const PackedWeight& weight);

std::string to_string(WeightKind kind);
std::string to_string(TableKind kind);

/// Fills packed_rows, bytes and offset of all, in order. Returns the size of the file, a multiple
/// of 64; kBadInput when it does not fit 63 bits.
Result<std::uint64_t> lay_out(std::vector<PackedWeight>& weights);

}  // namespace llmc::plan
