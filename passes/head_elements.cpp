#include "passes/head_elements.h"

#include <algorithm>

namespace llmc::passes {

namespace {

using Kind = RopeFactor::Kind;
using ir::Dim;
using ir::ValueId;

/// Returns the number of dims other than 1.
std::size_t count_non_ones(const std::vector<Dim>& dims) {
  return static_cast<std::size_t>(
      std::ranges::count_if(dims, [](const Dim& d) { return d.constant() != 1; }));
}

/// Returns a float constant whose dims are 1 except along `axis`, counted from the last axis (0);
/// otherwise nullopt.
std::optional<std::vector<double>> vector_constant(const Rewriter& rw, ValueId value,
                                                   std::size_t axis) {
  const ir::ConstantPtr data = rw.constant(value);
  if (!data || !ir::is_float(data->element()) ||
      data->element_count() > HeadElementAnalysis::kMaxHeadDim)
    return std::nullopt;
  const auto& dims = data->dims();
  if (dims.size() <= axis || data->element_count() != dims[dims.size() - 1 - axis])
    return std::nullopt;
  return ir::to_doubles(*data);
}

/// Returns for each column c of a table [rows, n] the first of the columns c-n/2, c-1 (for odd c)
/// and c whose elements equal those of c, because exporters repeat halves or pairs.
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

/// Returns the constant [rows, n] of a table. Views with dims of 1 and a slice of the first rows
/// are ignored. Returns nullptr for other producers.
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
    if (above == value || count_non_ones(rw.type(above).dims) != 2) return nullptr;
    value = above;
  }
  return nullptr;
}

}  // namespace

std::optional<ValueId> HeadElementAnalysis::positions(ValueId value) const {
  value = strip_views(rw_, value);
  while (const auto* cast = rw_.op<ir::Cast>(value)) {
    const bool exact = cast->to == ir::ElementType::kF32 || cast->to == ir::ElementType::kI64;
    if (!exact) return std::nullopt;
    value = strip_views(rw_, rw_.producer(value)->inputs[0]);
  }
  const ir::TensorType& type = rw_.type(value);
  if (type.element != ir::ElementType::kI64 || count_non_ones(type.dims) > 1) return std::nullopt;
  return value;
}

/// Matches positions * frequencies, an outer product by Mul or MatMul, with the token axis before
/// the frequency axis.
std::optional<HeadElements> HeadElementAnalysis::angles(const ir::Node& node,
                                                        const ir::TensorType& type) {
  const ir::Node* product = &node;
  bool turned = false;
  if (const auto* transpose = std::get_if<ir::Transpose>(&node.op)) {
    // [.., n, S] with the last two dims swapped.
    const std::size_t r = transpose->perm.size();
    if (r < 2 || transpose->perm[r - 1] + 1 != transpose->perm[r - 2] ||
        transpose->perm[r - 2] + 1 != static_cast<std::int64_t>(r))
      return std::nullopt;
    product = rw_.producer(node.inputs[0]);
    turned = true;
  }
  const auto* mul = ir::op_as<ir::Binary>(product);
  if (!ir::op_as<ir::MatMul>(product) && !(mul && mul->kind == ir::BinaryKind::kMul))
    return std::nullopt;
  for (std::size_t side = 0; side < 2; ++side) {
    const ValueId constant = product->inputs[side], tokens = product->inputs[1 - side];
    const auto frequencies = vector_constant(rw_, constant, turned ? 1 : 0);
    const auto found = frequencies ? positions(tokens) : std::nullopt;
    if (!found || rw_.type(tokens).element != ir::ElementType::kF32) continue;
    // The result must be the outer product, without further broadcasting.
    const auto n = static_cast<std::int64_t>(frequencies->size());
    std::vector<Dim> lead(type.dims.begin(), type.dims.end() - 1);
    if (type.dims.back() != Dim(n) || count_non_ones(lead) > 1) return std::nullopt;
    if (count_non_ones(lead) != count_non_ones(rw_.type(tokens).dims)) return std::nullopt;
    // The axis of the frequencies must have one element in the tokens' operand.
    const auto& token_dims = rw_.type(tokens).dims;
    const std::size_t back = turned ? 2 : 1;
    if (token_dims.size() >= back && token_dims[token_dims.size() - back].constant() != 1)
      return std::nullopt;
    if (token_dims.size() < back && !turned) return std::nullopt;
    HeadElements result{{n}, {}};
    for (double f : *frequencies)
      result.elements.push_back({RopeTerm{false, -1, {Kind::kAngle, *found, f, nullptr, 0}}});
    return result;
  }
  return std::nullopt;
}

