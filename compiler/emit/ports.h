#pragma once

#include <string>

#include "compiler/plan/plan.h"

/// The macros of NAME.h that describe the inputs and outputs of a plain graph.
namespace llmc::emit {

/// Returns the macros of a media encoder: PREFIX_INPUTS, the open dims PREFIX_DIM_… and the inputs
/// PREFIX_INPUT_….
std::string input_macros(const plan::Program& program, const std::string& prefix);
/// Returns the macros of an entry NAME_run: its open dims, inputs and outputs. The prefix of all is
/// `macro`, and `macro`_INPUT_WEIGHTS stays free.
std::string port_macros(const plan::Program& program, const std::string& macro);

}  // namespace llmc::emit
