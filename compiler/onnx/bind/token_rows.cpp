#include "compiler/onnx/bind/token_rows.h"

#include <algorithm>
#include <set>

#include "compiler/ir/index_map.h"
#include "compiler/ir/op_info.h"
#include "compiler/onnx/bind/row_integers.h"

namespace llmc::importer {
namespace {

using ir::Node;
using ir::ValueId;

/// Copies nodes. A copied value is `joined` if all rows share it (keys, values) or became its
/// sequence dim (scores). It then has the type of a call with several tokens.
class RowCopier {
 public:
  RowCopier(ir::Builder& builder, const Part& part, const TokenRows& rows, const FoundCaches& found)
      : b_(builder),
        part_(part),
        rows_(rows),
        uses_(rows.graph),
        analysis_(rows.graph, rows.known),
        sizes_(builder, rows.ids, rows.pasts.begin()->second,
               rows.sources.empty() ? ValueId{} : rows.sources.begin()->second),
        copies_(rows.inputs) {
    for (const LayerCache& layer : found.layers)
      for (const bool value : {false, true})
        extended_[rows.presents.at(value ? layer.value_present : layer.key_present)] =
            value ? layer.value : layer.key;
    for (const auto& [from, to] : rows.sources) {
      copies_.emplace(from, to);
      joined_.insert(from);
      of_source_.insert(from);
    }
    find_dependent();
  }

  Result<ValueId> copy(ValueId wanted) {
    // Graphs are deep: the nodes that a value needs are collected first, then copied in order.
    std::set<std::uint32_t> needed;
    std::vector<ValueId> pending{wanted};
    while (!pending.empty()) {
      const ValueId value = pending.back();
      pending.pop_back();
      if (!value.exists() || copies_.contains(value) || integers(value) != nullptr) continue;
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
  bool joined(ValueId value) const { return value.exists() && joined_.contains(value); }

  bool has_row(ValueId value) const {
    const ir::TensorType& type = rows_.graph.value(value).type;
    return type.rank() == 4 && !(type.dims[0] == ir::Dim(1));
  }

  /// Returns integers that follow from sizes or are the row's position; nullptr for other values.
  const RowIntegers* integers(ValueId value) {
    const auto [at, is_new] = integers_.try_emplace(value);
    const Node* node = is_new ? uses_.producer(value) : nullptr;
    if (node != nullptr && !std::holds_alternative<ir::ConstantOp>(node->op))
      at->second = analysis_.integers(value);
    return at->second ? &*at->second : nullptr;
  }

  /// Finds the values that depend on keys or scores, in which the token dim is another one.
  void find_dependent() {
    dependent_ = of_source_;
    for (const Node& node : rows_.graph.nodes()) {
      const bool depends =
          !std::holds_alternative<ir::Shape>(node.op) && !is_attention_result(node) &&
          std::ranges::any_of(node.inputs, [&](ValueId input) { return depends_on_cache(input); });
      for (const ValueId output : node.outputs)
        if (depends || extended_.contains(output)) dependent_.insert(output);
    }
  }
  bool depends_on_cache(ValueId value) const { return dependent_.contains(value); }
  bool is_attention_result(const Node& node) const {
    return std::holds_alternative<ir::MatMul>(node.op) && depends_on_cache(node.inputs[0]) &&
           depends_on_cache(node.inputs[1]);
  }
  static bool varies_by_key(const ir::TensorType& type) {
    return type.rank() == 4 || (type.rank() > 0 && !type.dims.back().is_constant());
  }
  /// Returns the index of the operand that is a mask if the node adds it to scores.
  std::optional<std::size_t> mask_of(const Node& node) const {
    const auto* binary = std::get_if<ir::Binary>(&node.op);
    if (binary == nullptr || binary->kind != ir::BinaryKind::kAdd) return std::nullopt;
    for (const std::size_t i : {0u, 1u})
      if (depends_on_cache(node.inputs[1 - i]) && !depends_on_cache(node.inputs[i]) &&
          varies_by_key(rows_.graph.value(node.inputs[i]).type))
        return i;
    return std::nullopt;
  }
  std::vector<ValueId> kept_inputs(const Node& node) const {
    std::vector<ValueId> inputs = node.inputs;
    if (const auto mask = mask_of(node)) inputs.erase(inputs.begin() + static_cast<int>(*mask));
    return inputs;
  }
  /// Returns the decoder's mask plus `term` as a bias by distance. Fails with kUnsupported if
  /// `term` is not such a bias.
  Result<ValueId> mask(ValueId term, const Node& node) {
    if (const auto known = masks_.find(term); known != masks_.end()) return known->second;
    const auto bias = analysis_.distance_bias(term);
    if (!bias)
      return part_.unsupported(
          "a term of the scores is no function of the distance that becomes "
          "constant",
          "export the model for several tokens per call", rows_.graph.value(term).name);
    ValueId result = rows_.mask;
    if (!bias->is_zero()) {
      LLMC_TRY(const ValueId added, sizes_.bias(*bias, node.origin));
      LLMC_TRY(result,
               b_.add_one(ir::Binary{ir::BinaryKind::kAdd}, {added, rows_.mask}, node.origin));
    }
    return masks_[term] = result;
  }

  Result<ValueId> swapped(ValueId value, const Node& node) {
    return b_.add_one(ir::Transpose{{2, 1, 0, 3}}, {value}, node.origin);
  }

  /// Returns the copy of an operand. `of_keys`: it is a shape of keys, values or scores.
  Result<ValueId> operand(ValueId value, bool of_keys, const Node& node) {
    if (!value.exists()) return ValueId{};
    if (const auto known = copies_.find(value); known != copies_.end()) return known->second;
    const RowIntegers& sizes = *integers(value);
    const ir::Origin origin{node.origin.file, rows_.graph.value(value).name};
    Result<ValueId> made =
        of_keys ? sizes_.of_keys(part_, sizes, origin) : sizes_.of_rows(part_, sizes, origin);
    if (!made.ok()) return made;
    const ir::ElementType element = rows_.graph.value(value).type.element;
    if (element != ir::ElementType::kI64) {
      LLMC_TRY(made, b_.add_one(ir::Cast{element}, {*made}, origin));
    }
    if (of_keys) return made;
    if (sizes.is_position() && sizes.rank < 2) added_dims_[value] = 2 - sizes.rank;
    return copies_[value] = *made;
  }

  std::size_t added_dims(ValueId value) const {
    const auto known = added_dims_.find(value);
    return known == added_dims_.end() ? 0 : known->second;
  }
  /// Sets the number of leading dims that the result of a node has in addition because positions of
  /// rank 0 or 1 became columns. Returns whether the node only adds such a dim, and can be skipped.
  Result<bool> carry_added_dims(const Node& node) {
    std::size_t most = 0;
    for (const ValueId input : node.inputs) most = std::max(most, added_dims(input));
    if (most == 0) return false;
    const ValueId result = node.outputs[0];
    const std::size_t rank = rows_.graph.value(result).type.rank();
    if (const auto* unsqueeze = std::get_if<ir::Unsqueeze>(&node.op);
        unsqueeze != nullptr && unsqueeze->axes == std::vector<std::int64_t>{0}) {
      added_dims_[result] = most - 1;
      return true;
    }
    const auto* gather = std::get_if<ir::Gather>(&node.op);
    bool fits = std::holds_alternative<ir::Cast>(node.op) ||
                std::holds_alternative<ir::Unary>(node.op) ||
                (gather != nullptr && gather->axis == 0 && added_dims(node.inputs[0]) == 0);
    std::size_t left = most;
    if (std::holds_alternative<ir::Binary>(node.op)) {
      fits = true;
      for (const ValueId input : node.inputs) {
        // The dim of the rows has to be the first one of the result.
        const std::size_t all = rows_.graph.value(input).type.rank() + added_dims(input);
        if (added_dims(input) > 0) left = all < rank ? 0 : all - rank;
        fits = fits && (added_dims(input) == 0 || (all >= rank && added_dims(input) == most));
      }
    }
    if (!fits)
      return part_.unsupported("the number of past tokens is used for other things than positions",
                               "export the model for several tokens per call",
                               rows_.graph.value(result).name);
    added_dims_[result] = left;
    return false;
  }

  Status add(const Node& node) {
    if (const auto at = extended_.find(node.outputs[0]); at != extended_.end()) {
      LLMC_TRY(const ValueId fresh, swapped(copies_.at(node.inputs[1]), node));
      LLMC_TRY(copies_[node.outputs[0]],
               b_.add_one(ir::Concat{2}, {rows_.pasts.at(at->second), fresh}, node.origin));
      joined_.insert(node.outputs[0]);
      return ok_status();
    }
    const bool any = std::ranges::any_of(node.inputs, [&](ValueId input) { return joined(input); });
    const bool of_source =
        std::ranges::any_of(node.inputs, [&](ValueId input) { return of_source_.contains(input); });
    const auto mask_at = mask_of(node);
    if (mask_at && of_source) return drop_source_mask(node, *mask_at);
    const bool of_keys = ir::is_view(node.op) && joined(node.inputs[0]);
    std::vector<ValueId> inputs;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      LLMC_TRY(const ValueId input,
               mask_at == i ? mask(node.inputs[i], node) : operand(node.inputs[i], of_keys, node));
      inputs.push_back(input);
    }
    const bool elementwise =
        std::holds_alternative<ir::Binary>(node.op) || std::holds_alternative<ir::Where>(node.op);
    for (std::size_t i = 0; any && elementwise && i < node.inputs.size(); ++i)
      if (mask_at != i && !joined(node.inputs[i]) && has_row(node.inputs[i]))
        return part_.unsupported("keys or scores are combined with a value of the token",
                                 "export the model for several tokens per call",
                                 rows_.graph.value(node.inputs[i]).name);
    LLMC_TRY(const bool skipped, carry_added_dims(node));
    if (skipped) {
      copies_[node.outputs[0]] = inputs[0];
      return ok_status();
    }
    const bool product = std::holds_alternative<ir::MatMul>(node.op);
    const bool result = product && is_attention_result(node);
    if (any && product && !result) {
      const std::size_t other = joined(node.inputs[0]) ? 1 : 0;
      LLMC_TRY(inputs[other], swapped(inputs[other], node));
    }
    if (std::holds_alternative<ir::Softmax>(node.op) && any && !of_source &&
        !masked_.contains(node.inputs[0])) {
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
    const bool has_mask = mask_at || (!node.inputs.empty() && masked_.contains(node.inputs[0]));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!node.outputs[i].exists()) continue;
      copies_[node.outputs[i]] = outputs[i];
      if (stays) joined_.insert(node.outputs[i]);
      if (stays && of_source) of_source_.insert(node.outputs[i]);
      if (stays && has_mask) masked_.insert(node.outputs[i]);
    }
    return ok_status();
  }

