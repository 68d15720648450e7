#include <algorithm>

#include "compiler/support/check.h"
#include "passes/match.h"
#include "passes/product_weights.h"
#include "passes/transforms.h"

namespace llmc::passes {

namespace {

using ir::Dim;
using ir::ValueId;

/// Index along one axis of a value: start + token * t + head * h + element * e, for element e of
/// head h of token t.
struct Form {
  std::int64_t start = 0, token = 0, head = 0, element = 0;
};

/// Elements begin <= e < end of each head, and where they are in `value`.
struct Part {
  ValueId value;
  std::vector<Form> axes;  // of `value`
  std::int64_t begin = 0, end = 0;
  bool is_zero = false;

  bool depends_on_head() const {
    return std::ranges::any_of(axes, [](const Form& f) { return f.head != 0; });
  }
};

/// Returns the forms of the operand's axes after the forms `result` of a view's result; nullopt
/// unless each operand index is a sum of multiples of result indices.
std::optional<std::vector<Form>> operand_forms(const ir::IndexMap& map,
                                               const std::vector<Form>& result) {
  std::vector<Form> forms;
  for (const ir::AxisIndex& axis : map.axes) {
    const auto start = axis.start.constant();
    if (!start || !axis.table.empty()) return std::nullopt;
    Form form{.start = *start};
    for (const ir::IndexTerm& term : axis.terms) {
      const auto step = term.step.constant();
      if (!step || !term.is_linear()) return std::nullopt;
      const Form& from = result[term.axis];
      form.start += *step * from.start;
      form.token += *step * from.token;
      form.head += *step * from.head;
      form.element += *step * from.element;
    }
    forms.push_back(form);
  }
  return forms;
}

/// Traces keys or values [1, S, heads, D] backwards through views, concatenations and padding,
/// until a part is the same for all heads or is computed by another operator.
class PartFinder {
 public:
  explicit PartFinder(const Rewriter& rw) : rw_(rw) {}

  /// Returns the parts in the order of their elements; empty if there are too many.
  std::vector<Part> find(ValueId heads, std::int64_t head_dim) {
    trace({heads, {{}, {.token = 1}, {.head = 1}, {.element = 1}}, 0, head_dim});
    if (visits_ > kMaxVisits) return {};
    std::ranges::sort(found_, {}, &Part::begin);
    return std::move(found_);
  }

 private:
  static constexpr int kMaxVisits = 256;

  void trace(Part part) {
    if (++visits_ > kMaxVisits) return;
    const ir::Node* node = rw_.producer(part.value);
    const bool stops =
        !node || !part.depends_on_head() || (!trace_pad(*node, part) && !trace_view(*node, part));
    if (stops) found_.push_back(std::move(part));
  }

  /// Returns false, without an effect, if the node is not a view with known maps.
  bool trace_view(const ir::Node& node, const Part& part) {
    if (!ir::is_view(node.op)) return false;
    const auto maps = index_maps(rw_, node, rw_.slot(part.value));
    std::vector<Part> next;
    for (const ir::IndexMap& map : maps) {
      Part moved{node.inputs[map.operand], {}, part.begin, part.end};
      auto forms = operand_forms(map, part.axes);
      if (!forms) return false;
      moved.axes = std::move(*forms);
      if (map.range && !limit(*map.range, part, moved)) return false;
      if (moved.begin < moved.end) next.push_back(std::move(moved));
    }
    for (Part& moved : next) trace(std::move(moved));
    return !maps.empty();
  }

  /// Limits `moved` to the elements whose index is in the range. Returns false if the index depends
  /// on the token or the head, or is not the element with an offset.
  static bool limit(const ir::IndexMap::Range& range, const Part& part, Part& moved) {
    const Form& form = part.axes[range.axis];
    const auto begin = range.begin.constant(), size = range.size.constant();
    if (!begin || !size || form.token != 0 || form.head != 0 || form.element != 1) return false;
    moved.begin = std::max(part.begin, *begin - form.start);
    moved.end = std::min(part.end, *begin + *size - form.start);
    return true;
  }

