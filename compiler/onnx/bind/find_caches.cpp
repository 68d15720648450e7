#include "compiler/onnx/bind/find_caches.h"

#include <algorithm>
#include <set>

#include "compiler/ir/index_map.h"
#include "compiler/onnx/limits.h"

namespace llmc::importer {
namespace {

using ir::Node;
using ir::NodeId;
using ir::ValueId;

constexpr int kMaxSteps = 4096;
constexpr std::int64_t kMaxElements = 64;  // maximum number of indices or bounds
constexpr int kNoAxis = -1;

/// A view of a cache, with the cache axis that corresponds to each dim.
struct CacheView {
  ValueId value;
  std::vector<int> axes;
  std::int64_t half = -1;  // index of the half in [2, …]; -1: both halves
};

/// A Concat that extends a cache or one half of it.
struct Extension {
  ValueId all;  // result: past and new tokens
  std::int64_t half = -1;
  int token_axis = 0;               // of the cache
  std::vector<std::int64_t> sizes;  // sizes of the new tokens along the cache's axes; 0: symbolic
  ValueId present;                  // graph output that contains the result
  bool is_value = false;
  std::uint32_t attends_at = UINT32_MAX;  // index of the product's node
};

class Tracer {
 public:
  Tracer(const ir::Graph& graph, const std::set<ValueId>& outputs)
      : graph_(graph), uses_(graph), outputs_(outputs) {
    operands_.elements = [this](ValueId value) -> std::optional<std::vector<ir::Dim>> {
      const auto data = uses_.constant(value);
      if (!data || data->element_count() > kMaxElements) return std::nullopt;
      const auto values = ir::to_integers(*data);
      if (!values.ok()) return std::nullopt;
      return std::vector<ir::Dim>(values->begin(), values->end());
    };
  }

  std::vector<Extension> trace(ValueId cache) {
    std::vector<int> axes(type(cache).rank());
    for (std::size_t a = 0; a < axes.size(); ++a) axes[a] = static_cast<int>(a);
    std::vector<Extension> found;
    std::vector<CacheView> pending{{cache, axes, -1}};
    std::set<ValueId> visited;
    for (int steps = 0; !pending.empty() && steps < kMaxSteps; ++steps) {
      const CacheView seen = pending.back();
      pending.pop_back();
      if (!visited.insert(seen.value).second) continue;
      for (const NodeId id : uses_.users(seen.value)) {
        const Node& node = graph_.node(id);
        if (const auto* concat = std::get_if<ir::Concat>(&node.op)) {
          if (auto extension = extend(seen, node, *concat, type(cache).rank()))
            found.push_back(std::move(*extension));
          continue;
        }
        step(seen, node, pending);
      }
    }
    for (Extension& extension : found) finish(extension, type(cache).rank());
    std::erase_if(found, [](const Extension& e) { return !e.present.exists(); });
    return found;
  }

 private:
  const ir::TensorType& type(ValueId value) const { return graph_.value(value).type; }

  /// Appends to `next` the views that `node` computes from `seen`: axes permuted, dims of 1 added
  /// or removed, or one half selected.
  void step(const CacheView& seen, const Node& node, std::vector<CacheView>& next) const {
    if (node.inputs[0] != seen.value) return;
    if (std::holds_alternative<ir::Cast>(node.op)) {
      next.push_back({node.outputs[0], seen.axes, seen.half});
      return;
    }
    const auto& from = type(seen.value).dims;
    for (std::size_t slot = 0; slot < node.outputs.size(); ++slot) {
      const auto maps = ir::index_maps(graph_, node, slot, operands_);
      if (maps.size() != 1) return;
      const auto& to = type(node.outputs[slot]).dims;
      CacheView made{node.outputs[slot], std::vector<int>(to.size(), kNoAxis), seen.half};
      bool whole = true;
      for (std::size_t a = 0; a < from.size(); ++a) {
        const ir::AxisIndex& index = maps[0].axes[a];
        const auto axis = index.result_axis();
        const auto half = index.fixed(to);
        if (axis && from[a] == to[*axis])
          made.axes[*axis] = seen.axes[a];
        else if (half && from.size() == 5 && seen.axes[a] == 0 && from[a] == ir::Dim(2))
          made.half = *half->constant();
        else if (from[a] != ir::Dim(1))
          whole = false;
      }
      for (std::size_t k = 0; k < to.size(); ++k)
        whole = whole && (made.axes[k] != kNoAxis || to[k] == ir::Dim(1));
      if (whole) next.push_back(std::move(made));
    }
  }

