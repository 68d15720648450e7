#include "compiler/onnx/operators.h"

#include <algorithm>
#include <map>
#include <set>

namespace llmc::importer {
namespace {

using RuleKey = std::pair<std::string_view, std::string_view>;  // domain, name

const std::multimap<RuleKey, OperatorRule>& all_rules() {
  static const auto* const rules = [] {
    auto* map = new std::multimap<RuleKey, OperatorRule>;
    for (const auto& family : {movement_rules(),
                               shape_rules(),
                               elementwise_rules(),
                               product_rules(),
                               activation_rules(),
                               trigonometry_rules(),
                               index_rules(),
                               reduce_rules(),
                               norm_rules(),
                               conv_rules(),
                               conv_transpose_rules(),
                               pool_rules(),
                               resize_rules(),
                               attention_rules(),
                               einsum_rules(),
                               integer_rules(),
                               contrib_rules(),
                               contrib_attention_rules(),
                               contrib_encoder_rules(),
                               contrib_moe_rules(),
                               quantized_rules(),
                               qlinear_rules()})
      for (const auto& rule : family) map->emplace(RuleKey{rule.domain, rule.name}, rule);
    return map;
  }();
  return *rules;
}

bool has_subgraph(const onnx::NodeProto& node) {
  return std::any_of(node.attribute().begin(), node.attribute().end(), [](const auto& attribute) {
    return attribute.has_g() || attribute.graphs_size() > 0;
  });
}

/// Returns an error that states why `node` cannot be converted; nullopt if a rule accepts it.
std::optional<Diagnostic> why_unsupported(const OnnxFile& file, const onnx::NodeProto& node) {
  Diagnostic d;
  d.kind = ErrorKind::kUnsupported;
  if (is_if(node)) return std::nullopt;  // the selected branch is checked later
  if (has_subgraph(node)) {
    d.message = "has a subgraph (control flow), which is not supported";
    d.hint = "export the model without control flow, for example a decoder that always has a past";
    return d;
  }
  const std::int64_t opset = file.opset(node);
  std::string versions;
  const OperatorRule* rule = find_rule(node.domain(), node.op_type(), opset, &versions);
  if (!rule && versions.empty()) {
    d.message = "is not a supported operator";
    d.hint = "docs/inputs.md lists the supported operators";
    return d;
  }
  if (!rule) {
    d.message =
        "is not supported in operator set " + std::to_string(opset) + " (only " + versions + ")";
    d.hint = "export with a newer operator set";
    return d;
  }
  for (const auto& attribute : node.attribute()) {
    if (is_annotation(attribute.name(), opset)) continue;
    if (std::find(rule->attributes.begin(), rule->attributes.end(), attribute.name()) !=
        rule->attributes.end())
      continue;
    d.message =
        "has the attribute '" + printable(attribute.name(), 60) + "', which is not supported";
    return d;
  }
  return std::nullopt;
}

}  // namespace

bool is_annotation(std::string_view attribute, std::int64_t opset) {
  return attribute == "consumed_inputs" && opset < 6;
}

bool is_if(const onnx::NodeProto& node) {
  return node.op_type() == "If" && plain_domain(node.domain()).empty();
}

const OperatorRule* find_rule(std::string_view domain, std::string_view name, std::int64_t opset,
                              std::string* versions) {
  const auto [begin, end] = all_rules().equal_range({plain_domain(domain), name});
  for (auto it = begin; it != end; ++it) {
    const OperatorRule& rule = it->second;
    const auto& [since, until] = rule.versions;
    if (opset >= since && opset <= until) return &rule;
    if (!versions) continue;
    if (!versions->empty()) *versions += ", ";
    *versions += std::to_string(since);
    *versions += until == kAnyLater ? " and later" : " to " + std::to_string(until);
  }
  return nullptr;
}

std::vector<Diagnostic> unsupported_operators(const OnnxFile& file, const onnx::GraphProto& graph,
                                              const std::vector<int>& nodes) {
  std::vector<Diagnostic> result;
  std::set<std::pair<std::string, std::string>> seen;  // operator, message
  for (const int index : nodes) {
    const auto& node = graph.node(index);
    auto d = why_unsupported(file, node);
    if (!d) continue;
    d->file = file.name;
    d->node = !node.name().empty()     ? node.name()
              : node.output_size() > 0 ? node.output(0)
                                       : std::string();
    const auto domain = plain_domain(node.domain());
    d->op = domain.empty() ? node.op_type() : std::string(domain) + "." + node.op_type();
    if (seen.emplace(d->op, d->message).second) result.push_back(*std::move(d));
  }
  return result;
}

}  // namespace llmc::importer
