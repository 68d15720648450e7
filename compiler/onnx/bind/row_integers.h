#pragma once

#include "compiler/onnx/bind/part.h"
#include "compiler/onnx/bind/row_evaluation.h"

namespace llmc::importer {

/// Computes the sizes and the distance bias of a decoder that correspond to those of a graph of one
/// token per call.
class DecoderSizes {
 public:
  /// `ids` is i64[seq]. `past` is f32[1, heads, past, D]. `source` is f32[1, heads, source, D], or
  /// kNoValue if there is no source.
  DecoderSizes(ir::Builder& builder, ir::ValueId ids, ir::ValueId past, ir::ValueId source)
      : b_(builder), ids_(ids), past_(past), source_(source) {}

  /// Returns integers of the graph, i64[n] or i64[], for values that have a row for each token.
  /// A position becomes the column i64[seq, 1, …] of rank 2 or more. Fails with kUnsupported if
  /// other integers depend on the number of past tokens.
  Result<ir::ValueId> of_rows(const Part& part, const RowIntegers& integers,
                              const ir::Origin& origin);
  /// Returns integers of the graph, for keys, values or scores: one row with past + seq tokens.
  Result<ir::ValueId> of_keys(const Part& part, const RowIntegers& integers,
                              const ir::Origin& origin);
  /// Returns the bias as a term f32[1, heads, seq, past + seq] of the scores.
  Result<ir::ValueId> bias(const DistanceBias& bias, const ir::Origin& origin);

 private:
  Result<ir::ValueId> size(ir::ValueId value, std::int64_t axis, const ir::Origin& origin);
  Result<ir::ValueId> number(std::int64_t value, const ir::Origin& origin);
  Result<ir::ValueId> positions(const ir::Origin& origin);
  Result<ir::ValueId> counts(const Part& part, const RowIntegers& integers, bool of_keys,
                             const ir::Origin& origin);
  Result<ir::ValueId> binary(ir::BinaryKind kind, ir::ValueId a, ir::ValueId b,
                             const ir::Origin& origin) {
    return b_.add_one(ir::Binary{kind}, {a, b}, origin);
  }

  ir::Builder& b_;
  const ir::ValueId ids_, past_, source_;
};

}  // namespace llmc::importer
