#include "compiler/onnx/bind/token_rows.h"

#include <algorithm>
#include <set>

#include "compiler/ir/op_info.h"

namespace llmc::importer {
namespace {

using ir::Node;
using ir::ValueId;

/// Copies nodes. A copied value is `joined` if all rows share it or have the place of the sequence
/// dim: keys, values and scores, which have the type of a call with several tokens.
class RowCopier {
 public:
  RowCopier(ir::Builder& builder, const Part& part, const TokenRows& rows, const FoundCaches& found)
      : b_(builder), part_(part), rows_(rows), uses_(rows.graph), copies_(rows.inputs) {
    for (const LayerCache& layer : found.layers)
      for (const bool value : {false, true})
        extended_[rows.presents.at(value ? layer.value_present : layer.key_present)] =
            value ? layer.value : layer.key;
  }

  Result<ValueId> copy(ValueId wanted) {
    // Graphs are deep: the nodes that a value needs are collected first, then copied in order.
    std::set<std::uint32_t> needed;
    std::vector<ValueId> pending{wanted};
    while (!pending.empty()) {
      const ValueId value = pending.back();
      pending.pop_back();
      if (!value.exists() || copies_.contains(value)) continue;
      const Node* node = uses_.producer(value);
      if (node == nullptr)
        return part_.unsupported("the cache is read before the new token is appended", {},
                                 rows_.graph.value(value).name);
      const auto index = static_cast<std::uint32_t>(node - rows_.graph.nodes().data());
      if (!needed.insert(index).second) continue;
      if (extended_.contains(value)) {
        pending.push_back(node->inputs[1]);
      } else {
        for (const ValueId input : kept_inputs(*node)) pending.push_back(input);
      }
    }
    for (const std::uint32_t index : needed) {
      LLMC_RETURN_IF_ERROR(add(rows_.graph.nodes()[index]));
    }
    return copies_.at(wanted);
  }

 private:
  bool joined(ValueId value) const { return joined_.contains(value); }

  /// Returns whether a value depends on keys or scores, which have the place of the tokens changed.
  bool depends_on_cache(ValueId value) {
    const auto [at, is_new] = depends_.try_emplace(value, false);
    if (!is_new) return at->second;
    const Node* node = uses_.producer(value);
    bool result = extended_.contains(value);
    const bool leaves = node == nullptr || std::holds_alternative<ir::Shape>(node->op) ||
                        is_attention_result(*node);
    for (std::size_t i = 0; !result && !leaves && i < node->inputs.size(); ++i)
      result = node->inputs[i].exists() && depends_on_cache(node->inputs[i]);
    return depends_[value] = result;
  }
  bool is_attention_result(const Node& node) {
    return std::holds_alternative<ir::MatMul>(node.op) && depends_on_cache(node.inputs[0]) &&
           depends_on_cache(node.inputs[1]);
  }
  /// Returns the operand that is the mask of scores, if the node adds one.
  std::optional<std::size_t> mask_of(const Node& node) {
    const auto* binary = std::get_if<ir::Binary>(&node.op);
    if (binary == nullptr || binary->kind != ir::BinaryKind::kAdd) return std::nullopt;
    for (const std::size_t i : {0u, 1u})
      if (depends_on_cache(node.inputs[1 - i]) && !depends_on_cache(node.inputs[i]) &&
          rows_.graph.value(node.inputs[i]).type.rank() == 4)
        return i;
    return std::nullopt;
  }
  std::vector<ValueId> kept_inputs(const Node& node) {
    std::vector<ValueId> inputs = node.inputs;
    if (const auto mask = mask_of(node)) inputs.erase(inputs.begin() + static_cast<int>(*mask));
    return inputs;
  }
  /// Fails unless the token sees all keys, as it does in a call with several tokens.
  Status check_mask(ValueId mask) {
    if (!open_.contains(mask) && !is_open_mask(rows_.graph, rows_.known, mask))
      return part_.unsupported("attention with a window or a bias beside recurrent states",
                               "export the model for several tokens per call",
                               rows_.graph.value(mask).name);
    open_.insert(mask);
    return ok_status();
  }

