#include "passes/rope_factors.h"

#include <algorithm>

namespace llmc::passes {

namespace {

using Kind = RopeFactor::Kind;
using ir::Dim;
using ir::ValueId;

/// Returns, for each column c of a table [rows, n], the first of the columns c - n/2, c - 1 (for
/// odd c) and c that has the same elements, because exporters repeat halves or pairs.
std::vector<std::int64_t> canonical_columns(const ir::Constant& table) {
  const std::int64_t rows = table.dims()[0], n = table.dims()[1];
  std::vector<float> data(static_cast<std::size_t>(rows * n));
  table.read_rows(0, rows, data);
  const auto same = [&](std::int64_t a, std::int64_t b) {
    for (std::int64_t r = 0; r < rows; ++r)
      if (data[static_cast<std::size_t>(r * n + a)] != data[static_cast<std::size_t>(r * n + b)])
        return false;
    return true;
  };
  std::vector<std::int64_t> first(static_cast<std::size_t>(n));
  for (std::int64_t c = 0; c < n; ++c) {
    first[static_cast<std::size_t>(c)] = c;
    if (n % 2 != 0) continue;
    if (c >= n / 2 && same(c, c - n / 2))
      first[static_cast<std::size_t>(c)] = first[static_cast<std::size_t>(c - n / 2)];
    else if (c % 2 == 1 && same(c, c - 1))
      first[static_cast<std::size_t>(c)] = first[static_cast<std::size_t>(c - 1)];
  }
  return first;
}

/// Returns the constant [rows, n] of a table, through views with dims of 1 and slices of the first
/// rows. Returns nullptr for other producers.
ir::ConstantPtr stored_table(const Rewriter& rw, ValueId value) {
  const auto& wanted = rw.type(value).dims;
  if (wanted.size() != 2) return rw.constant(value);
  constexpr int kMaxSteps = 8;
  for (int steps = 0; steps < kMaxSteps; ++steps) {
    if (const ir::ConstantPtr data = rw.constant(value)) {
      std::vector<std::int64_t> dims;
      for (const std::int64_t size : data->dims())
        if (size != 1) dims.push_back(size);
      if (data->dims().size() == 2) return data;
      return dims.size() == 2 && Dim(dims[1]) == wanted[1] ? ir::reshaped(data, dims) : nullptr;
    }
    const ir::Node* node = rw.producer(value);
    if (!node) return nullptr;
    if (std::holds_alternative<ir::Slice>(node->op)) {
      const auto& from = rw.type(node->inputs[0]).dims;
      const auto& to = rw.type(value).dims;
      const auto maps = index_maps(rw, *node);
      for (std::size_t a = 0; a < from.size(); ++a) {
        const bool rows = a + 2 == from.size();
        if (maps.empty() || maps[0].axes[a].result_axis() != a || (!rows && from[a] != to[a]))
          return nullptr;
      }
      value = node->inputs[0];
      continue;
    }
    const ValueId above = strip_views(rw, value);
    if (above == value || without_ones(rw.type(above).dims).size() != 2) return nullptr;
    value = above;
  }
  return nullptr;
}

RopeFactor position_factor(ValueId positions, std::int64_t axis) {
  RopeFactor factor;
  factor.kind = Kind::kPosition;
  factor.positions = positions;
  factor.axis = axis;
  return factor;
}

/// Returns the dims with 1 in place of the token dim; nullopt if another dim is not a positive
/// number or there are too many elements.
std::optional<std::vector<std::int64_t>> shape_of_one_token(const std::vector<Dim>& dims,
                                                            std::optional<std::size_t> tokens) {
  std::vector<std::int64_t> shape;
  std::int64_t count = 1;
  for (std::size_t a = 0; a < dims.size(); ++a) {
    const auto size = a == tokens ? std::optional<std::int64_t>(1) : dims[a].constant();
    if (!size || *size <= 0 || *size > RopeFactorAnalysis::kMaxFactors / count) return std::nullopt;
    count *= *size;
    shape.push_back(*size);
  }
  return shape;
}

/// Returns whether `value` is the input of kind kPositionAxes, with several positions of each
/// token.
bool is_position_axes(const Rewriter& rw, ValueId value) {
  if (rw.graph().value(value).kind != ir::InputKind::kPositionAxes) return false;
  const std::vector<Dim>& dims = rw.type(value).dims;
  return dims.size() == 2 && shape_of_one_token(dims, 1);
}

/// Returns the axis of the tokens in the result of a view, if it keeps their number and order;
/// nullopt if it does not, or mixes them with another axis.
std::optional<std::size_t> moved_tokens(const ir::IndexMap& map, const std::vector<Dim>& from,
                                        const std::vector<Dim>& to, std::size_t tokens) {
  const auto axis = map.axes[tokens].result_axis();
  if (!axis || to[*axis] != from[tokens] || (map.range && map.range->axis == *axis))
    return std::nullopt;
  for (std::size_t a = 0; a < map.axes.size(); ++a)
    for (const ir::IndexTerm& term : map.axes[a].terms)
      if (a != tokens && term.axis == *axis) return std::nullopt;
  return axis;
}

}  // namespace

std::vector<ir::IndexMap> RopeFactorAnalysis::maps(const ir::Node& node, std::size_t slot) {
  ir::IndexOperands read;
  read.elements = [this](ValueId list) { return known_integers(rw_, list); };
  read.affine = [this](ValueId list) {
    const ir::AffineIndex* found = indices_.find(list);
    return found ? std::optional(*found) : std::nullopt;
  };
  return ir::index_maps(rw_.graph(), node, slot, read);
}

const RopeFactors* RopeFactorAnalysis::positions(ValueId value) {
  const RopeFactors* found = rw_.constant(value) ? nullptr : find(value);
  const bool all = found && std::ranges::all_of(found->elements, [](const RopeFactor& factor) {
                     return factor.kind == Kind::kPosition;
                   });
  return all ? found : nullptr;
}

/// Treats an i64 value with at most one element for each token as positions, however it is
/// computed.
std::optional<RopeFactors> RopeFactorAnalysis::one_position(ValueId value) {
  const std::vector<Dim>& dims = rw_.type(value).dims;
  if (rw_.type(value).element != ir::ElementType::kI64 || without_ones(dims).size() > 1)
    return std::nullopt;
  RopeFactors result{
      std::vector<std::int64_t>(dims.size(), 1), std::nullopt, {position_factor(value, 0)}};
  const auto wide = std::ranges::find_if(dims, [](const Dim& d) { return d != Dim(1); });
  if (wide != dims.end()) result.tokens = static_cast<std::size_t>(wide - dims.begin());
  return result;
}

/// Matches positions * frequencies: an outer product by Mul, or by MatMul over one element.
std::optional<RopeFactors> RopeFactorAnalysis::angles(const ir::Node& node,
                                                      const ir::TensorType& type) {
  const auto* mul = std::get_if<ir::Binary>(&node.op);
  const bool is_matmul = std::holds_alternative<ir::MatMul>(node.op);
  if (!is_matmul && !(mul && mul->kind == ir::BinaryKind::kMul)) return std::nullopt;
  for (std::size_t side = 0; side < 2; ++side) {
    const ir::ConstantPtr frequencies = rw_.constant(node.inputs[side]);
    const ir::TensorType& operand = rw_.type(node.inputs[1 - side]);
    if (!frequencies || !ir::is_float(frequencies->element()) ||
        frequencies->element_count() > kMaxFactors || operand.element != ir::ElementType::kF32)
      continue;
    const auto& dims = frequencies->dims();
    if (is_matmul &&
        (dims.size() < 2 || operand.rank() < 2 || rw_.type(node.inputs[0]).dims.back() != Dim(1)))
      return std::nullopt;
    const RopeFactors* found = positions(node.inputs[1 - side]);
    if (!found) continue;
    RopeFactors result;
    if (found->tokens) result.tokens = *found->tokens + type.rank() - operand.rank();
    if (result.tokens && type.dims[*result.tokens] != operand.dims[*found->tokens])
      return std::nullopt;
    const auto shape = shape_of_one_token(type.dims, result.tokens);
    if (!shape) return std::nullopt;
    // This also refuses frequencies that differ between tokens.
    for (std::size_t a = 1; a <= dims.size(); ++a)
      if (dims[dims.size() - a] != 1 && dims[dims.size() - a] != (*shape)[shape->size() - a])
        return std::nullopt;
    const std::vector<Dim> wide(shape->begin(), shape->end());
    const auto sources = [&](const std::vector<std::int64_t>& from) {
      return ir::element_sources({ir::expand_map({from.begin(), from.end()}, wide)}, {from},
                                 *shape);
    };
    const auto of_positions = sources(found->shape);
    const auto of_frequencies = sources({dims.begin(), dims.end()});
    if (!of_positions || !of_frequencies) return std::nullopt;
    const std::vector<double> values = ir::to_doubles(*frequencies);
    result.shape = *shape;
    for (std::size_t i = 0; i < of_positions->size(); ++i) {
      RopeFactor factor = found->elements[static_cast<std::size_t>((*of_positions)[i].element)];
      factor.kind = Kind::kAngle;
      factor.frequency = values[static_cast<std::size_t>((*of_frequencies)[i].element)];
      result.elements.push_back(std::move(factor));
    }
    return result;
  }
  return std::nullopt;
}

std::optional<RopeFactors> RopeFactorAnalysis::columns(const ir::Node& node,
                                                       const ir::TensorType& type) {
  const auto& gather = std::get<ir::Gather>(node.op);
  const ir::ConstantPtr table = stored_table(rw_, node.inputs[0]);
  constexpr std::int64_t kMaxColumnElements = std::int64_t{1} << 24;
  if (gather.axis != 0 || !table || table->dims().size() != 2 ||
      table->element() != ir::ElementType::kF32 || table->dims()[1] > kMaxColumns ||
      table->dims()[1] < 1 || table->element_count() > kMaxColumnElements)
    return std::nullopt;
  const RopeFactors* found = positions(node.inputs[1]);
  if (!found) return std::nullopt;
  const auto shape = shape_of_one_token(type.dims, found->tokens);
  if (!shape) return std::nullopt;
  std::vector<std::int64_t>& first = columns_[table];
  if (first.empty()) first = canonical_columns(*table);
  RopeFactors result{*shape, found->tokens, {}};
  for (RopeFactor factor : found->elements)
    for (const std::int64_t column : first) {
      factor.kind = Kind::kColumn;
      factor.table = table;
      factor.column = column;
      result.elements.push_back(factor);
    }
  return result;
}

std::optional<RopeFactors> RopeFactorAnalysis::view(const ir::Node& node, ValueId value) {
  const auto views = maps(node, rw_.slot(value));
  const std::vector<Dim>& to = rw_.type(value).dims;
  RopeFactors result;
  std::vector<std::vector<std::int64_t>> shapes;
  for (const ir::IndexMap& map : views) {
    const ValueId operand = node.inputs[map.operand];
    const RopeFactors* from = find(operand);
    if (!from) return std::nullopt;
    const auto tokens =
        from->tokens ? moved_tokens(map, rw_.type(operand).dims, to, *from->tokens) : std::nullopt;
    if (from->tokens.has_value() != tokens.has_value()) return std::nullopt;
    if (!shapes.empty() && tokens != result.tokens) return std::nullopt;
    result.tokens = tokens;
    shapes.push_back(from->shape);
  }
  const auto shape = shape_of_one_token(to, result.tokens);
  const auto sources =
      shape && !views.empty() ? ir::element_sources(views, shapes, *shape) : std::nullopt;
  if (!sources) return std::nullopt;
  result.shape = *shape;
  for (const ir::ElementSource& source : *sources)
    result.elements.push_back(
        find(node.inputs[source.operand])->elements[static_cast<std::size_t>(source.element)]);
  return result;
}

const RopeFactors* RopeFactorAnalysis::find(ValueId value) {
  if (!value.exists()) return nullptr;
  auto it = known_.find(value);
  if (it == known_.end()) {
    known_[value] = std::nullopt;
    ++depth_;
    auto computed = depth_ <= kMaxDepth ? compute(value) : std::nullopt;
    --depth_;
    it = known_.insert_or_assign(value, std::move(computed)).first;
  }
  return it->second ? &*it->second : nullptr;
}

std::optional<RopeFactors> RopeFactorAnalysis::compute(ValueId value) {
  const ir::Node* node = rw_.producer(value);
  const ir::TensorType& type = rw_.type(value);
  if (is_position_axes(rw_, value)) {
    const std::int64_t axes = *type.dims[0].constant();
    RopeFactors result{{axes, 1}, 1, {}};
    for (std::int64_t axis = 0; axis < axes; ++axis)
      result.elements.push_back(position_factor(value, axis));
    return result;
  }
  if (!node) return one_position(value);
  if (type.element == ir::ElementType::kF32 && type.rank() > 0) {
    if (auto found = angles(*node, type)) return found;
    if (std::holds_alternative<ir::Gather>(node->op))
      if (auto found = columns(*node, type)) return found;
  }
  const auto* un = std::get_if<ir::Unary>(&node->op);
  const bool cosine = un && un->kind == ir::UnaryKind::kCos;
  if (cosine || (un && un->kind == ir::UnaryKind::kSin)) {
    const RopeFactors* angle = find(node->inputs[0]);
    if (!angle) return std::nullopt;
    RopeFactors result = *angle;
    for (RopeFactor& factor : result.elements) {
      if (factor.kind != Kind::kAngle) return std::nullopt;
      factor.kind = cosine ? Kind::kCos : Kind::kSin;
    }
    return result;
  }
  const auto* cast = std::get_if<ir::Cast>(&node->op);
  if (cast && (cast->to == ir::ElementType::kF32 || cast->to == ir::ElementType::kI64 ||
               cast->to == ir::ElementType::kI32))
    if (const RopeFactors* from = positions(node->inputs[0])) return *from;
  if (ir::is_view(node->op))
    if (auto found = view(*node, value)) return found;
  return one_position(value);
}

}  // namespace llmc::passes
