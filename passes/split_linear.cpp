#include <algorithm>

#include "passes/match.h"
#include "passes/product_weights.h"
#include "passes/transforms.h"

namespace llmc::passes {

namespace {

using ir::Dim;
using ir::ValueId;

constexpr std::int64_t kMaxRows = std::int64_t{1} << 24;

/// Returns the dims from `first` on; nullopt if one is symbolic or there are too many elements.
std::optional<std::vector<std::int64_t>> column_dims(const std::vector<Dim>& dims,
                                                     std::size_t first) {
  std::vector<std::int64_t> sizes;
  std::int64_t count = 1;
  for (std::size_t a = first; a < dims.size(); ++a) {
    const auto size = dims[a].constant();
    if (!size || *size < 0 || *size > kMaxRows || (count *= *size) > kMaxRows) return std::nullopt;
    sizes.push_back(*size);
  }
  return sizes;
}

/// A result that consists of the same columns of each row of a product.
struct Selection {
  ValueId result;
  std::vector<std::int64_t> columns;
};

/// Returns the selections of a node, in whose operand the axes from `first` on are the columns.
/// Empty for other nodes and for unknown bounds.
std::vector<Selection> match_selections(const Rewriter& rw, const ir::Node& node,
                                        std::size_t first) {
  const bool selects = ir::is_any<ir::Split, ir::Slice, ir::Gather>(node.op);
  if (!selects) return {};
  const std::vector<Dim>& from = rw.type(node.inputs[0]).dims;
  std::vector<Selection> found;
  for (std::size_t slot = 0; slot < node.outputs.size(); ++slot) {
    const std::vector<Dim>& to = rw.type(node.outputs[slot]).dims;
    const auto maps = index_maps(rw, node, slot);
    if (maps.size() != 1 || to.size() < first) return {};
    for (std::size_t a = 0; a < first; ++a)
      if (maps[0].axes[a].result_axis() != a || from[a] != to[a]) return {};
    const auto inner = ir::inner_axes(maps[0], first, first);
    const auto sizes = column_dims(from, first), selected = column_dims(to, first);
    const auto sources = inner && sizes && selected
                             ? ir::element_sources({*inner}, {*sizes}, *selected)
                             : std::nullopt;
    if (!sources || sources->empty()) return {};
    found.push_back({node.outputs[slot], {}});
    for (const auto& source : *sources) found.back().columns.push_back(source.element);
  }
  return found;
}

/// Returns the axis such that the dims from it on have the product `n`, the number of columns of a
/// matrix product; nullopt if there is none.
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

void split(Rewriter& rw, NodeIndex i) {
  const ValueId y = rw.node(i).outputs[0];
  const auto layer = match_plain_linear(rw, y);
  if (!layer || rw.is_output(y)) return;
  // Each user must be a selection, or a view of which all users are selections.
  struct Reader {
    Selection selection;
    NodeIndex node = 0;
  };
  std::vector<Reader> readers;
  const std::int64_t n = last_dim(rw, y).value_or(0);
  if (n < 2 || n > kMaxRows) return;
  const auto read = [&](ValueId value) {
    const auto first = first_column_axis(rw.type(value).dims, n);
    if (!first || rw.is_output(value) || rw.users(value).empty()) return false;
    for (NodeIndex user : rw.users(value)) {
      auto selections = match_selections(rw, rw.node(user), *first);
      if (selections.empty()) return false;
      for (auto& s : selections) readers.push_back({std::move(s), user});
    }
    return true;
  };
  for (NodeIndex user : rw.users(y)) {
    const ir::Node& node = rw.node(user);
    const ValueId made = node.outputs[0];
    const bool view = node.inputs[0] == y && strip_views(rw, made) != made;
    if (view ? !read(made) : match_selections(rw, node, rw.type(y).rank() - 1).empty()) return;
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
  const std::vector<double> bias =
      layer->bias ? ir::to_doubles(*layer->bias) : std::vector<double>{};
  const std::string& name = layer->name;
  const ir::Origin origin = rw.origin(y);
  for (const Reader& reader : readers) {
    const std::vector<std::int64_t>& rows = reader.selection.columns;
    const std::string part = name.empty() ? name : name + "[" + std::to_string(rows.front()) + "]";
    std::vector<ValueId> inputs = old;
    inputs[1] = rw.emit_constant(ir::reorder_rows(layer->weight, rows), reader.node, part);
    if (layer->bias) {
      std::vector<float> picked;
      for (const std::int64_t row : rows)
        picked.push_back(static_cast<float>(bias.at(static_cast<std::size_t>(row))));
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
  return rewrite_nodes<ir::Linear>(std::move(graph), split);
}

}  // namespace llmc::passes
