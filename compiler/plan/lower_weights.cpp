#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "compiler/plan/lower.h"
#include "compiler/plan/source_quantization.h"
#include "compiler/plan/weight_formats.h"
#include "compiler/support/check.h"
#include "compiler/support/identifier.h"

namespace llmc::plan {
namespace {

/// Constants up to this size are compared by content, so that equal constants in all layers (rotary
/// frequencies) are stored once.
constexpr std::size_t kCompareBytes = std::size_t{1} << 20;

bool all_equal(const std::vector<ir::ConstantPtr>& constants) {
  const ir::ConstantPtr& first = constants.front();
  const auto same = [&](const ir::ConstantPtr& c) { return c == first; };
  if (std::ranges::all_of(constants, same)) return true;
  if (first->byte_count() > kCompareBytes) return false;
  const auto bytes = first->bytes();
  return std::ranges::all_of(constants, [&](const ir::ConstantPtr& c) {
    return c->element() == first->element() && c->dims() == first->dims() && c->bytes() == bytes;
  });
}

/// Returns the storage format of a table. Every quantized format, q4 too, stores 8 bits; otherwise
/// 16-bit sources stay exact. Lookups are fast in any format.
TableKind table_kind(ir::WeightFormat format, ir::ElementType source) {
  if (is_quantized(format)) return TableKind::kQ8;
  if (source == ir::ElementType::kBF16) return TableKind::kBF16;
  if (source == ir::ElementType::kF16 || format == ir::WeightFormat::kF16) return TableKind::kF16;
  return TableKind::kF32;
}

/// Preserves the codes of the quantized weights of one field (the same matrix of every layer) if
/// one format can represent them all. Records the conversion of each weight.
void preserve_quantization(std::span<PackedWeight> weights, ir::WeightFormat format) {
  if (weights.empty() || weights[0].use == WeightUse::kVector) return;
  for (PackedWeight& weight : weights) {
    const ir::ConstantPtr codes = weight.data->source_of_floats();
    if (!codes) continue;
    weight.conversion = WeightConversion::kRequantized;
    weight.source_quantization =
        source_quantization_of({&codes, 1}, 0, static_cast<std::int64_t>(weight.rows)).text;
    weight.requantize_reason = "--requantize";
  }
  std::vector<ir::ConstantPtr> matrices;
  for (const PackedWeight& weight : weights) matrices.push_back(weight.data);
  const SourceQuantization all =
      source_quantization_of(matrices, 0, static_cast<std::int64_t>(weights[0].rows));
  if (all.text.empty()) return;
  for (PackedWeight& weight : weights) {
    const SourceQuantization own =
        source_quantization_of({&weight.data, 1}, 0, static_cast<std::int64_t>(weight.rows));
    if (own.text.empty()) continue;
    weight.source_quantization = own.text;
    if (!is_quantized(format)) {
      weight.conversion = WeightConversion::kDequantized;
    } else if (all.format) {
      weight.conversion = WeightConversion::kPreserved;
      weight.code_low = all.low;
      weight.matrix = coded_weight(*all.format);
      weight.table = coded_table(*all.format);
    } else {
      weight.conversion = WeightConversion::kRequantized;
      weight.requantize_reason = all.requantize_reason;
    }
  }
}

}  // namespace

const ir::TensorType* Lowerer::weight_type(Scope& scope, const ir::Node& node,
                                           std::size_t index) const {
  return present(node, index) ? &scope.graph.value(node.inputs[index]).type : nullptr;
}

std::string Lowerer::unique_global_label(const std::string& label) {
  return numbered(label,
                  [&](const std::string& name) { return global_labels_.insert(name).second; });
}

std::string Lowerer::unique_label(Scope& scope, const std::string& label) {
  if (!scope.loop) return unique_global_label(label);
  return numbered(label, [&](const std::string& name) {
    return std::ranges::find(scope.loop->fields, name, &LoopStage::Field::name) ==
           scope.loop->fields.end();
  });
}

std::optional<PackedWeight> Lowerer::packed(const ir::Node& node, const ConstantBinding& constant,
                                            const WeightSpec& spec) {
  ir::ConstantPtr data = constant.data;
  if (spec.row_count != 0) {
    ir::ConstantPtr& part = parts_[{data.get(), spec.first_row, spec.row_count}];
    if (!part) {
      std::vector<std::int64_t> rows(static_cast<std::size_t>(spec.row_count));
      std::iota(rows.begin(), rows.end(), spec.first_row);
      part = ir::reorder_rows(std::move(data), std::move(rows));
    }
    data = part;
  }
  const std::vector<std::int64_t>& dims = data->dims();
  if (!ir::is_float(constant.data->element())) {
    bad_input(node, fmt::format("weight '{}' has elements of type {}", printable(constant.name),
                                ir::to_string(constant.data->element())));
    return std::nullopt;
  }
  PackedWeight weight;
  weight.use = spec.use;
  weight.order = spec.order;
  weight.pad_rows = spec.pad_rows;
  weight.heads = spec.shape.heads;
  weight.kv_heads = spec.shape.kv_heads;
  weight.head_dim = spec.shape.head_dim;
  weight.data = data;
  weight.name = constant.name;
  weight.label = spec.label;
  weight.active_rows = spec.active_rows;
  const bool matrix = spec.use != WeightUse::kVector || (dims.size() == 2 && !spec.pad_rows);
  const auto side = [](std::int64_t dim) {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(dim, 0));
  };
  if (matrix && dims.size() == 2) {
    weight.rows = side(dims[0]);
    weight.columns = side(dims[1]);
  } else if (!matrix) {
    weight.rows = side(data->element_count());
    weight.columns = 1;
  } else {
    bad_input(node, fmt::format("weight '{}' has {} dims instead of 2", printable(constant.name),
                                dims.size()));
    return std::nullopt;
  }
  // A plain graph keeps 16-bit matrices unless a format is requested.
  const bool half = is_plain_ && data->element() == ir::ElementType::kF16;
  weight.matrix = half && spec.format == ir::WeightFormat::kUnset
                      ? WeightKind::kF16
                      : weight_format_info(spec.format).kind;
  if (is_plain_)
    weight.comment = ir::to_string(ir::TensorType{data->element(), {dims.begin(), dims.end()}}) +
                     "  " + constant.name;
  weight.table = table_kind(spec.format, data->element());
  if (spec.hadamard != 0 && spec.use == WeightUse::kMatrix) {
    if (spec.hadamard != static_cast<std::int64_t>(kSuper) || !is_quantized(weight.matrix)) {
      unsupported(node, fmt::format("its inputs are transformed in superblocks of {}, not of {} "
                                    "for a quantized weight",
                                    spec.hadamard, kSuper));
      return std::nullopt;
    }
    weight.basis = Basis::kHadamard;
  }
  return weight;
}

