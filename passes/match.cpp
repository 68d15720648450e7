#include "passes/match.h"

#include <algorithm>

namespace llmc::passes {

using ir::BinaryKind;
using ir::ValueId;

std::optional<double> scalar_constant(const Rewriter& rw, ValueId value) {
  const ir::ConstantPtr data = rw.constant(value);
  if (!data || data->element_count() != 1) return std::nullopt;
  return ir::to_doubles(*data).at(0);
}

std::optional<std::vector<std::int64_t>> integer_constant(const Rewriter& rw, ValueId value) {
  const ir::ConstantPtr data = rw.constant(value);
  if (!data || data->element_count() > 64) return std::nullopt;
  auto values = ir::to_integers(*data);
  if (!values.ok()) return std::nullopt;
  return std::move(values).value();
}

std::optional<std::vector<ir::Dim>> known_integers(const Rewriter& rw, ValueId value) {
  if (const auto* known = rw.shape_values().find(value)) return *known;
  constexpr std::int64_t kMaxElements = 1 << 16;
  const ir::ConstantPtr data = rw.constant(value);
  if (!data || data->element_count() > kMaxElements) return std::nullopt;
  const auto values = ir::to_integers(*data);
  if (!values.ok()) return std::nullopt;
  return std::vector<ir::Dim>(values->begin(), values->end());
}

std::vector<ir::IndexMap> index_maps(const Rewriter& rw, const ir::Node& node, std::size_t slot) {
  ir::IndexOperands operands;
  operands.elements = [&](ValueId value) { return known_integers(rw, value); };
  return ir::index_maps(rw.graph(), node, slot, operands);
}

std::optional<Operands> binary(const Rewriter& rw, ValueId value, BinaryKind kind) {
  const auto* op = rw.op<ir::Binary>(value);
  if (!op || op->kind != kind) return std::nullopt;
  const auto& inputs = rw.producer(value)->inputs;
  return Operands{inputs[0], inputs[1]};
}

std::vector<Operands> either_order(const Rewriter& rw, ValueId value, BinaryKind kind) {
  const auto found = binary(rw, value, kind);
  return found ? std::vector{*found, Operands{found->right, found->left}} : std::vector<Operands>();
}

std::optional<ValueId> unary(const Rewriter& rw, ValueId value, ir::UnaryKind kind) {
  const auto* op = rw.op<ir::Unary>(value);
  if (!op || op->kind != kind) return std::nullopt;
  return rw.producer(value)->inputs[0];
}

std::optional<Scaled> with_scalar(const Rewriter& rw, ValueId value, BinaryKind kind) {
  const auto operands = binary(rw, value, kind);
  if (!operands) return std::nullopt;
  const auto fits = [&](ValueId other, ValueId constant) -> std::optional<Scaled> {
    const auto scalar = scalar_constant(rw, constant);
    if (!scalar || rw.type(other) != rw.type(value)) return std::nullopt;
    return Scaled{other, *scalar};
  };
  if (auto found = fits(operands->left, operands->right)) return found;
  if (kind == BinaryKind::kAdd || kind == BinaryKind::kMul)
    return fits(operands->right, operands->left);
  return std::nullopt;
}

std::optional<Scaled> scalar_factor(const Rewriter& rw, ValueId value) {
  if (auto factor = with_scalar(rw, value, BinaryKind::kMul)) return factor;
  auto divisor = with_scalar(rw, value, BinaryKind::kDiv);
  if (!divisor || divisor->scalar == 0) return std::nullopt;
  divisor->scalar = 1 / divisor->scalar;
  return divisor;
}

ValueId strip_views(const Rewriter& rw, ValueId value) {
  while (const ir::Node* node = rw.producer(value)) {
    const auto* cast = std::get_if<ir::Cast>(&node->op);
    const auto* un = std::get_if<ir::Unary>(&node->op);
    const bool view = ir::is_reshape(node->op) || (un && un->kind == ir::UnaryKind::kIdentity) ||
                      (cast && cast->to == rw.type(node->inputs[0]).element);
    if (!view) break;
    value = node->inputs[0];
  }
  return value;
}

std::optional<std::int64_t> last_dim(const Rewriter& rw, ValueId value) {
  const auto& dims = rw.type(value).dims;
  return dims.empty() ? std::nullopt : dims.back().constant();
}

std::vector<ir::Dim> without_ones(std::vector<ir::Dim> dims) {
  std::erase(dims, ir::Dim(1));
  return dims;
}

bool is_f32(const Rewriter& rw, ValueId value, std::size_t rank) {
  const ir::TensorType& type = rw.type(value);
  return type.element == ir::ElementType::kF32 && type.rank() >= rank;
}

bool is_last_axis(std::int64_t axis, std::size_t rank) {
  return rank > 0 && ir::normalize_axis(axis, rank) == rank - 1;
}

bool is_last_axis(const std::vector<std::int64_t>& axes, std::size_t rank) {
  return axes.size() == 1 && is_last_axis(axes[0], rank);
}

ir::ConstantPtr matrix_constant(const Rewriter& rw, ValueId value) {
  bool turned = false;
  while (true) {
    if (rw.type(value).rank() != 2) return nullptr;
    const ir::Node* node = rw.producer(value);
    if (!node) return nullptr;
    if (const auto* constant = std::get_if<ir::ConstantOp>(&node->op)) {
      if (!ir::is_float(constant->data->element()) || constant->data->element_count() == 0)
        return nullptr;
      return turned ? ir::transposed(constant->data) : constant->data;
    }
    if (const auto* cast = std::get_if<ir::Cast>(&node->op)) {
      // Accept only Casts that widen to f32, because narrowing would round the constant.
      const auto from = rw.type(node->inputs[0]).element;
      const bool widens = from == ir::ElementType::kF16 || from == ir::ElementType::kBF16 ||
                          from == ir::ElementType::kF32;
      if (cast->to != ir::ElementType::kF32 || !widens) return nullptr;
    } else if (const auto* transpose = std::get_if<ir::Transpose>(&node->op)) {
      if (transpose->perm != std::vector<std::int64_t>{1, 0}) return nullptr;
      turned = !turned;
    } else {
      return nullptr;
    }
    value = node->inputs[0];
  }
}

ir::ConstantPtr row_constant(const Rewriter& rw, ValueId value, ValueId like) {
  const auto n = last_dim(rw, like);
  const ir::ConstantPtr data = rw.constant(value);
  if (!n || !data || !ir::is_float(data->element())) return nullptr;
  const auto& dims = data->dims();
  if (dims.empty() || dims.size() > rw.type(like).rank() || dims.back() != *n) return nullptr;
  if (std::ranges::any_of(dims.begin(), dims.end() - 1, [](auto d) { return d != 1; }))
    return nullptr;
  if (dims.size() == 1 && data->element() == ir::ElementType::kF32) return data;
  const std::vector<double> values = ir::to_doubles(*data);
  return ir::make_f32({*n}, std::vector<float>(values.begin(), values.end()));
}

ValueId constant_operand(Rewriter& rw, ValueId value, const ir::ConstantPtr& data,
                         NodeIndex anchor) {
  return rw.constant(value) == data ? value : rw.emit_constant(data, anchor, rw.name(value));
}

bool same_data(const ir::ConstantPtr& a, const ir::ConstantPtr& b, std::size_t limit) {
  if (a == b) return true;
  if (!a || !b || a->element() != b->element() || a->dims() != b->dims()) return false;
  return a->byte_count() <= limit && a->bytes() == b->bytes();
}

std::optional<std::vector<std::int64_t>> reshape_spec(const ir::TensorType& from,
                                                      const std::vector<ir::Dim>& to) {
  std::vector<std::int64_t> spec;
  bool inferred = false, copied = false;
  for (std::size_t i = 0; i < to.size(); ++i) {
    const auto number = to[i].constant();
    if (number && *number > 0) {
      spec.push_back(*number);
    } else if (i < from.rank() && from.dims[i] == to[i]) {
      copied = true;
      spec.push_back(0);
    } else if (!number && !inferred) {
      inferred = true;
      spec.push_back(-1);
    } else {
      return std::nullopt;
    }
  }
  // A copied dim may be 0 at run time, which leaves -1 undetermined.
  if (inferred && copied) return std::nullopt;
  return spec;
}

ValueId emit_reshape(Rewriter& rw, ValueId value, const std::vector<ir::Dim>& dims,
                     NodeIndex anchor) {
  if (rw.type(value).dims == dims) return value;
  const auto spec = reshape_spec(rw.type(value), dims);
  if (!spec) return ir::kNoValue;
  return rw.emit(ir::Reshape{}, {value, emit_integers(rw, *spec, anchor)}, anchor);
}

ValueId emit_integers(Rewriter& rw, std::vector<std::int64_t> values, NodeIndex anchor) {
  const auto count = static_cast<std::int64_t>(values.size());
  return rw.emit_constant(ir::make_i64({count}, std::move(values)), anchor);
}

ValueId slice_last(Rewriter& rw, ValueId value, std::int64_t begin, std::int64_t end,
                   NodeIndex anchor) {
  const auto axis = static_cast<std::int64_t>(rw.type(value).rank()) - 1;
  const auto number = [&](std::int64_t n) { return emit_integers(rw, {n}, anchor); };
  return rw.emit(ir::Slice{}, {value, number(begin), number(end), number(axis)}, anchor);
}

ValueId pad_last(Rewriter& rw, ValueId value, std::int64_t width, NodeIndex anchor) {
  const std::int64_t own = *last_dim(rw, value);
  if (own == width) return value;
  std::vector<std::int64_t> pads(2 * rw.type(value).rank(), 0);
  pads.back() = width - own;
  return rw.emit(ir::Pad{}, {value, emit_integers(rw, std::move(pads), anchor)}, anchor);
}

}  // namespace llmc::passes
