#include "compiler/plan/source_quantization.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "compiler/quant/coded.h"

namespace llmc::plan {
namespace {

/// Number of scales that are examined at once.
constexpr std::int64_t kPortion = std::int64_t{1} << 16;

std::string describe(const ir::Quantization& q) {
  const bool narrow = q.high - q.low <= 15;
  return fmt::format(
      "{}-bit, {}{}", narrow ? 4 : 8,
      q.block == 0 ? std::string("one block a row") : fmt::format("blocks of {}", q.block),
      q.zero == ir::Quantization::Zero::kNone ? "" : ", zero points");
}

ir::Quantization joined(const ir::Quantization& a, const ir::Quantization& b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high), std::gcd(a.block, b.block),
          std::max(a.zero, b.zero)};
}

/// Adds all scales and zero points to the choice; returns false if one cannot be represented.
bool add_scales(quant::CodedChoice& choice, const ir::Constant& matrix, std::int64_t begin,
                std::int64_t end) {
  const std::int64_t columns = matrix.dims()[1], block = choice.block();
  const std::int64_t blocks = (columns + block - 1) / block;
  const std::int64_t portion = std::clamp<std::int64_t>(kPortion / blocks, 1, end - begin);
  std::vector<float> scales(static_cast<std::size_t>(portion * blocks)), zeros(scales.size());
  for (std::int64_t row = begin; row < end; row += portion) {
    const std::int64_t rows = std::min(portion, end - row);
    const auto count = static_cast<std::size_t>(rows * blocks);
    const ir::QuantizedRows out{{}, std::span(scales).first(count), std::span(zeros).first(count)};
    matrix.read_quantized(row, rows, block, out);
    if (!choice.add(out.scales, out.zeros)) return false;
  }
  return true;
}

}  // namespace

SourceQuantization source_quantization_of(std::span<const ir::ConstantPtr> matrices,
                                          std::int64_t begin, std::int64_t end) {
  SourceQuantization source;
  std::optional<ir::Quantization> all;
  std::size_t quantized = 0;
  for (const ir::ConstantPtr& matrix : matrices) {
    if (matrix->dims().size() != 2 || begin >= end || matrix->dims()[1] < 1) return source;
    const auto q = matrix->quantization(begin, end);
    if (!q) {
      // Some of its rows may be quantized: a projection that was left in floats was merged with
      // others.
      for (std::int64_t row = begin; row < end && source.text.empty(); ++row)
        if (const auto one = matrix->quantization(row, row + 1))
          source.text = "partly " + describe(*one);
      continue;
    }
    all = all ? joined(*all, *q) : *q;
    ++quantized;
  }
  if (all) source.text = describe(*all);
  if (quantized != matrices.size()) {
    if (!source.text.empty())
      source.requantize_reason =
          quantized > 0 ? "other layers are stored as floats" : "merged with float rows";
    return source;
  }
  if (!all) return source;
  source.low = all->low;
  auto choice = quant::CodedChoice::start(all->low, all->high, all->block);
  if (!choice) {
    source.requantize_reason =
        all->high - all->low > 255
            ? "signed and unsigned codes are merged"
            : fmt::format("blocks of {} have no common part of 16", all->block);
    return source;
  }
  for (const ir::ConstantPtr& matrix : matrices) {
    if (add_scales(*choice, *matrix, begin, end)) continue;
    source.requantize_reason = "zero points of signed codes are no integers";
    return source;
  }
  source.format = choice->format();
  return source;
}

std::string to_string(CodedFormat format) {
  static constexpr const char* kZeros[] = {"", " zero", " float zero"};
  return fmt::format("int{}/{}{} {}", format.bits, format.block,
                     kZeros[static_cast<std::size_t>(format.zero)],
                     format.scale == CodedScale::kF16 ? "f16" : "f32");
}

}  // namespace llmc::plan