std::vector<ir::ConstantPtr> Lowerer::constants_of(Scope& scope, const ir::Node& node,
                                                   std::size_t index) {
  const ValueBinding& source = input(scope, node, index);
  if (const auto* constant = std::get_if<ConstantBinding>(&source)) return {constant->data};
  const auto* parameter = std::get_if<ParameterBinding>(&source);
  if (!parameter || !scope.op) return {};
  return scope.op->parameters[static_cast<std::size_t>(parameter->index)];
}

bool Lowerer::splits_values(Scope& scope, const ir::Node& node, const ir::QkvProjection& op,
                            std::int64_t query_key_rows, std::int64_t rows) {
  const bool assigned = value_format(op) != op.format;
  const std::vector<ir::ConstantPtr> matrices = constants_of(scope, node, 1);
  if (matrices.empty() || !is_quantized(op.format) || !is_quantized(value_format(op)))
    return assigned;
  const SourceQuantization query_key = source_quantization_of(matrices, 0, query_key_rows);
  const SourceQuantization value = source_quantization_of(matrices, query_key_rows, rows);
  if (!query_key.format && !value.format) return assigned;
  // One format can have integer zero points and absent ones. If the parts differ otherwise,
  // separate matrices cost less.
  if (!query_key.format || !value.format) return true;
  CodedFormat a = *query_key.format, b = *value.format;
  if (a.zero != CodedZero::kFloat && b.zero != CodedZero::kFloat) a.zero = b.zero;
  return !(a == b) || query_key.low != value.low;
}