std::optional<HeadElements> HeadElementAnalysis::columns(const ir::Node& node) {
  const auto& gather = std::get<ir::Gather>(node.op);
  const ir::ConstantPtr table = stored_table(rw_, node.inputs[0]);
  constexpr std::int64_t kMaxTableElements = std::int64_t{1} << 24;
  if (gather.axis != 0 || !table || table->dims().size() != 2 ||
      table->element() != ir::ElementType::kF32 || table->dims()[1] > kMaxHeadDim ||
      table->dims()[1] < 1 || table->element_count() > kMaxTableElements)
    return std::nullopt;
  const auto found = positions(node.inputs[1]);
  if (!found || rw_.constant(node.inputs[1])) return std::nullopt;
  if (count_non_ones(rw_.type(node.inputs[1]).dims) > 1) return std::nullopt;
  std::vector<std::int64_t>& first = columns_[table];
  if (first.empty()) first = canonical_columns(*table);
  HeadElements result{{table->dims()[1]}, {}};
  for (std::int64_t c : first)
    result.elements.push_back({RopeTerm{false, -1, {Kind::kColumn, *found, 0, table, c}}});
  return result;
}

const HeadElements* HeadElementAnalysis::factors(ValueId value) {
  if (!value.exists()) return nullptr;
  auto it = factors_.find(value);
  if (it == factors_.end()) {
    factors_[value] = std::nullopt;
    ++depth_;
    auto computed = depth_ <= kMaxDepth ? compute_factors(value) : std::nullopt;
    --depth_;
    it = factors_.insert_or_assign(value, std::move(computed)).first;
  }
  return it->second ? &*it->second : nullptr;
}

std::optional<HeadElements> HeadElementAnalysis::compute_factors(ValueId value) {
  const ir::Node* node = rw_.producer(value);
  const ir::TensorType& type = rw_.type(value);
  if (!node || type.element != ir::ElementType::kF32 || type.rank() == 0) return std::nullopt;
  if (auto found = angles(*node, type)) return found;
  if (std::holds_alternative<ir::Gather>(node->op))
    if (auto found = columns(*node)) return found;
  if (const auto* un = std::get_if<ir::Unary>(&node->op)) {
    const bool cosine = un->kind == ir::UnaryKind::kCos;
    if (!cosine && un->kind != ir::UnaryKind::kSin) return std::nullopt;
    const HeadElements* angle = factors(node->inputs[0]);
    if (!angle) return std::nullopt;
    HeadElements result = *angle;
    for (RopeForm& form : result.elements) {
      if (form.size() != 1 || form[0].factor.kind != Kind::kAngle) return std::nullopt;
      form[0].factor.kind = cosine ? Kind::kCos : Kind::kSin;
    }
    return result;
  }
  if (!ir::is_view(node->op)) return std::nullopt;
  std::vector<const HeadElements*> in;
  const std::size_t operands =
      std::holds_alternative<ir::Concat>(node->op) ? node->inputs.size() : 1;
  for (std::size_t i = 0; i < operands; ++i) {
    const HeadElements* known = factors(node->inputs[i]);
    if (!known) return std::nullopt;
    in.push_back(known);
  }
  return view_elements(rw_, *node, rw_.slot(value), in, false);
}

void HeadElementAnalysis::start(ValueId x) {
  x_ = x;
  sequence_axis_.reset();
  from_x_.clear();
  const std::int64_t n = *last_dim(rw_, x);
  HeadElements result{{n}, {}};
  for (std::int64_t i = 0; i < n; ++i) result.elements.push_back({RopeTerm{false, i, {}}});
  from_x_.emplace(x, std::move(result));
}