  /// Traces through a Pad with zeros after the last element of the last axis. Returns false,
  /// without an effect, for other nodes.
  bool trace_pad(const ir::Node& node, const Part& part) {
    const auto* pad = std::get_if<ir::Pad>(&node.op);
    if (!pad || pad->mode != ir::PadMode::kConstant || node.inputs.size() != 2) return false;
    const auto pads = integer_constant(rw_, node.inputs[1]);
    const auto size = last_dim(rw_, node.inputs[0]);
    const Form& form = part.axes.back();
    if (!pads || !size || pads->back() < 0 || form.head != 0 || form.token != 0 ||
        form.element != 1 ||
        std::any_of(pads->begin(), pads->end() - 1, [](auto p) { return p != 0; }))
      return false;
    const std::int64_t border = std::clamp(*size - form.start, part.begin, part.end);
    if (part.begin < border) trace({node.inputs[0], part.axes, part.begin, border});
    if (border < part.end) found_.push_back({part.value, part.axes, border, part.end, true});
    return true;
  }

  const Rewriter& rw_;
  std::vector<Part> found_;
  int visits_ = 0;
};

/// Elements of the heads that are elements of a matrix product c . W.
struct ProductPart {
  ValueId product, row;    // row: c[…, rank]
  ir::ConstantPtr matrix;  // float[columns of the product, rank]
};

std::optional<ProductPart> match_product(const Rewriter& rw, const Part& part, const Dim& tokens) {
  const ir::Node* node = rw.producer(part.value);
  if (!ir::op_as<ir::MatMul>(node) || !is_f32(rw, node->inputs[0], 2)) return std::nullopt;
  const ir::ConstantPtr matrix = matrix_constant(rw, node->inputs[1]);
  if (!matrix) return std::nullopt;
  // The last axis is the column, the axis before it the token; the others have one element.
  const auto& dims = rw.type(part.value).dims;
  const std::size_t rank = part.axes.size();
  for (std::size_t a = 0; a + 1 < rank; ++a) {
    const Form& form = part.axes[a];
    if (form.start != 0 || form.head != 0 || form.element != 0 ||
        form.token != (a + 2 == rank ? 1 : 0) || dims[a] != (a + 2 == rank ? tokens : Dim(1)))
      return std::nullopt;
  }
  if (part.axes.back().token != 0) return std::nullopt;
  return ProductPart{part.value, node->inputs[0], ir::transposed(matrix)};
}

/// Returns whether the part is a row of contiguous elements for each token, the same for all heads.
bool is_row(const Rewriter& rw, const Part& part, const Dim& tokens) {
  const auto& dims = rw.type(part.value).dims;
  std::size_t found = 0;  // axes of the tokens
  for (std::size_t a = 0; a + 1 < part.axes.size(); ++a) {
    const Form& form = part.axes[a];
    if (form.element != 0 || form.start != 0 || form.token < 0 || form.token > 1 ||
        dims[a] != (form.token == 1 ? tokens : Dim(1)))
      return false;
    found += form.token == 1 ? 1 : 0;
  }
  const Form& last = part.axes.back();
  return found == 1 && last.element == 1 && last.token == 0 && is_f32(rw, part.value, 2);
}

/// Keys or values of all heads, divided into parts in the order of the elements.
struct Heads {
  std::optional<ProductPart> product;
  std::vector<Part> products, rows;  // parts of the product; rows shared by all heads

  std::int64_t product_size() const { return size(products); }
  std::int64_t row_size() const { return size(rows); }
  /// Returns the rows of the matrix that compute the product's elements of head `h`, then -1 (rows
  /// of zeros) up to `count`.
  std::vector<std::int64_t> matrix_rows(std::int64_t h, std::int64_t count) const {
    std::vector<std::int64_t> indices;
    for (const Part& part : products) {
      const Form& form = part.axes.back();
      for (std::int64_t e = part.begin; e < part.end; ++e)
        indices.push_back(form.start + form.head * h + form.element * e);
    }
    indices.resize(static_cast<std::size_t>(count), -1);
    return indices;
  }

