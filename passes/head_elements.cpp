#include "passes/head_elements.h"

#include <algorithm>

namespace llmc::passes {

namespace {

using Kind = RopeFactor::Kind;
using ir::Dim;
using ir::ValueId;

constexpr std::int64_t kMaxViewElements = 1 << 14;

/// Returns whether rotations multiply elements by factors of this kind.
bool is_applied(const RopeFactor& factor) {
  return factor.kind != Kind::kPosition && factor.kind != Kind::kAngle;
}

/// Returns whether the leading axes of an operand are those of the result.
bool keeps_leading_axes(const ir::IndexMap& map, const std::vector<Dim>& from,
                        const std::vector<Dim>& to, std::size_t from_lead, std::size_t to_lead) {
  if (from_lead != to_lead) return false;
  for (std::size_t a = 0; a < from_lead; ++a)
    if (from[a] != to[a] || (from[a] != Dim(1) && map.axes[a].result_axis() != a)) return false;
  return true;
}

/// Returns the elements of result `slot` of a view (ir/index_map.h). `in` contains the elements of
/// each operand: all those of a Concat, one for other views. Returns nullopt if the view changes
/// leading dims, or mixes them with elements.
std::optional<HeadElements> view_elements(const Rewriter& rw, const ir::Node& node,
                                          std::size_t slot,
                                          const std::vector<const HeadElements*>& in) {
  const auto maps = index_maps(rw, node, slot);
  if (maps.empty() || maps.size() != in.size()) return std::nullopt;
  const std::vector<Dim>& to = rw.type(node.outputs[slot]).dims;
  // Find the smallest number of trailing axes of the result that contain all elements.
  HeadElements result;
  std::int64_t count = 1;
  for (std::size_t lead = to.size(); lead-- > 0;) {
    const auto dim = to[lead].constant();
    if (!dim || *dim <= 0 || *dim > kMaxViewElements / count) return std::nullopt;
    count *= *dim;
    result.shape.insert(result.shape.begin(), *dim);
    std::vector<ir::IndexMap> inner;
    std::vector<std::vector<std::int64_t>> shapes;
    for (const ir::IndexMap& map : maps) {
      const std::vector<Dim>& from = rw.type(node.inputs[map.operand]).dims;
      const std::size_t from_lead = from.size() - in[map.operand]->shape.size();
      auto last = ir::inner_axes(map, from_lead, lead);
      if (!last || !keeps_leading_axes(map, from, to, from_lead, lead)) break;
      inner.push_back(std::move(*last));
      shapes.push_back(in[map.operand]->shape);
    }
    if (inner.size() != maps.size()) continue;
    const auto sources = ir::element_sources(inner, shapes, result.shape);
    if (!sources) return std::nullopt;
    for (const ir::ElementSource& source : *sources)
      result.elements.push_back(
          in[source.operand]->elements[static_cast<std::size_t>(source.element)]);
    return result;
  }
  return std::nullopt;
}

}  // namespace

void HeadElementAnalysis::start(ValueId x) {
  x_ = x;
  sequence_axis_.reset();
  from_x_.clear();
  const std::int64_t n = *last_dim(rw_, x);
  HeadElements result{{n}, {}};
  for (std::int64_t i = 0; i < n; ++i) result.elements.push_back({RopeTerm{false, i, {}}});
  from_x_.emplace(x, std::move(result));
}

const HeadElements* HeadElementAnalysis::elements_of(ValueId value) const {
  const auto it = from_x_.find(value);
  return it == from_x_.end() ? nullptr : &it->second;
}

/// Matches the product of elements of x and factors. The tokens of the factors must be axis 1 or 2
/// of x.
std::optional<std::vector<HeadElements>> HeadElementAnalysis::product(const ir::Node& node) {
  for (std::size_t side = 0; side < 2; ++side) {
    const HeadElements* x = elements_of(node.inputs[side]);
    const RopeFactors* f = x ? factors(node.inputs[1 - side]) : nullptr;
    if (!f || f->shape.size() < x->shape.size()) continue;
    const std::vector<Dim>& fd = rw_.type(node.inputs[1 - side]).dims;
    const std::vector<Dim>& xd = rw_.type(x_).dims;
    const std::size_t lead = f->shape.size() - x->shape.size();
    if (lead > 3 || (f->tokens && *f->tokens >= lead)) return std::nullopt;
    if (std::any_of(f->shape.begin(), f->shape.begin() + static_cast<std::ptrdiff_t>(lead),
                    [](std::int64_t n) { return n != 1; }))
      return std::nullopt;
    std::optional<std::size_t> axis;
    if (f->tokens) axis = *f->tokens + 3 - lead;
    // With one token, the token axis is the axis with one element.
    if (!axis && xd[1].constant() == 1) axis = 1;
    if (!axis && xd[2].constant() == 1) axis = 2;
    if (!axis || *axis == 0 || (sequence_axis_ && sequence_axis_ != axis)) return std::nullopt;
    const std::size_t in_factor = *axis + lead;
    if (in_factor >= 3 && fd[in_factor - 3] != xd[*axis]) return std::nullopt;
    sequence_axis_ = axis;

    const std::vector<std::int64_t> factor_shape(
        f->shape.begin() + static_cast<std::ptrdiff_t>(lead), f->shape.end());
    HeadElements result;
    std::size_t total = 1;
    for (std::size_t a = 0; a < x->shape.size(); ++a) {
      const std::int64_t n = std::max(x->shape[a], factor_shape[a]);
      if ((x->shape[a] != n && x->shape[a] != 1) || (factor_shape[a] != n && factor_shape[a] != 1))
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
        if (factor_shape[a] != 1) fi += at * f_stride;
        x_stride *= static_cast<std::size_t>(x->shape[a]);
        f_stride *= static_cast<std::size_t>(factor_shape[a]);
      }
      RopeForm form = x->elements[xi];
      const RopeFactor& factor = f->elements[fi];
      if (form.size() != 1 || form[0].factor.kind != Kind::kOne || !is_applied(factor))
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
    const HeadElements* a = elements_of(node.inputs[0]);
    const HeadElements* b = elements_of(node.inputs[1]);
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
    const HeadElements* x = elements_of(node.inputs[0]);
    if (un->kind != ir::UnaryKind::kNeg || !x) return false;
    HeadElements negated = *x;
    for (RopeForm& form : negated.elements)
      for (RopeTerm& term : form) term.negative = !term.negative;
    results.emplace().push_back(std::move(negated));
  } else if (ir::is_view(node.op) && !std::holds_alternative<ir::Transpose>(node.op)) {
    std::vector<const HeadElements*> in;
    const std::size_t operands =
        std::holds_alternative<ir::Concat>(node.op) ? node.inputs.size() : 1;
    for (std::size_t i = 0; i < operands; ++i) in.push_back(elements_of(node.inputs[i]));
    if (std::ranges::find(in, nullptr) != in.end()) return false;
    results.emplace();
    for (std::size_t slot = 0; slot < node.outputs.size(); ++slot) {
      auto moved = view_elements(rw_, node, slot, in);
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
    if (form[0].x != i || form[0].negative || form[1].x == i) return std::nullopt;
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
    if (a.cosine.positions != rotation.positions || a.sine.positions != rotation.positions ||
        a.cosine.axis != a.sine.axis)
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
