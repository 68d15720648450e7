#pragma once

#include <climits>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/onnx/node_context.h"

namespace llmc::importer {

/// Returns `domain`, with "ai.onnx" replaced by "", the other name of ONNX's own domain.
inline std::string_view plain_domain(std::string_view domain) {
  return domain == "ai.onnx" ? std::string_view() : domain;
}

/// The domain of onnxruntime's operators.
inline constexpr std::string_view kContribDomain = "com.microsoft";

inline constexpr std::int64_t kAnyLater = INT64_MAX;
inline constexpr std::size_t kAnyCount = SIZE_MAX;

using Converter = void (*)(NodeContext&);

/// The operator-set versions of a rule, inclusive.
struct Versions {
  std::int64_t since, until;
  constexpr Versions(std::int64_t first, std::int64_t last = kAnyLater)
      : since(first), until(last) {}
};

/// The number of operands of an operator: exactly `count`, or `min` to `max`.
struct OperandCount {
  std::size_t min, max;
  constexpr OperandCount(std::size_t count) : OperandCount(count, count) {}
  constexpr OperandCount(std::size_t min_count, std::size_t max_count)
      : min(min_count), max(max_count) {}
};

/// The conversion of one ONNX operator for a range of operator-set versions. To support an
/// operator, write its converter in the file of its family and add a row to that family's table.
struct OperatorRule {
  std::string_view domain;  // "" is ai.onnx
  std::string_view name;
  Versions versions;
  OperandCount operands;
  Converter convert;
  /// Every attribute of the operator in these versions. Import fails for a node with another
  /// attribute, or with one that the converter did not read (NodeContext::refuse_unread).
  std::vector<std::string_view> attributes;
};

/// Returns a rule of ONNX's own domain.
inline OperatorRule onnx_rule(std::string_view name, Versions versions, OperandCount operands,
                              Converter convert, std::vector<std::string_view> attributes = {}) {
  return {"", name, versions, operands, convert, std::move(attributes)};
}

/// Returns a rule of onnxruntime's domain, which has one version.
inline OperatorRule contrib_rule(std::string_view name, OperandCount operands, Converter convert,
                                 std::vector<std::string_view> attributes = {}) {
  return {kContribDomain, name, 1, operands, convert, std::move(attributes)};
}

// One table for each family, in the file ops_FAMILY.cpp.
std::vector<OperatorRule> movement_rules();
std::vector<OperatorRule> shape_rules();
std::vector<OperatorRule> elementwise_rules();
std::vector<OperatorRule> product_rules();
std::vector<OperatorRule> activation_rules();
std::vector<OperatorRule> trigonometry_rules();
std::vector<OperatorRule> index_rules();
std::vector<OperatorRule> reduce_rules();
std::vector<OperatorRule> norm_rules();
std::vector<OperatorRule> conv_rules();
std::vector<OperatorRule> conv_transpose_rules();
std::vector<OperatorRule> pool_rules();
std::vector<OperatorRule> resize_rules();
std::vector<OperatorRule> attention_rules();
std::vector<OperatorRule> einsum_rules();
std::vector<OperatorRule> integer_rules();
std::vector<OperatorRule> contrib_rules();
std::vector<OperatorRule> contrib_attention_rules();
std::vector<OperatorRule> contrib_encoder_rules();
std::vector<OperatorRule> contrib_moe_rules();
std::vector<OperatorRule> quantized_rules();
std::vector<OperatorRule> qlinear_rules();

/// Returns the rule for an operator, or nullptr. If there is no rule and `versions` is not null,
/// sets it to the supported versions of the operator ("" for an unknown operator).
const OperatorRule* find_rule(std::string_view domain, std::string_view name, std::int64_t opset,
                              std::string* versions = nullptr);

/// Returns whether the attribute has no effect on the result: consumed_inputs until operator set 5.
bool is_annotation(std::string_view attribute, std::int64_t opset);

/// Returns whether the node is ONNX's If, which has no rule; the importer converts it.
bool is_if(const onnx::NodeProto& node);

/// Returns one diagnostic for each unsupported operator, or unsupported attribute of an operator,
/// among `nodes` of `graph`. It names the first such node. `graph` is that of the file or of a
/// branch.
std::vector<Diagnostic> unsupported_operators(const OnnxFile& file, const onnx::GraphProto& graph,
                                              const std::vector<int>& nodes);

}  // namespace llmc::importer