const HeadElements* HeadElementAnalysis::made_from_x(ValueId value) const {
  const auto it = from_x_.find(value);
  return it == from_x_.end() ? nullptr : &it->second;
}

/// Matches the product of elements of x and factors. The tokens of the factors must be axis 1 or 2
/// of x.
std::optional<std::vector<HeadElements>> HeadElementAnalysis::product(const ir::Node& node) {
  for (std::size_t side = 0; side < 2; ++side) {
    const HeadElements* x = made_from_x(node.inputs[side]);
    const HeadElements* f = x ? factors(node.inputs[1 - side]) : nullptr;
    if (!f || x->shape.size() != f->shape.size()) continue;
    const std::vector<Dim>& fd = rw_.type(node.inputs[1 - side]).dims;
    const std::vector<Dim>& xd = rw_.type(x_).dims;
    const std::size_t lead = fd.size() - f->shape.size();
    if (lead > 3) return std::nullopt;
    std::optional<std::size_t> axis;
    for (std::size_t a = 0; a < lead; ++a)
      if (fd[a].constant() != 1) axis = a + 3 - lead;
    // With one token, the token axis is the axis with one element.
    if (!axis && xd[1].constant() == 1) axis = 1;
    if (!axis && xd[2].constant() == 1) axis = 2;
    if (!axis || *axis == 0 || (sequence_axis_ && sequence_axis_ != axis)) return std::nullopt;
    const std::size_t in_factor = *axis + lead;
    if (in_factor >= 3 && fd[in_factor - 3] != xd[*axis]) return std::nullopt;
    sequence_axis_ = axis;

    HeadElements result;
    std::size_t total = 1;
    for (std::size_t a = 0; a < x->shape.size(); ++a) {
      const std::int64_t n = std::max(x->shape[a], f->shape[a]);
      if ((x->shape[a] != n && x->shape[a] != 1) || (f->shape[a] != n && f->shape[a] != 1))
        return std::nullopt;
      result.shape.push_back(n);
      total *= static_cast<std::size_t>(n);
    }
    if (total > static_cast<std::size_t>(kMaxHeadDim)) return std::nullopt;
    for (std::size_t flat = 0; flat < total; ++flat) {
      std::size_t rest = flat, xi = 0, fi = 0, x_stride = 1, f_stride = 1;
      for (std::size_t a = result.shape.size(); a-- > 0;) {
        const std::size_t at = rest % static_cast<std::size_t>(result.shape[a]);
        rest /= static_cast<std::size_t>(result.shape[a]);
        if (x->shape[a] != 1) xi += at * x_stride;
        if (f->shape[a] != 1) fi += at * f_stride;
        x_stride *= static_cast<std::size_t>(x->shape[a]);
        f_stride *= static_cast<std::size_t>(f->shape[a]);
      }
      RopeForm form = x->elements[xi];
      const RopeFactor& factor = f->elements[fi][0].factor;
      if (form.size() != 1 || form[0].factor.kind != Kind::kOne || factor.kind == Kind::kAngle)
        return std::nullopt;
      form[0].factor = factor;
      result.elements.push_back(std::move(form));
    }
    return std::vector{std::move(result)};
  }
  return std::nullopt;
}

