#pragma once

#include <cstdint>
#include <string>

#include "compiler/plan/plan.h"

/// The emitted code of a model with a session: its forward pass, its head, and its llmc_model.
namespace llmc::emit {

/// Returns the includes that session_entry() needs.
std::string session_includes(const plan::Plan& plan);
/// Returns the stages of `forward` and `head` as functions, the encoder if the plan has one, the
/// model's llmc_model, and NAME_init. `weights_hash` is the xxh64 of the weights.
std::string session_entry(const plan::Plan& plan, std::uint64_t weights_hash);

}  // namespace llmc::emit
