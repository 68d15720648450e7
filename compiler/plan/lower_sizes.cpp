#include <algorithm>

#include "compiler/ir/shape_rules.h"
#include "compiler/plan/lower.h"
#include "compiler/support/checked_math.h"

/// Determines the sizes of a plain graph's dims, some of which are open.
namespace llmc::plan {
namespace {

/// Returns the index of the only unknown size; nullopt if there is none, or more than one.
std::optional<std::size_t> only_unknown(const std::vector<std::optional<Size>>& sizes) {
  const auto unknown = [](const std::optional<Size>& size) { return !size.has_value(); };
  const auto first = std::ranges::find_if(sizes, unknown);
  if (first == sizes.end() || std::any_of(first + 1, sizes.end(), unknown)) return std::nullopt;
  return static_cast<std::size_t>(first - sizes.begin());
}

}  // namespace

std::optional<Size> Lowerer::size_of(const ir::Dim& dim) const {
  Size size = dim.constant_part();
  for (const auto& [symbol, factor] : dim.terms()) {
    const auto found = symbols_.find(symbol);
    if (found == symbols_.end()) return std::nullopt;
    const auto limit = found->second.magnitude();
    if (!limit || *limit > kMaxElements || factor > kMaxElements || factor < -kMaxElements ||
        !checked_mul(*limit, std::abs(factor)))
      return std::nullopt;
    size += found->second * factor;
  }
  return size;
}

std::optional<Sizes> Lowerer::sizes_of(const ir::TensorType& type) const {
  Sizes sizes;
  std::int64_t elements = 1;
  for (const ir::Dim& dim : type.dims) {
    const auto size = size_of(dim);
    const auto magnitude = size ? size->magnitude() : std::nullopt;
    if (!magnitude || *magnitude > kMaxElements || size->least() < 0) return std::nullopt;
    elements *= std::max<std::int64_t>(*magnitude, 1);
    if (elements > kMaxElements) return std::nullopt;
    sizes.push_back(*size);
  }
  return sizes;
}

void Lowerer::note_inferred_symbols(const ir::Node& node) {
  if (node.inputs.empty() || node.outputs.size() != 1) return;
  const ir::TensorType &from = graph_.value(node.inputs[0]).type,
                       &to = graph_.value(node.outputs[0]).type;
  const auto known = sizes_of(from);
  std::vector<std::optional<Size>> sizes;
  for (const ir::Dim& dim : to.dims) sizes.push_back(size_of(dim));
  const auto at = only_unknown(sizes);
  // The dim must be a single symbol, which inference created for it.
  if (!known || !at || to.dims[*at].terms().size() != 1 || to.dims[*at].constant_part() != 0 ||
      to.dims[*at].terms().begin()->second != 1)
    return;
  std::optional<Size> size;
  if (ir::op_as<ir::Reshape>(&node)) {
    Size others = 1;
    for (const auto& other : sizes)
      if (other) others *= *other;
    if (others != 0) size = quotient(product(*known), others);
  }
  if (ir::op_as<ir::Slice>(&node)) size = slice_length(node, *at, (*known)[*at]);
  if (size) symbols_.emplace(to.dims[*at].terms().begin()->first, *size);
}

std::optional<Size> Lowerer::slice_length(const ir::Node& node, std::size_t axis,
                                          const Size& size) const {
  const auto* starts = shape_values_.find(node.inputs[1]);
  const auto* ends = shape_values_.find(node.inputs[2]);
  const auto list = [&](std::size_t i) {
    return present(node, i) ? shape_values_.find(node.inputs[i]) : nullptr;
  };
  if (!starts || !ends || starts->size() != ends->size()) return std::nullopt;
  const auto *axes = list(3), *steps = list(4);
  if ((present(node, 3) && !axes) || (present(node, 4) && !steps)) return std::nullopt;
  const auto rank = graph_.value(node.inputs[0]).type.rank();
  for (std::size_t i = 0; i < starts->size(); ++i) {
    const ir::Dim dim = axes ? (*axes)[i] : ir::Dim(static_cast<std::int64_t>(i));
    if (!dim.is_constant() || ir::normalize_axis(*dim.constant(), rank) != axis) continue;
    if (steps && (*steps)[i] != ir::Dim(1)) return std::nullopt;
    // Converts a bound to a position from the start; nullopt if the ranges do not determine whether
    // it is clamped.
    const auto position = [&](const ir::Dim& bound) -> std::optional<Size> {
      if (bound.is_constant() && *bound.constant() >= INT64_MAX / 2) return size;
      if (bound.is_constant() && *bound.constant() <= INT64_MIN / 2) return Size(0);
      auto from_front = size_of(bound);
      if (!from_front) return std::nullopt;
      if (from_front->bound() < 0) {
        *from_front += size;
        if (from_front->bound() <= 0) return Size(0);
      }
      if (from_front->least() < 0) return std::nullopt;
      if (at_most(*from_front, size)) return from_front;
      return at_most(size, *from_front) ? std::optional(size) : std::nullopt;
    };
    const auto begin = position((*starts)[i]), end = position((*ends)[i]);
    if (!begin || !end) return std::nullopt;
    if (at_most(*end, *begin)) return Size(0);
    return at_most(*begin, *end) ? std::optional(*end - *begin) : std::nullopt;
  }
  return std::nullopt;
}

void Lowerer::note_quotients(const ir::Dim& dim) {
  for (const auto& [symbol, factor] : dim.terms()) {
    const auto quotient = symbols_.contains(symbol) ? std::nullopt : ir::quotient_of(symbol);
    if (!quotient) continue;
    note_quotients(quotient->numerator);
    const auto numerator = size_of(quotient->numerator);
    if (!numerator) continue;
    const DimRange range(numerator->least() / quotient->divisor,
                         numerator->bound() / quotient->divisor);
    if (numerator->least() < 0 || numerator->bound() == INT64_MAX) continue;
    if (numerator->is_constant() || range.is_number()) {
      symbols_.emplace(symbol, Size(range.min));
      continue;
    }
    const auto open = std::make_shared<const OpenDim>(
        OpenDim{symbol, range, std::make_shared<const Size>(*numerator), quotient->divisor});
    symbols_.emplace(symbol, Size(open));
    program_.quotients.push_back(open);
  }
}

void Lowerer::note_open_dims() {
  const DimRanges& open = options_.open_dims;
  for (const ir::ValueId input : graph_.inputs()) {
    for (const ir::Dim& dim : graph_.value(input).type.dims) {
      for (const auto& [symbol, factor] : dim.terms()) {
        const auto range = open.find(symbol);
        if (range == open.end() || symbols_.contains(symbol)) continue;
        const auto dim_ptr = std::make_shared<const OpenDim>(OpenDim{symbol, range->second});
        symbols_.emplace(symbol, Size(dim_ptr));
        program_.open_dims.push_back(dim_ptr);
      }
    }
  }
  if (program_.open_dims.empty()) return;
  for (const ir::Node& node : graph_.nodes()) {
    shape_values_.record(graph_, node);
    for (const ir::ValueId output : node.outputs) {
      if (!output.exists()) continue;
      for (const ir::Dim& dim : graph_.value(output).type.dims) note_quotients(dim);
      if (const auto* const elements = shape_values_.find(output))
        for (const ir::Dim& element : *elements) note_quotients(element);
    }
    note_inferred_symbols(node);
  }
}

std::optional<Sizes> Lowerer::Scope::sizes(const ir::TensorType& type) const {
  return lowerer.is_plain_ ? lowerer.sizes_of(type) : row_dims(type);
}

std::optional<Sizes> Lowerer::Scope::elements(ir::ValueId value) const {
  const std::vector<ir::Dim>* known = lowerer.shape_values_.find(value);
  if (known == nullptr) return std::nullopt;
  Sizes sizes;
  for (const ir::Dim& dim : *known) {
    const auto size = lowerer.size_of(dim);
    if (!size) return std::nullopt;
    sizes.push_back(*size);
  }
  return sizes;
}

}  // namespace llmc::plan
