#pragma once

#include <cstdint>

#include "compiler/plan/plan.h"

namespace llmc::plan {

/// Returns an estimate, before compilation, of the size of the archive's text and constants in
/// bytes, without weights. It is the sum of function sizes, most of them measured in a reference
/// model (tools/code_sizes.py), multiplied by their number in this model. Requires the plan of a
/// decoder. docs/memory.md states the accuracy.
std::uint64_t estimate_code_bytes(const Plan& plan);

}  // namespace llmc::plan