 private:
  static std::int64_t size(const std::vector<Part>& parts) {
    std::int64_t sum = 0;
    for (const Part& part : parts) sum += part.end - part.begin;
    return sum;
  }
};

/// Returns nullopt unless each element is one of a single product, one of a row shared by all
/// heads, or zero. `value`: [1, tokens, heads, head_dim].
std::optional<Heads> match_heads(const Rewriter& rw, ValueId value, std::int64_t head_dim) {
  const Dim tokens = rw.type(value).dims[1];
  Heads heads;
  for (const Part& part : PartFinder(rw).find(value, head_dim)) {
    if (part.is_zero) continue;
    if (!part.depends_on_head()) {
      if (!is_row(rw, part, tokens)) return std::nullopt;
      heads.rows.push_back(part);
      continue;
    }
    auto product = match_product(rw, part, tokens);
    if (!product || (heads.product && heads.product->product != product->product))
      return std::nullopt;
    heads.product = std::move(product);
    heads.products.push_back(part);
  }
  return heads.product ? std::optional(std::move(heads)) : std::nullopt;
}

struct LatentMatch {
  NodeIndex node = 0;
  Heads keys, values;
  std::int64_t rank = 0;        // elements of the cached row
  std::int64_t value_rows = 0;  // elements of a value head, rounded up to panels