  Result<ValueId> swapped(ValueId value, const Node& node) {
    return b_.add_one(ir::Transpose{{2, 1, 0, 3}}, {value}, node.origin);
  }

  Status add(const Node& node) {
    if (const auto at = extended_.find(node.outputs[0]); at != extended_.end()) {
      LLMC_TRY(const ValueId fresh, swapped(copies_.at(node.inputs[1]), node));
      LLMC_TRY(copies_[node.outputs[0]],
               b_.add_one(ir::Concat{2}, {rows_.pasts.at(at->second), fresh}, node.origin));
      joined_.insert(node.outputs[0]);
      return ok_status();
    }
    const auto mask = mask_of(node);
    if (mask) LLMC_RETURN_IF_ERROR(check_mask(node.inputs[*mask]));
    std::vector<ValueId> inputs;
    bool any = false;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId input = node.inputs[i];
      any = any || (input.exists() && joined(input));
      inputs.push_back(mask == i ? rows_.mask : input.exists() ? copies_.at(input) : ValueId{});
    }
    const bool product = std::holds_alternative<ir::MatMul>(node.op);
    const bool result = product && is_attention_result(node);
    if (any && product && !result) {
      const std::size_t other = joined(node.inputs[0]) ? 1 : 0;
      LLMC_TRY(inputs[other], swapped(inputs[other], node));
    }
    if (std::holds_alternative<ir::Softmax>(node.op) && any && !masked_.contains(node.inputs[0])) {
      LLMC_TRY(inputs[0],
               b_.add_one(ir::Binary{ir::BinaryKind::kAdd}, {inputs[0], rows_.mask}, node.origin));
    }
    std::vector<std::string> names;
    for (const ValueId output : node.outputs)
      names.push_back(output.exists() ? rows_.graph.value(output).name : std::string());
    LLMC_TRY(std::vector<ValueId> outputs, b_.add(node.op, std::move(inputs), node.origin, names));
    if (result) {
      LLMC_TRY(outputs[0], swapped(outputs[0], node));
    }
    const bool stays = any && !result && !std::holds_alternative<ir::Shape>(node.op);
    const bool has_mask = mask || (!node.inputs.empty() && masked_.contains(node.inputs[0]));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!node.outputs[i].exists()) continue;
      copies_[node.outputs[i]] = outputs[i];
      if (stays) joined_.insert(node.outputs[i]);
      if (stays && has_mask) masked_.insert(node.outputs[i]);
    }
    return ok_status();
  }

  ir::Builder& b_;
  const Part& part_;
  const TokenRows& rows_;
  const ir::UseDef uses_;
  std::map<ValueId, ValueId> copies_;
  std::map<ValueId, std::string> extended_;  // name of the cache
  std::map<ValueId, bool> depends_;
  std::set<ValueId> joined_, masked_, open_;  // values of rows_.graph
};

}  // namespace

Result<std::vector<ValueId>> append_token_rows(ir::Builder& builder, const Part& part,
                                               const TokenRows& rows, const FoundCaches& found,
                                               const std::vector<ValueId>& wanted) {
  const ir::UseDef uses(rows.graph);
  for (const LayerCache& layer : found.layers)
    for (const std::string& name : {layer.key_present, layer.value_present}) {
      const auto* concat = ir::op_as<ir::Concat>(uses.producer(rows.presents.at(name)));
      if (concat == nullptr || (concat->axis != 2 && concat->axis != -2))
        return part.unsupported("the new cache is not the old one and the token's row", {}, name);
    }
  RowCopier copier(builder, part, rows, found);
  std::vector<ValueId> values;
  for (const ValueId value : wanted) {
    LLMC_TRY(const ValueId copied, copier.copy(value));
    values.push_back(copied);
  }
  for (const LayerCache& layer : found.layers)
    for (const std::string& name : {layer.key_present, layer.value_present}) {
      LLMC_TRY(const ValueId copied, copier.copy(rows.presents.at(name)));
      values.push_back(copied);
    }
  return values;
}

}  // namespace llmc::importer