WeightRef Lowerer::layer_data(Scope& scope, const ParameterBinding& parameter) {
  const auto p = static_cast<std::size_t>(parameter.index);
  const auto known = scope.data_fields.find(p);
  if (known != scope.data_fields.end()) return known->second;
  LoopStage::Field field{.name = unique_label(scope, "constant")};
  std::vector<PackedWeight> weights;
  for (const ir::ConstantPtr& data : scope.op->parameters[p]) {
    PackedWeight weight{.use = WeightUse::kData, .data = data, .label = field.name};
    weight.layer = static_cast<std::int64_t>(weights.size());
    weight.rows = unsigned_of(data->element_count());
    weight.columns = 1;
    const auto& names = scope.op->parameter_names;
    if (p < names.size() && weights.size() < names[p].size())
      weight.name = names[p][weights.size()];
    weights.push_back(std::move(weight));
  }
  scope.loop->fields.push_back(std::move(field));
  scope.field_weights.push_back(std::move(weights));
  return scope.data_fields[p] = {static_cast<std::uint32_t>(scope.loop->fields.size() - 1), true};
}

WeightRef Lowerer::global_weight(PackedWeight weight) {
  const auto key =
      std::tuple(weight.data.get(), static_cast<int>(weight.use), static_cast<int>(weight.matrix),
                 static_cast<int>(weight.order), weight.pad_rows);
  const auto [it, added] =
      global_weights_.emplace(key, static_cast<std::uint32_t>(program_.weights.size()));
  if (added) program_.weights.push_back(std::move(weight));
  return {it->second, false};
}

WeightRef Lowerer::labelled_weight(const ir::Node& node, const ConstantBinding& constant,
                                   WeightSpec spec) {
  const auto found = global_weights_.size();
  spec.label = is_plain_ ? unique_name(constant.name, spec.label) : unique_global_label(spec.label);
  auto weight = packed(node, constant, spec);
  if (weight) preserve_quantization({&*weight, 1}, spec.format);
  const WeightRef ref = weight ? global_weight(std::move(*weight)) : WeightRef{};
  if (global_weights_.size() == found) global_labels_.erase(spec.label);  // was already stored
  return ref;
}

WeightRef Lowerer::weight(Scope& scope, const ir::Node& node, std::size_t index, WeightSpec spec) {
  const ValueBinding& source = input(scope, node, index);
  if (const auto* constant = std::get_if<ConstantBinding>(&source))
    return labelled_weight(node, *constant, std::move(spec));
  const auto* parameter = std::get_if<ParameterBinding>(&source);
  if (!parameter || !scope.op) {
    if (present(node, index)) unsupported(node, "an operand is computed where a weight is needed");
    return {};
  }
  LLMC_CHECK(static_cast<std::size_t>(parameter->index) < scope.op->parameters.size());
  const auto p = static_cast<std::size_t>(parameter->index);
  const std::vector<ir::ConstantPtr>& constants = scope.op->parameters[p];
  LLMC_CHECK(constants.size() == static_cast<std::size_t>(scope.op->count));
  const auto name_of = [&](std::size_t i) {
    const auto& names = scope.op->parameter_names;
    return p < names.size() && i < names[p].size() ? names[p][i] : std::string();
  };
  if (spec.use == WeightUse::kVector && spec.order == RowOrder::kPlain && all_equal(constants))
    return labelled_weight(node, {constants.front(), name_of(0), {}}, std::move(spec));
  spec.label = unique_label(scope, spec.label);
  LoopStage::Field field{.name = spec.label};
  std::vector<PackedWeight> weights;
  for (std::size_t i = 0; i < constants.size(); ++i) {
    auto weight = packed(node, {constants[i], name_of(i)}, spec);
    if (!weight) return {};
    weight->layer = static_cast<std::int64_t>(i);
    weights.push_back(std::move(*weight));
  }
  preserve_quantization(weights, spec.format);
  scope.loop->fields.push_back(std::move(field));
  scope.field_weights.push_back(std::move(weights));
  return {static_cast<std::uint32_t>(scope.loop->fields.size() - 1), true};
}

WeightRef Lowerer::vector_weight(Scope& scope, const ir::Node& node, std::size_t index,
                                 const std::string& label, std::uint64_t width) {
  const ir::TensorType* type = weight_type(scope, node, index);
  const auto count = type ? ir::element_count(*type) : std::nullopt;
  if (!count || static_cast<std::uint64_t>(*count) != width) {
    bad_input(node, fmt::format("a vector of its norm does not have {} elements", width));
    return {};
  }
  return weight(scope, node, index, {.use = WeightUse::kVector, .label = label});
}

