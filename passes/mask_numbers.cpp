// The numbers of additive masks (mask_analysis.h).

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/ir/constant_data.h"
#include "passes/mask_analysis.h"

namespace llmc::passes {

using ir::ValueId;

namespace {

/// Returns the number after a cast to a type; nullopt if an integer type cannot represent it.
std::optional<double> converted(double number, ir::ElementType to) {
  if (to == ir::ElementType::kBool) return number != 0 ? 1 : 0;
  if (ir::is_float(to))
    return ir::element_to_double(to, ir::element_from_double(to, number).data());
  const bool is_integer = std::trunc(number) == number && std::abs(number) <= INT32_MAX;
  const bool fits =
      is_integer && ir::element_from_integer(to, static_cast<std::int64_t>(number)).has_value();
  return fits ? std::optional(number) : std::nullopt;
}

}  // namespace

std::optional<double> MaskAnalysis::number_everywhere(ValueId value) {
  return remembered(numbers_, value, [&] { return compute_number(value); });
}

std::optional<double> MaskAnalysis::compute_number(ValueId value) {
  const ir::Node* node = rw_.producer(value);
  if (!node) return std::nullopt;
  if (const auto* filled = std::get_if<ir::ConstantOfShape>(&node->op))
    return ir::to_doubles(*filled->value).at(0);
  if (const auto* constant = std::get_if<ir::ConstantOp>(&node->op)) {
    if (constant->data->element_count() < 1 || constant->data->element_count() > kMaxStored)
      return std::nullopt;
    const auto values = ir::to_doubles(*constant->data);
    const bool same = std::ranges::all_of(values, [&](double v) { return v == values[0]; });
    return same ? std::optional(values[0]) : std::nullopt;
  }
  if (const auto* cast = std::get_if<ir::Cast>(&node->op)) {
    const auto number = number_everywhere(node->inputs[0]);
    return number ? converted(*number, cast->to) : std::nullopt;
  }
  if (const ValueId above = strip_views(rw_, value); above != value)
    return number_everywhere(above);
  return std::holds_alternative<ir::Expand>(node->op) ? number_everywhere(node->inputs[0])
                                                      : std::nullopt;
}

bool MaskAnalysis::hides_with(ValueId value, double number) {
  return remembered(hides_, {value, number}, [&] { return compute_hides_with(value, number); });
}

bool MaskAnalysis::compute_hides_with(ValueId value, double number) {
  const auto inner = [&](ValueId x) { return hides_with(x, number); };
  if (const auto known = number_everywhere(value)) return *known == 0 || *known == number;
  const ir::Node* node = rw_.producer(value);
  if (!node)  // the importers' mask
    return rw_.graph().value(value).kind == ir::InputKind::kMask &&
           number == static_cast<double>(std::numeric_limits<float>::lowest());
  if (const auto* constant = std::get_if<ir::ConstantOp>(&node->op))
    return constant->data->element_count() <= kMaxStored &&
           std::ranges::all_of(ir::to_doubles(*constant->data),
                               [&](double v) { return v == 0 || v == number; });
  if (std::holds_alternative<ir::Concat>(node->op)) return std::ranges::all_of(node->inputs, inner);
  if (ir::is_view(node->op) || std::holds_alternative<ir::Trilu>(node->op))
    return inner(node->inputs[0]);
  if (const auto* cast = std::get_if<ir::Cast>(&node->op))
    return ir::is_float(cast->to) && converted(number, cast->to) == number &&
           inner(node->inputs[0]);
  if (std::holds_alternative<ir::Where>(node->op))
    return inner(node->inputs[1]) && inner(node->inputs[2]);
  const auto* binary = std::get_if<ir::Binary>(&node->op);
  if (binary == nullptr) return false;
  const ValueId a = node->inputs[0], b = node->inputs[1];
  if (binary->kind == ir::BinaryKind::kMin || binary->kind == ir::BinaryKind::kMax)
    return inner(a) && inner(b);
  return binary->kind == ir::BinaryKind::kMul &&
         ((inner(a) && is_flag(b)) || (is_flag(a) && inner(b)));
}

}  // namespace llmc::passes
