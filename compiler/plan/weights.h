#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/op.h"
#include "compiler/quant/encoded_matrix.h"
#include "compiler/support/result.h"
#include "llmc/sizes.h"

/// Content and layout of the weights file.
namespace llmc::plan {

enum class WeightUse : std::uint8_t {
  kMatrix,            // panels of 8 rows in `matrix` format
  kTable,             // rows looked up individually, in `table` format
  kVector,            // f32; padding rows are zero, as in the matrix
  kData,              // elements as in the model, row-major; read by loop nests
  kColumnPanels,      // f32 or 16-bit matrix [K, N] as [ceil(N / 16)][K][16], padded with zeros
  kTransposedPanels,  // the same for a matrix that the model stores as [N, K]
};

/// Order of the packed rows, relative to the model's matrix.
enum class RowOrder : std::uint8_t {
  kPlain,  // in order; matrices and biases are padded with zero rows to a multiple of 8
  kGated,  // 8 rows of gate, 8 rows of up, …
  kQkv,    // the rows of each head are padded to a multiple of 8
};

/// The conversion of a weight from the model to the weights file.
enum class WeightConversion : std::uint8_t {
  kFloat,        // floats in the model
  kPreserved,    // quantized in the model, re-encoded without loss
  kRequantized,  // quantized in the model, dequantized and quantized again
  kDequantized,  // quantized in the model, stored as floats
};

struct PackedWeight {
  WeightUse use = WeightUse::kVector;
  WeightKind matrix = WeightKind::kF32;
  Basis basis = Basis::kPlain;  // kMatrix: basis of the rows of `data` and of the inputs
  TableKind table = TableKind::kF32;
  RowOrder order = RowOrder::kPlain;
  bool pad_rows = false;  // vectors: a bias, padded to the packed rows of its matrix
  std::uint64_t heads = 0, kv_heads = 0, head_dim = 0;  // kQkv

  ir::ConstantPtr data{};   // [rows, columns]; kTransposedPanels: [columns, rows]; kData: any dims
  std::string label{};      // role in the emitted source: "down", "embedding"
  std::int64_t layer = -1;  // iteration of the loop that uses the weight; -1: no loop
  std::string name{};       // in the model; untrusted text, may be empty
  std::string comment{};    // kData: type and name; untrusted text
  std::uint64_t active_rows = 0;        // of experts: rows that one token reads; 0: all rows
  std::uint64_t rows = 0, columns = 0;  // as in the model; 1-D vectors and kData have one column
  std::uint64_t packed_rows = 0;
  std::uint64_t offset = 0;  // offset in the weights file in bytes, a multiple of 64
  std::uint64_t bytes = 0;   // size, without the padding before the next offset

  /// The encoded rows of `data` if they were chosen by calibration; nullptr: packing chooses.
  std::shared_ptr<const quant::EncodedMatrix> encoded{};
  WeightConversion conversion = WeightConversion::kFloat;
  std::string source_quantization{};  // kFloat: empty; else "4-bit, blocks of 32"
  std::string requantize_reason{};    // kRequantized: why the codes were not preserved
  int code_low = 0;                   // kPreserved: the smallest code in the model
  double loss_share = -1;  // fraction of BudgetReport::estimated_kl, 0 to 1; negative: unknown

  /// Return the number of elements and of bytes of a matrix or vector that one token reads.
  std::uint64_t active_elements() const {
    return (active_rows == 0 ? rows : active_rows) * columns;
  }
  std::uint64_t active_bytes() const {
    return active_rows == 0 ? bytes : bytes / rows * active_rows;
  }
  /// Returns the stored bits per element of the model's weight.
  double bits_per_weight() const;
  /// Returns, for example, "q4", "table q8", "f32" or "int4/32 f16".
  std::string format_name() const;
  /// Returns "quantized from float", "quantized from float, Hadamard basis", "re-encoded without
  /// loss (4-bit, blocks of 32)", "requantized (…)" or "dequantized (…)"; empty if the model's
  /// floats are stored as floats.
  std::string conversion_text() const;
};

/// Returns the number of rows after padding, as determined by order, use and pad_rows.
std::uint64_t packed_row_count(const PackedWeight& weight);
/// Returns the source row of each packed row, or -1 for padding, as ir::reorder_rows expects.
std::vector<std::int64_t> packed_row_order(const PackedWeight& weight);

std::string to_string(WeightKind kind);
std::string to_string(TableKind kind);

/// Sets packed_rows, bytes and offset of all weights, in order. Returns the size of all weights in
/// bytes, a multiple of 64. Fails with kBadInput if it does not fit 63 bits, or if rows or columns
/// of a matrix, table or vector are 0 or at least 2^31.
Result<std::uint64_t> lay_out(std::vector<PackedWeight>& weights);

}  // namespace llmc::plan