  std::int64_t width() const { return rank + keys.row_size(); }
};

std::optional<LatentMatch> match_latent(const Rewriter& rw, NodeIndex i) {
  const ir::Node& node = rw.node(i);
  const auto& op = std::get<ir::Attention>(node.op);
  const ValueId past = node.inputs[3];
  if (rw.type(node.inputs[0]).dims[1] == Dim(0)) return std::nullopt;  // in a Reshape, 0 means copy
  if (op.kv_heads != op.heads || !rw.is_input(past) || rw.use_count(past) != 1 ||
      rw.use_count(node.outputs[1]) != 1 || !rw.is_output(node.outputs[1]))
    return std::nullopt;
  auto keys = match_heads(rw, node.inputs[1], op.head_dim);
  auto values = keys ? match_heads(rw, node.inputs[2], op.head_dim) : std::nullopt;
  if (!values || !values->rows.empty() || values->product->row != keys->product->row)
    return std::nullopt;
  // All other elements of a head, after those of the product, must be zeros.
  const std::int64_t used = values->product_size();
  if (values->products.back().end != used) return std::nullopt;
  LatentMatch found{i, std::move(*keys), std::move(*values), 0, 0};
  found.rank = found.keys.product->matrix->dims()[1];
  found.value_rows = (used + kExpertPanel - 1) / kExpertPanel * kExpertPanel;
  if (found.rank < 1 || found.rank % kExpertPanel != 0 || found.width() % kExpertPanel != 0 ||
      found.value_rows > op.head_dim || 2 * found.width() > op.kv_heads * op.head_dim)
    return std::nullopt;
  return found;
}

ValueId concat_last(Rewriter& rw, std::vector<ValueId> values, NodeIndex anchor) {
  if (values.size() == 1) return values[0];
  const auto axis = static_cast<std::int64_t>(rw.type(values[0]).rank()) - 1;
  return rw.emit(ir::Concat{axis}, std::move(values), anchor);
}

void rewrite(Rewriter& rw, const LatentMatch& match) {
  const NodeIndex at = match.node;
  const ir::Node node = rw.node(at);
  ir::Attention op = std::get<ir::Attention>(node.op);
  const std::vector<Dim> queries = rw.type(node.inputs[0]).dims;  // [1, S, heads, head_dim]
  const auto with_heads = [&](ValueId value, std::int64_t heads, std::int64_t dim) {
    const ValueId made = emit_reshape(rw, value, {Dim(1), queries[1], Dim(heads), Dim(dim)}, at);
    LLMC_CHECK(made.exists());  // the tokens are the only dim that is not a positive number
    return made;
  };
  const auto stacked = [&](auto matrix_of_head) {
    std::vector<ir::ConstantPtr> heads;
    for (std::int64_t h = 0; h < op.heads; ++h) heads.push_back(matrix_of_head(h));
    return ir::concat_rows(std::move(heads));
  };
  const auto name = [&](const Heads& heads) {
    return rw.name(rw.producer(heads.product->product)->inputs[1]);
  };

  std::vector<ValueId> parts;
  for (const Part& part : match.keys.products)
    parts.push_back(slice_last(rw, node.inputs[0], part.begin, part.end, at));
  const ValueId key_matrix = rw.emit_constant(
      stacked([&](std::int64_t h) {
        return ir::transposed(ir::reorder_rows(
            match.keys.product->matrix, match.keys.matrix_rows(h, match.keys.product_size())));
      }),
      at, name(match.keys) + " (keys)");
  std::vector<ValueId> q{rw.emit(ir::ExpertLinear{.experts = op.heads},
                                 {concat_last(rw, std::move(parts), at), key_matrix}, at)};
  std::vector<ValueId> k{with_heads(match.keys.product->row, 1, match.rank)};
  for (const Part& part : match.keys.rows) {
    q.push_back(slice_last(rw, node.inputs[0], part.begin, part.end, at));
    const std::int64_t start = part.axes.back().start;
    const ValueId row = slice_last(rw, part.value, start + part.begin, start + part.end, at);
    k.push_back(with_heads(row, 1, part.end - part.begin));
  }
  const ValueId cached = concat_last(rw, std::move(k), at);

  const std::int64_t head_dim = op.head_dim;
  op.kv_heads = 1;
  op.head_dim = match.width();
  ir::TensorType past = rw.type(node.inputs[3]);
  past.dims[op.cache_layout == ir::CacheLayout::kHeadsFirst ? 2 : 3] = Dim(1);
  past.dims[4] = Dim(op.head_dim);
  rw.set_input_type(node.inputs[3], past);
  std::vector<ValueId> inputs = node.inputs;
  inputs[0] = concat_last(rw, std::move(q), at);
  inputs[1] = inputs[2] = cached;
  const auto outputs = rw.emit_all(op, std::move(inputs), at);

  const ValueId by_head = with_heads(outputs[0], op.heads, op.head_dim);
  const ValueId value_matrix =
      rw.emit_constant(stacked([&](std::int64_t h) {
                         return ir::reorder_rows(match.values.product->matrix,
                                                 match.values.matrix_rows(h, match.value_rows));
                       }),
                       at, name(match.values) + " (values)");
  const ValueId y = rw.emit(ir::ExpertLinear{.experts = op.heads},
                            {slice_last(rw, by_head, 0, match.rank, at), value_matrix}, at);
  const ValueId padded = pad_last(rw, y, head_dim, at);
  const ValueId result = emit_reshape(rw, padded, rw.type(node.outputs[0]).dims, at);
  LLMC_CHECK(result.exists());
  rw.replace(node.outputs[0], result);
  rw.replace(node.outputs[1], outputs[1]);
}

}  // namespace

Result<ir::Graph> latent_cache(ir::Graph graph, const PassContext&) {
  Rewriter rw(std::move(graph));
  std::vector<LatentMatch> matches;
  std::int64_t width = 0;
  bool all = true;  // all attentions of a decoder must have caches of one shape
  for (const NodeIndex i : rw.nodes<ir::Attention>()) {
    auto found = match_latent(rw, i);
    all = found && (width == 0 || width == found->width());
    if (!all) break;
    width = found->width();
    matches.push_back(std::move(*found));
  }
  if (all)
    for (const LatentMatch& found : matches) rewrite(rw, found);
  return std::move(rw).finish();
}

}  // namespace llmc::passes
