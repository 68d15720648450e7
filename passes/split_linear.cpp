#include "passes/split_linear.h"

#include <algorithm>
#include <numeric>

#include "passes/match.h"

namespace llmc::passes {

namespace {

using ir::Dim;
using ir::ValueId;

constexpr std::int64_t kMaxRows = std::int64_t{1} << 24;

/// A result of a node that takes elements along one axis of its operand.
struct Selection {
  ValueId result;
  std::size_t axis = 0;
  std::vector<std::int64_t> picks;
};

/// Selections of a node; empty when it is no such node, or its bounds are not known.
std::vector<Selection> match_selections(const Rewriter& rw, const ir::Node& node) {
  const auto& dims = rw.type(node.inputs[0]).dims;
  std::vector<Selection> found;
  const auto range = [](std::int64_t begin, std::int64_t count) {
    std::vector<std::int64_t> picks(static_cast<std::size_t>(count));
    std::iota(picks.begin(), picks.end(), begin);
    return picks;
  };
  if (const auto* split = std::get_if<ir::Split>(&node.op)) {
    const auto axis = axis_from_front(split->axis, dims.size());
    std::int64_t begin = 0;
    for (std::size_t s = 0; axis && s < split->sizes.size(); ++s) {
      if (split->sizes[s] < 1 || split->sizes[s] > kMaxRows) return {};
      found.push_back({node.outputs[s], *axis, range(begin, split->sizes[s])});
      begin += split->sizes[s];
    }
    return found;
  }
  if (const auto* gather = std::get_if<ir::Gather>(&node.op)) {
    const auto axis = axis_from_front(gather->axis, dims.size());
    const auto size = axis ? dims[*axis].constant() : std::nullopt;
    auto picks = integer_constant(rw, node.inputs[1]);
    if (!size || !picks || picks->empty() || rw.type(node.inputs[1]).rank() > 1) return {};
    for (std::int64_t& pick : *picks) {
      if (pick < 0) pick += *size;
      if (pick < 0 || pick >= *size) return {};
    }
    return {{node.outputs[0], *axis, std::move(*picks)}};
  }
  if (!std::holds_alternative<ir::Slice>(node.op)) return {};
  const auto operand = [&](std::size_t i, std::int64_t fallback) {
    if (i >= node.inputs.size() || !node.inputs[i].exists()) return std::optional(fallback);
    const auto values = integer_constant(rw, node.inputs[i]);
    return values && values->size() == 1 ? std::optional(values->front()) : std::nullopt;
  };
  const auto start = operand(1, 0), end = operand(2, 0), where = operand(3, 0),
             step = operand(4, 1);
  const auto axis = where ? axis_from_front(*where, dims.size()) : std::nullopt;
  const auto size = axis ? dims[*axis].constant() : std::nullopt;
  if (!start || !end || !size || !step || *step < 1 || *size > kMaxRows) return {};
  const auto clamp = [&](std::int64_t v) {
    return std::clamp<std::int64_t>(v < 0 ? v + *size : v, 0, *size);
  };
  std::vector<std::int64_t> picks;
  for (std::int64_t p = clamp(*start); p < clamp(*end); p += std::min(*step, *size))
    picks.push_back(p);
  if (picks.empty()) return {};
  return {{node.outputs[0], *axis, std::move(picks)}};
}

/// Where in `dims` the columns of a product of `n` columns begin: the last dims whose product is n.
std::optional<std::size_t> first_column_axis(const std::vector<Dim>& dims, std::int64_t n) {
  std::int64_t product = 1;
  for (std::size_t a = dims.size(); a-- > 0;) {
    const auto size = dims[a].constant();
    if (!size || *size < 1 || *size > n) return std::nullopt;
    product *= *size;
    if (product == n) return a;
    if (product > n) return std::nullopt;
  }
  return std::nullopt;
}

/// The columns, in order, that a selection along `axis` leaves of dims[first …].
std::vector<std::int64_t> columns_of(const std::vector<Dim>& dims, std::size_t first,
                                     const Selection& selection) {
  std::int64_t outer = 1, inner = 1;
  for (std::size_t a = first; a < dims.size(); ++a) {
    if (a < selection.axis) outer *= *dims[a].constant();
    if (a > selection.axis) inner *= *dims[a].constant();
  }
  const std::int64_t size = *dims[selection.axis].constant();
  std::vector<std::int64_t> columns;
  for (std::int64_t o = 0; o < outer; ++o)
    for (const std::int64_t pick : selection.picks)
      for (std::int64_t i = 0; i < inner; ++i) columns.push_back((o * size + pick) * inner + i);
  return columns;
}

bool is_plain(const Rewriter& rw, ValueId value) {
  const auto* linear = rw.op<ir::Linear>(value);
  if (!linear || linear->function != ir::ActivationFn::kNone || linear->gated ||
      linear->norm_epsilon)
    return false;
  const auto& inputs = rw.producer(value)->inputs;
  return inputs.size() < 5 && rw.constant(inputs[1]);
}

void split(Rewriter& rw, NodeIndex i) {
  const ValueId y = rw.node(i).outputs[0];
  if (!is_plain(rw, y) || rw.is_output(y)) return;
  // Every reader, through one view each, has to be a selection.
  struct Reader {
    Selection selection;
    std::vector<Dim> dims;
    std::size_t first = 0;
    NodeIndex node = 0;
  };
  std::vector<Reader> readers;
  const std::int64_t n = last_dim(rw, y).value_or(0);
  if (n < 2 || n > kMaxRows) return;
  const auto read = [&](ValueId value) {
    const std::vector<Dim> dims = rw.type(value).dims;
    const auto first = first_column_axis(dims, n);
    if (!first || rw.is_output(value) || rw.users(value).empty()) return false;
    for (NodeIndex user : rw.users(value)) {
      auto selections = match_selections(rw, rw.node(user));
      if (selections.empty()) return false;
      for (auto& s : selections) {
        if (s.axis < *first) return false;
        readers.push_back({std::move(s), dims, *first, user});
      }
    }
    return true;
  };
  for (NodeIndex user : rw.users(y)) {
    const ir::Node& node = rw.node(user);
    const ValueId made = node.outputs[0];
    const bool view = node.inputs[0] == y && strip_views(rw, made) != made;
    if (view ? !read(made) : !(match_selections(rw, node).size() > 0)) return;
  }
  const bool direct = std::ranges::any_of(rw.users(y), [&](NodeIndex user) {
    const ValueId made = rw.node(user).outputs[0];
    return strip_views(rw, made) == made;
  });
  if (direct) {
    const bool mixed = !readers.empty();
    if (mixed || !read(y)) return;
  }
  const ir::Linear op = *rw.op<ir::Linear>(y);
  const std::vector<ValueId> old = rw.producer(y)->inputs;
  const ir::ConstantPtr weight = rw.constant(old[1]);
  const ir::ConstantPtr bias = old.size() > 2 && old[2].exists() ? rw.constant(old[2]) : nullptr;
  if (old.size() > 2 && old[2].exists() && !bias) return;
  const std::vector<double> bias_values = bias ? ir::to_doubles(*bias) : std::vector<double>{};
  const std::string name = rw.name(old[1]);
  const ir::Origin origin = rw.origin(y);
  for (const Reader& reader : readers) {
    const std::vector<std::int64_t> rows = columns_of(reader.dims, reader.first, reader.selection);
    const std::string part = name.empty() ? name : name + "[" + std::to_string(rows.front()) + "]";
    std::vector<ValueId> inputs = old;
    inputs[1] = rw.emit_constant(ir::reorder_rows(weight, rows), reader.node, part);
    if (bias) {
      std::vector<float> picked;
      for (const std::int64_t row : rows)
        picked.push_back(static_cast<float>(bias_values.at(static_cast<std::size_t>(row))));
      inputs[2] = rw.emit_constant(
          ir::make_f32({static_cast<std::int64_t>(picked.size())}, std::move(picked)), reader.node);
    }
    const std::vector<Dim> dims = rw.type(reader.selection.result).dims;
    const ValueId product = rw.emit(op, std::move(inputs), reader.node);
    rw.set_origin(product, origin);
    const ValueId shaped = emit_reshape(rw, product, dims, reader.node);
    if (shaped.exists()) rw.replace(reader.selection.result, shaped);
  }
}

}  // namespace

Result<ir::Graph> split_linear(ir::Graph graph, const PassContext&) {
  Rewriter rw(std::move(graph));
  for (NodeIndex i = 0; i < rw.size(); ++i)
    if (rw.alive(i) && std::holds_alternative<ir::Linear>(rw.node(i).op)) split(rw, i);
  return std::move(rw).finish();
}

}  // namespace llmc::passes
