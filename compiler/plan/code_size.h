#pragma once

#include <cstdint>

#include "compiler/plan/plan.h"

namespace llmc::plan {

/// Returns an estimate of the archive's text and constants in bytes, without weights, before
/// anything is compiled: the measured sizes of functions in a reference model
/// (tools/code_sizes.py), multiplied by the number of times that this model has them.
/// docs/memory.md states the accuracy.
std::uint64_t estimate_code_bytes(const Plan& plan);

}  // namespace llmc::plan