NormInput Lowerer::norm_input(Scope& scope, const ir::Node& node, const NormOperands& norm,
                              const std::string& label, std::uint64_t width) {
  if (!norm.epsilon) return {};
  NormInput input{.weight = vector_weight(scope, node, norm.weight, label, width),
                  .epsilon = *norm.epsilon,
                  .kind = norm.kind};
  if (norm.kind == ir::NormKind::kLayer && present(node, norm.bias)) {
    input.bias = vector_weight(scope, node, norm.bias, label + "_bias", width);
  }
  return input;
}

std::int64_t Lowerer::position_rows(std::uint64_t rows) const {
  return static_cast<std::int64_t>(options_.context == 0 ? rows : std::min(rows, options_.context));
}

void Lowerer::limit_positions(std::uint64_t rows) {
  auto& limit = program_.positions_max;
  limit = limit == 0 ? rows : std::min(limit, rows);
}

std::optional<Angles> Lowerer::angles(Scope& scope, const ir::Node& node, std::size_t positions,
                                      std::size_t frequencies, const ir::Rope& op,
                                      std::uint64_t head_dim) {
  const ValueBinding& at = input(scope, node, positions);
  const auto* axes = std::get_if<PositionAxesBinding>(&at);
  if (op.position_axes.empty() ? !std::holds_alternative<PositionsBinding>(at) : axes == nullptr) {
    unsupported(node, "rotary positions are not the model's position_ids",
                "positions have to be the tokens' places in the sequence");
    return std::nullopt;
  }
  if (axes != nullptr) program_.position_axes = axes->count;
  const auto rotary = static_cast<std::uint64_t>(std::max<std::int64_t>(op.rotary_dim, 0));
  const ir::TensorType* type = weight_type(scope, node, frequencies);
  const auto count = type ? ir::element_count(*type) : std::nullopt;
  if (rotary == 0 || rotary % 2 != 0 || rotary > head_dim || !count) {
    bad_input(node,
              fmt::format("rotary dim {} does not fit a head of {}", op.rotary_dim, head_dim));
    return std::nullopt;
  }
  Angles result{.buffer = {}, .table = {}, .rotary_dim = rotary, .interleaved = op.interleaved};
  const auto elements = static_cast<std::uint64_t>(*count);
  if (op.table) {
    if (elements % rotary != 0 || elements == 0) {
      bad_input(node, fmt::format("the rotary table does not have rows of {}", rotary));
      return std::nullopt;
    }
    limit_positions(elements / rotary);
    result.table = weight(scope, node, frequencies,
                          {.use = WeightUse::kVector,
                           .label = "rope_table",
                           .row_count = position_rows(elements / rotary)});
    return result.table.exists() ? std::optional(result) : std::nullopt;
  }
  if (elements != rotary / 2) {
    bad_input(node, fmt::format("{} rotary frequencies for a rotary dim of {}", elements, rotary));
    return std::nullopt;
  }
  const WeightRef ref =
      weight(scope, node, frequencies, {.use = WeightUse::kVector, .label = "rope_frequencies"});
  if (!ref.exists()) return std::nullopt;
  ir::Origin origin;  // of the angles, not of the node that applies the rotation
  if (const auto* constant = std::get_if<ConstantBinding>(&input(scope, node, frequencies))) {
    origin = constant->origin;
  } else if (const ir::Node* source = scope.uses.producer(node.inputs[frequencies])) {
    origin = source->origin;
  }
  if (origin.node.empty()) origin = node.origin;
  const std::string comment =
      fmt::format("cos and sin of position * frequency: [tokens, {}]", rotary);
  const std::vector<std::uint8_t> axis_of(op.position_axes.begin(), op.position_axes.end());
  if (ref.per_layer) {
    result.buffer = new_buffer("angles", {rotary, false});
    scope.stages.push_back({RopeAnglesStage{ref, rotary, result.buffer, axis_of}, origin, comment});
    return result;
  }
  const auto [it, added] = angle_buffers_.try_emplace({ref.index, rotary, axis_of});
  if (added) {
    it->second = new_buffer("angles", {rotary, false});
    prologue_.push_back({RopeAnglesStage{ref, rotary, it->second, axis_of}, origin, comment});
  }
  result.buffer = it->second;
  return result;
}

}  // namespace llmc::plan
