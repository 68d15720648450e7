#pragma once

#include <cstdint>
#include <string>

#include "compiler/plan/plan.h"

/// The description of an emitted decoder for the runtime core.
namespace llmc::emit {

/// Returns the C++ declaration of `Source`, the shape of a source's state and of cross-attention to
/// it. `heads` is the number of query heads, or 0 for the code of the encoder, which has none.
std::string source_alias(const plan::Plan& encoder, std::uint64_t heads);

/// Returns the C++ source of the function that runs the encoder; empty if the plan has none.
std::string encode_function(const plan::Plan& plan);

/// Return the declaration of NAME_encode, which encodes a source, for NAME.h, and its definition
/// for the source file; empty if the plan has no encoder.
std::string encode_declaration(const plan::Plan& plan);
std::string encode_definition(const plan::Plan& plan);

/// Returns the C++ definition of the model's llmc_model (llmc/model.h). `weights_hash` is the xxh64
/// of the weights.
std::string descriptor(const plan::Plan& plan, std::uint64_t weights_hash);

}  // namespace llmc::emit
