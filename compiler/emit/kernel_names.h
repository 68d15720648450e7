#pragma once

#include <string>

#include "compiler/plan/program.h"

/// Names in templates/llmc/kernels/ that the emitted source uses.
namespace llmc::emit {

/// Returns the C++ type of a packed matrix or table (LLMC_CHECK): "WeightQ4<432, 288>",
/// "WeightQ4<432, 288, Basis::kHadamard>". If not empty, `rows` and `columns` are C++ expressions
/// to write instead of the matrix's sizes.
std::string weight_type(const plan::PackedWeight& weight, std::string rows = {},
                        std::string columns = {});

/// Returns the template argument of attention() after its shape: ", AttentionRule<…>"; empty if all
/// previous keys are read, scores are not modified and there are no sinks. `ctx`: context in
/// tokens.
std::string attention_rule(const plan::AttentionStage& stage, std::uint64_t ctx);
/// The same for cross-attention, which reads all keys of the source.
std::string attention_rule(const plan::CrossAttentionStage& stage);

/// Returns the type of an operator in templates/llmc/kernels/functions.h: "Add", "GeluTanh", or
/// "Identity" for kNone.
std::string operator_type(const ir::Op& op);
std::string operator_type(ir::ActivationFn function);

}  // namespace llmc::emit
