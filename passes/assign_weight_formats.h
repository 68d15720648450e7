#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "compiler/ir/op_info.h"
#include "passes/pass.h"

namespace llmc::passes {

/// A weight format and a printable reason for it.
struct FormatChoice {
  ir::WeightFormat format = ir::WeightFormat::kUnset;
  std::string_view reason;  // static storage
};

/// Formats of weight matrices by role.
struct FormatPolicy {
  std::array<FormatChoice, ir::EnumInfo<ir::WeightRole>::names.size()> choices;

  FormatChoice& operator[](ir::WeightRole role) { return choices[static_cast<std::size_t>(role)]; }
  const FormatChoice& operator[](ir::WeightRole role) const {
    return choices[static_cast<std::size_t>(role)];
  }
};

/// Models with a smaller hidden size are narrow: the errors of 4-bit weights average out over so
/// few columns that only gate and up have 4 bits with q4.
inline constexpr std::uint64_t kNarrowHidden = 512;
/// Returns the policy of `--quant FORMAT` for a model with this hidden size. All roles have FORMAT,
/// except with q4: the head has q6 (docs/decisions/0007-q6-head.md), and in a narrow model so has
/// every matrix but gate and up (docs/decisions/0008-q6-in-narrow-models.md).
FormatPolicy format_policy(ir::WeightFormat format, std::uint64_t hidden);
/// Returns the width of the embedding's rows; 0 if there is no embedding or its width is not fixed.
std::uint64_t hidden_size(const ir::Graph& graph);

/// The role and the format of one matrix, or of its query and key rows or value rows.
struct WeightDecision {
  ir::Origin origin;  // of the operator that reads it; untrusted text
  ir::WeightRole role = ir::WeightRole::kLinear;
  ir::WeightFormat format = ir::WeightFormat::kUnset;
  std::string_view reason;
};
/// "'/layers.0/down/MatMul': down, q6: a narrow model, with q4"
std::string to_string(const WeightDecision& decision);

/// Gives each weight matrix its role, derived from the surrounding operators, and the format that
/// the policy has for the role.
///
///   embedding(…), linear(…), qkv_projection(…)  ->  the same with {role, format}
///
/// Value rows of a qkv_projection get a value_format where the policy's differs from that of query
/// and key rows. A matrix that has a format keeps it. Norm weights and biases stay f32. The bytes
/// are made when weights are packed. `on_weight`, which may be empty, learns of every decision.
ir::Graph assign_weight_formats(ir::Graph graph, const FormatPolicy& policy,
                                const std::function<void(const WeightDecision&)>& on_weight = {});
/// The same with the policy of PassOptions::weights.
Result<ir::Graph> assign_weight_formats(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes
