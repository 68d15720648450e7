#pragma once

#include <cstdint>
#include <string>

#include "compiler/plan/plan.h"

/// What the runtime core reads of an emitted decoder.
namespace llmc::emit {

/// Returns the function that runs the encoder; empty for a decoder.
std::string encode_function(const plan::Plan& plan);

/// Return the part of the header about sources, and the definition of its function; empty for a
/// decoder.
std::string encode_declaration(const plan::Plan& plan);
std::string encode_definition(const plan::Plan& plan);

/// Returns the definition of the llmc_model (llmc/model.h).
std::string descriptor(const plan::Plan& plan, std::uint64_t weights_hash);

}  // namespace llmc::emit