  std::optional<Extension> extend(const CacheView& seen, const Node& node, const ir::Concat& concat,
                                  std::size_t cache_rank) const {
    if (node.inputs.size() != 2 || node.inputs[0] != seen.value || node.inputs[1] == seen.value)
      return std::nullopt;
    const int axis = seen.axes[static_cast<std::size_t>(concat.axis)];
    if (axis == kNoAxis) return std::nullopt;
    Extension extension;
    extension.all = node.outputs[0];
    extension.half = seen.half;
    extension.token_axis = axis;
    extension.sizes.assign(cache_rank, 0);
    const auto& fresh = type(node.inputs[1]).dims;
    for (std::size_t a = 0; a < fresh.size(); ++a)
      if (seen.axes[a] != kNoAxis)
        extension.sizes[static_cast<std::size_t>(seen.axes[a])] = fresh[a].constant().value_or(0);
    axes_of_[extension.all] = seen.axes;
    return extension;
  }

  /// Finds the graph output that contains the extended cache, and the product that reads it.
  void finish(Extension& extension, std::size_t cache_rank) const {
    std::vector<CacheView> pending{{extension.all, axes_of_.at(extension.all), extension.half}};
    std::set<ValueId> visited;
    for (int steps = 0; !pending.empty() && steps < kMaxSteps; ++steps) {
      const CacheView seen = pending.front();
      pending.erase(pending.begin());
      if (!visited.insert(seen.value).second) continue;
      if (outputs_.contains(seen.value) && in_order(seen.axes, cache_rank, extension.half >= 0))
        extension.present = seen.value;
      for (const NodeId id : uses_.users(seen.value)) {
        const Node& node = graph_.node(id);
        if (extension.half >= 0 && std::holds_alternative<ir::Concat>(node.op) &&
            std::get<ir::Concat>(node.op).axis == 0 && node.inputs.size() == 2 &&
            outputs_.contains(node.outputs[0]))
          extension.present = node.outputs[0];
        step(seen, node, pending);
      }
    }
    find_product(extension);
  }

  static bool in_order(const std::vector<int>& axes, std::size_t rank, bool half) {
    if (axes.size() != (half ? rank - 1 : rank)) return false;
    for (std::size_t a = 0; a < axes.size(); ++a)
      if (axes[a] != static_cast<int>(half ? a + 1 : a)) return false;
    return true;
  }

  /// Follows views, repetitions and scalings from the extended cache to the first product.
  void find_product(Extension& extension) const {
    std::vector<ValueId> pending{extension.all};
    std::set<ValueId> visited;
    for (int steps = 0; !pending.empty() && steps < kMaxSteps; ++steps) {
      const ValueId value = pending.back();
      pending.pop_back();
      if (!visited.insert(value).second) continue;
      for (const NodeId id : uses_.users(value)) {
        const Node& node = graph_.node(id);
        if (std::holds_alternative<ir::MatMul>(node.op)) {
          if (id.index >= extension.attends_at) continue;
          extension.attends_at = id.index;
          const ValueId other = node.inputs[0] == value ? node.inputs[1] : node.inputs[0];
          extension.is_value = comes_from_softmax(other);
        } else if (moves(node)) {
          pending.insert(pending.end(), node.outputs.begin(), node.outputs.end());
        }
      }
    }
  }

  static bool moves(const Node& node) {
    const auto* binary = std::get_if<ir::Binary>(&node.op);
    return (ir::is_view(node.op) && !std::holds_alternative<ir::Concat>(node.op)) ||
           std::holds_alternative<ir::Cast>(node.op) ||
           (binary &&
            (binary->kind == ir::BinaryKind::kMul || binary->kind == ir::BinaryKind::kDiv));
  }

  bool comes_from_softmax(ValueId value) const {
    constexpr int kFewSteps = 8;
    for (int steps = 0; steps < kFewSteps; ++steps) {
      const Node* node = uses_.producer(value);
      if (!node || node->inputs.empty()) return false;
      if (std::holds_alternative<ir::Softmax>(node->op)) return true;
      // The numerator of a softmax that is decomposed into simpler operators.
      if (const auto* function = std::get_if<ir::Unary>(&node->op))
        return function->kind == ir::UnaryKind::kExp;
      const bool guard = std::holds_alternative<ir::Where>(node->op);
      if (!guard && !moves(*node)) return false;
      value = node->inputs[guard ? 2 : 0];
    }
    return false;
  }