bool HeadElementAnalysis::visit(const ir::Node& node) {
  std::optional<std::vector<HeadElements>> results;
  if (const auto* bin = std::get_if<ir::Binary>(&node.op)) {
    const HeadElements* a = made_from_x(node.inputs[0]);
    const HeadElements* b = made_from_x(node.inputs[1]);
    const bool subtract = bin->kind == ir::BinaryKind::kSub;
    if (bin->kind == ir::BinaryKind::kMul) {
      results = product(node);
    } else if ((subtract || bin->kind == ir::BinaryKind::kAdd) && a && b && a->shape == b->shape) {
      HeadElements sum = *a;
      for (std::size_t i = 0; i < sum.elements.size(); ++i) {
        if (sum.elements[i].size() + b->elements[i].size() > 2) return false;
        for (RopeTerm term : b->elements[i]) {
          term.negative = term.negative != subtract;
          sum.elements[i].push_back(std::move(term));
        }
      }
      results.emplace().push_back(std::move(sum));
    }
  } else if (const auto* un = std::get_if<ir::Unary>(&node.op)) {
    const HeadElements* x = made_from_x(node.inputs[0]);
    if (un->kind != ir::UnaryKind::kNeg || !x) return false;
    HeadElements negated = *x;
    for (RopeForm& form : negated.elements)
      for (RopeTerm& term : form) term.negative = !term.negative;
    results.emplace().push_back(std::move(negated));
  } else if (ir::is_view(node.op) && !std::holds_alternative<ir::Transpose>(node.op)) {
    std::vector<const HeadElements*> in;
    const std::size_t operands =
        std::holds_alternative<ir::Concat>(node.op) ? node.inputs.size() : 1;
    for (std::size_t i = 0; i < operands; ++i) in.push_back(made_from_x(node.inputs[i]));
    if (std::ranges::find(in, nullptr) != in.end()) return false;
    results.emplace();
    for (std::size_t slot = 0; slot < node.outputs.size(); ++slot) {
      auto moved = view_elements(rw_, node, slot, in, true);
      if (!moved) return false;
      results->push_back(std::move(*moved));
    }
  }
  if (!results) return false;
  for (std::size_t slot = 0; slot < results->size(); ++slot)
    from_x_[node.outputs[slot]] = std::move((*results)[slot]);
  return true;
}

std::optional<Rotation> match_rotation(const std::vector<RopeForm>& elements) {
  const auto n = static_cast<std::int64_t>(elements.size());
  // y_i = +x_i * cosine +- x_j * sine; the cosine is the factor of the element's own x.
  struct Parts {
    RopeFactor cosine, sine;
    std::int64_t other = 0;
    bool negative = false;
  };
  std::vector<Parts> parts;
  for (std::int64_t i = 0; i < n; ++i) {
    RopeForm form = elements[static_cast<std::size_t>(i)];
    if (form.size() != 2) break;
    if (form[1].x == i) std::swap(form[0], form[1]);
    if (form[0].x != i || form[0].negative || form[1].x == i || form[1].x < 0) return std::nullopt;
    parts.push_back({form[0].factor, form[1].factor, form[1].x, form[1].negative});
  }
  Rotation rotation;
  const auto rotary = static_cast<std::int64_t>(parts.size());
  if (rotary < 2 || rotary % 2 != 0) return std::nullopt;
  for (std::int64_t i = rotary; i < n; ++i) {
    const RopeForm& form = elements[static_cast<std::size_t>(i)];
    if (form.size() != 1 || form[0].x != i || form[0].negative || form[0].factor.kind != Kind::kOne)
      return std::nullopt;
  }
  rotation.rotary_dim = rotary;
  rotation.interleaved = rotary > 2 && parts[0].other == 1;
  rotation.positions = parts[0].cosine.positions;
  for (std::int64_t p = 0; p < rotary / 2; ++p) {
    const std::int64_t i = rotation.interleaved ? 2 * p : p;
    const std::int64_t j = rotation.interleaved ? 2 * p + 1 : p + rotary / 2;
    const Parts& a = parts[static_cast<std::size_t>(i)];
    const Parts& b = parts[static_cast<std::size_t>(j)];
    if (a.other != j || b.other != i || !a.negative || b.negative) return std::nullopt;
    if (a.cosine != b.cosine || a.sine != b.sine) return std::nullopt;
    if (a.cosine.positions != rotation.positions || a.sine.positions != rotation.positions)
      return std::nullopt;
    const bool angles = a.cosine.kind == Kind::kCos && a.sine.kind == Kind::kSin &&
                        a.cosine.frequency == a.sine.frequency;
    const bool columns = a.cosine.kind == Kind::kColumn && a.sine.kind == Kind::kColumn;
    if (!angles && !columns) return std::nullopt;
    if (a.cosine.kind != parts[0].cosine.kind) return std::nullopt;
    rotation.cosines.push_back(a.cosine);
    rotation.sines.push_back(a.sine);
  }
  return rotation;
}

}  // namespace llmc::passes