  /// Omits the mask of attention to a source, which has no padding. Fails with kUnsupported if the
  /// mask is not 0 for sources of any size.
  Status drop_source_mask(const Node& node, std::size_t mask_at) {
    const ValueId term = node.inputs[mask_at], scores = node.inputs[1 - mask_at];
    if (!analysis_.is_zero_for_sources(term))
      return part_.unsupported("attention to the source with a bias or a window",
                               "export the model for several tokens per call",
                               rows_.graph.value(term).name);
    copies_[node.outputs[0]] = copies_.at(scores);
    joined_.insert(node.outputs[0]);
    of_source_.insert(node.outputs[0]);
    return ok_status();
  }

  ir::Builder& b_;
  const Part& part_;
  const TokenRows& rows_;
  const ir::UseDef uses_;
  RowAnalysis analysis_;
  DecoderSizes sizes_;
  std::map<ValueId, ValueId> copies_;
  std::map<ValueId, std::string> extended_;  // name of the cache
  std::map<ValueId, std::optional<RowIntegers>> integers_;
  std::map<ValueId, std::size_t> added_dims_;
  std::map<ValueId, ValueId> masks_;                           // in the decoder, by term
  std::set<ValueId> dependent_, joined_, masked_, of_source_;  // values of rows_.graph
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
