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

/// Minimum hidden size of a model that is not narrow. With fewer columns, the errors of 4-bit
/// weights average out less, so in narrow models q4m uses more bits for some roles.
inline constexpr std::uint64_t kNarrowHidden = 512;

/// Sizes that determine the policy of q4m: the hidden size, and the numbers of weights in matrices
/// that are rounded.
struct MatrixSizes {
  std::uint64_t hidden = 0;
  std::uint64_t head = 0;
  std::uint64_t others = 0;  // gate and up, and matrices without a role
};
/// Returns the policy of `--quant SCHEME`. All roles have the scheme's format, with two exceptions.
/// With q4 and q4m, the head has q6 (docs/decisions/0007-q6-head.md). With q4m, a narrow model has
/// a mixture (docs/decisions/0008-q6-in-narrow-models.md): q6 in the head, attention and down
/// matrices and q4 in the others, or, if that is not larger, q4 in the head and q6 in all others.
/// Rows that are looked up have 8 bits for every quantized format (plan/lower_weights.cpp).
FormatPolicy format_policy(QuantScheme scheme, const MatrixSizes& sizes);
/// Returns the sizes of a graph, whose matrices need no roles yet. Matrices that already have a
/// format do not count. Matrices with integer codes count only if `requantize` says that they are
/// rounded. Encoders and plain graphs have no `head`: the results of their last matrices are not
/// scores of tokens, so these count as `others`.
MatrixSizes matrix_sizes(const ir::Graph& graph, bool requantize);
/// Returns the width of the embedding's rows; without an embedding, the width that most linear
/// layers read. Returns 0 if there is none or it is not fixed.
std::uint64_t hidden_size(const ir::Graph& graph);

/// Role and format that were assigned to one matrix, or to the query and key rows or the value rows
/// of a matrix.
struct WeightDecision {
  ir::Origin origin;  // origin of the operator that reads the matrix; untrusted text
  ir::WeightRole role = ir::WeightRole::kLinear;
  ir::WeightFormat format = ir::WeightFormat::kUnset;
  std::string_view reason;
};
/// Returns, for example, "'/layers.0/down/MatMul': down, q6: a narrow model, with q4m".
std::string to_string(const WeightDecision& decision);

/// Assigns to each weight matrix its role, derived from the surrounding operators, and the policy's
/// format for this role.
///
///   embedding(…), linear(…), expert_linear(…), qkv_projection(…)  ->  the same with {role, format}
///
/// The value rows of a qkv_projection get a value_format if the policy has another format for them
/// than for query and key rows. A linear layer over the windows of a convolution has q6 where the
/// policy says q4. A matrix that already has a format keeps it. Norm weights and biases stay f32.
/// The pass reads no weights; they are converted when they are packed. `on_weight`, which may be
/// empty, is called with every decision. Outside loops, the head is a matrix without another role
/// whose result is a graph output or, in a decoder, whose input is a single row.
ir::Graph assign_weight_formats(ir::Graph graph, const FormatPolicy& policy,
                                const std::function<void(const WeightDecision&)>& on_weight = {});
/// Assigns roles and the formats of the policy for PassOptions::weights. In plain graphs, matrices
/// without another role have the format of query and key rows.
Result<ir::Graph> assign_weight_formats(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes
