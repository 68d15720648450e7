#include "compiler/onnx/bind/row_integers.h"

#include <algorithm>
#include <numeric>

#include "compiler/ir/op_info.h"
#include "compiler/support/checked_math.h"

namespace llmc::importer {

using ir::BinaryKind;
using ir::Origin;
using ir::ValueId;

Result<ValueId> DecoderSizes::size(ValueId value, std::int64_t axis, const Origin& origin) {
  return b_.add_one(ir::Shape{axis, axis + 1}, {value}, origin);
}

Result<ValueId> DecoderSizes::number(std::int64_t value, const Origin& origin) {
  return b_.constant(ir::make_i64({1}, {value}), {}, origin);
}

/// Returns the positions of the tokens, i64[seq].
Result<ValueId> DecoderSizes::positions(const Origin& origin) {
  LLMC_TRY(const ValueId past, size(past_, 2, origin));
  LLMC_TRY(const ValueId count, size(ids_, 0, origin));
  LLMC_TRY(const ValueId total, binary(BinaryKind::kAdd, past, count, origin));
  LLMC_TRY(const ValueId first, b_.add_one(ir::Squeeze{{0}}, {past}, origin));
  LLMC_TRY(const ValueId end, b_.add_one(ir::Squeeze{{0}}, {total}, origin));
  const ValueId one = b_.constant(ir::make_i64({}, {1}), {}, origin);
  return b_.add_one(ir::Range{}, {first, end, one}, origin);
}

Result<ValueId> DecoderSizes::counts(const Part& part, const RowIntegers& integers, bool of_keys,
                                     const Origin& origin) {
  std::vector<ValueId> parts;
  for (const RowIntegers::Element& e : integers.elements) {
    std::int64_t start = e.start;
    std::vector<std::pair<ValueId, std::int64_t>> terms;
    if (of_keys) {  // past + 1 tokens become past + seq
      const auto added = checked_sub(e.rows, e.past);
      const auto sum = added ? checked_add(start, *added) : std::nullopt;
      if (!sum) return part.bad("a size does not fit 64 bits", {}, origin.node);
      start = *sum;
    }
    if ((!of_keys && e.past != 0) || (e.past != 0 && !past_.exists()) ||
        (e.source != 0 && !source_.exists()))
      return part.unsupported("the number of past tokens is used for other things than positions",
                              "export the model for several tokens per call", origin.node);
    if (e.rows != 0 && !of_keys) terms.emplace_back(ids_, e.rows);
    if (e.past != 0) {
      terms.emplace_back(past_, e.past);
      terms.emplace_back(ids_, e.past);
    }
    if (e.source != 0) terms.emplace_back(source_, e.source);
    ValueId sum;
    if (start != 0 || terms.empty()) {
      LLMC_TRY(sum, number(start, origin));
    }
    for (const auto& [value, factor] : terms) {
      LLMC_TRY(ValueId term, size(value, value == ids_ ? 0 : 2, origin));
      if (factor != 1) {
        LLMC_TRY(const ValueId scale, number(factor, origin));
        LLMC_TRY(term, binary(BinaryKind::kMul, term, scale, origin));
      }
      if (sum.exists()) {
        LLMC_TRY(term, binary(BinaryKind::kAdd, sum, term, origin));
      }
      sum = term;
    }
    parts.push_back(sum);
  }
  if (parts.size() > 1) return b_.add_one(ir::Concat{0}, parts, origin);
  return integers.rank == 0 ? b_.add_one(ir::Squeeze{{0}}, {parts[0]}, origin) : parts[0];
}

Result<ValueId> DecoderSizes::of_rows(const Part& part, const RowIntegers& integers,
                                      const Origin& origin) {
  if (!integers.is_position()) return counts(part, integers, false, origin);
  LLMC_TRY(ValueId column, positions(origin));
  if (integers.elements[0].start != 0) {
    LLMC_TRY(const ValueId offset, number(integers.elements[0].start, origin));
    LLMC_TRY(column, binary(BinaryKind::kAdd, column, offset, origin));
  }
  std::vector<std::int64_t> axes(std::max<std::size_t>(integers.rank, 2) - 1);
  std::iota(axes.begin(), axes.end(), 1);
  return b_.add_one(ir::Unsqueeze{axes}, {column}, origin);
}

Result<ValueId> DecoderSizes::of_keys(const Part& part, const RowIntegers& integers,
                                      const Origin& origin) {
  return counts(part, integers, true, origin);
}

Result<ValueId> DecoderSizes::bias(const DistanceBias& bias, const Origin& origin) {
  LLMC_TRY(const ValueId queries, positions(origin));
  LLMC_TRY(const ValueId past, size(past_, 2, origin));
  LLMC_TRY(const ValueId count, size(ids_, 0, origin));
  LLMC_TRY(const ValueId total, binary(BinaryKind::kAdd, past, count, origin));
  LLMC_TRY(const ValueId end, b_.add_one(ir::Squeeze{{0}}, {total}, origin));
  const ValueId zero = b_.constant(ir::make_i64({}, {0}), {}, origin);
  const ValueId one = b_.constant(ir::make_i64({}, {1}), {}, origin);
  const ValueId last = b_.constant(ir::make_i64({}, {bias.distances - 1}), {}, origin);
  LLMC_TRY(const ValueId keys, b_.add_one(ir::Range{}, {zero, end, one}, origin));
  LLMC_TRY(const ValueId column, b_.add_one(ir::Unsqueeze{{1}}, {queries}, origin));
  LLMC_TRY(ValueId distance, binary(BinaryKind::kSub, column, keys, origin));
  LLMC_TRY(distance, binary(BinaryKind::kMax, distance, zero, origin));
  LLMC_TRY(distance, binary(BinaryKind::kMin, distance, last, origin));
  const ValueId table =
      b_.constant(ir::make_f32({bias.distances, bias.heads}, bias.values), {}, origin);
  LLMC_TRY(const ValueId found, b_.add_one(ir::Gather{0}, {table, distance}, origin));
  LLMC_TRY(const ValueId by_head, b_.add_one(ir::Transpose{{2, 0, 1}}, {found}, origin));
  return b_.add_one(ir::Unsqueeze{{0}}, {by_head}, origin);
}

}  // namespace llmc::importer