  const ir::Graph& graph_;
  ir::UseDef uses_;
  const std::set<ValueId>& outputs_;
  ir::IndexOperands operands_;
  mutable std::map<ValueId, std::vector<int>> axes_of_;
};

/// A cache of keys or of values.
struct Entry {
  std::string input, present;
  Extension extension;
  std::size_t order = 0;  // index among the declared inputs
};

/// Returns true if the name contains "val", false if it contains "key", nullopt if both or neither.
/// Ignores "key_value" and "key_values".
std::optional<bool> named_value(std::string name) {
  for (const std::string_view both : {"key_values", "key_value"})
    if (const auto at = name.find(both); at != std::string::npos) name.erase(at, both.size());
  const bool value = name.find("val") != std::string::npos;
  const bool key = name.find("key") != std::string::npos;
  return value == key ? std::nullopt : std::optional(value);
}

Result<CacheShape> cache_shape(const Part& part, const Entry& entry) {
  const auto& sizes = entry.extension.sizes;
  const std::size_t lead = sizes.size() == 5 ? 1 : 0;  // [2, …]
  const auto tokens = static_cast<std::size_t>(entry.extension.token_axis);
  CacheShape shape;
  if (tokens == lead + 1 || tokens == lead + 2) {
    shape.layout =
        tokens == lead + 1 ? ir::CacheLayout::kSequenceFirst : ir::CacheLayout::kHeadsFirst;
    shape.kv_heads = sizes[tokens == lead + 1 ? lead + 2 : lead + 1];
    shape.head_dim = sizes[lead + 3];
  }
  if (shape.kv_heads < 1 || shape.kv_heads > kMaxHeads || shape.head_dim < 1 ||
      shape.head_dim > kMaxHeadDim)
    return part.bad(
        "cache with unknown heads and width: the appended tokens do not determine them",
        "caches are [batch, kv_heads, past, head_dim] or [batch, past, kv_heads, head_dim]",
        entry.input);
  return shape;
}

}  // namespace

Result<std::optional<FoundCaches>> find_caches(
    const ir::Graph& graph, const Part& part,
    const std::vector<std::pair<std::string, ValueId>>& inputs,
    const std::map<std::string, ValueId>& outputs) {
  std::set<ValueId> wanted;
  std::map<ValueId, std::string> names;
  for (const auto& [name, value] : outputs) {
    wanted.insert(value);
    names.emplace(value, name);
  }
  Tracer tracer(graph, wanted);
  std::vector<Entry> keys, values;
  bool joined = false;
  std::size_t order = 0;
  for (const auto& [name, value] : inputs)
    for (Extension& extension : tracer.trace(value)) {
      joined = joined || extension.half >= 0;
      if (extension.attends_at == UINT32_MAX) {
        const auto named = named_value(name);
        extension.is_value =
            extension.half >= 0 ? extension.half == 1 : named.value_or(order % 2 == 1);
      }
      const std::string present = names.at(extension.present);
      auto& list = extension.is_value ? values : keys;
      list.push_back({name, present, std::move(extension), order++});
    }
  if (keys.empty() && values.empty()) return std::optional<FoundCaches>();
  if (keys.size() != values.size())
    return part.unsupported(std::to_string(keys.size()) + " caches are multiplied by queries and " +
                                std::to_string(values.size()) + " by scores",
                            "scores that depend on the values are not supported",
                            (keys.empty() ? values : keys).front().input);
  const auto earlier = [](const Entry& a, const Entry& b) {
    return std::pair(a.extension.attends_at, a.order) < std::pair(b.extension.attends_at, b.order);
  };
  std::ranges::sort(keys, earlier);
  std::ranges::sort(values, earlier);
  FoundCaches found;
  found.joined = joined;
  found.fixed_tokens =
      keys[0].extension.sizes[static_cast<std::size_t>(keys[0].extension.token_axis)];
  LLMC_TRY(found.shape, cache_shape(part, keys[0]));
  std::int64_t widest = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    LayerCache layer{keys[i].input, values[i].input, keys[i].present, values[i].present};
    for (const Entry* entry : {&keys[i], &values[i]}) {
      LLMC_TRY(const CacheShape shape, cache_shape(part, *entry));
      if (shape.layout != found.shape.layout || shape.kv_heads != found.shape.kv_heads ||
          (joined && shape.head_dim != found.shape.head_dim) ||
          (entry->extension.half >= 0) != joined) {
        return part.unsupported("the shape of the cache differs from the first layer's", {},
                                entry->input);
      }
      (entry == &keys[i] ? layer.key_dim : layer.value_dim) = shape.head_dim;
      widest = std::max(widest, shape.head_dim);
    }
    if (joined && (keys[i].input != values[i].input || keys[i].extension.half != 0 ||
                   values[i].extension.half != 1))
      return part.bad("does not hold a layer's keys first and its values second", {},
                      keys[i].input);
    found.layers.push_back(std::move(layer));
  }
  found.shape.head_dim = widest;
  return std::optional(std::move(found));
}

}  // namespace llmc::importer
