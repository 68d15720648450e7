#pragma once

#include <cstdint>

#include "compiler/plan/plan.h"

namespace llmc::plan {

/// Text and constants of the archive without weights, before anything is compiled: what functions
/// took in the shipped model (tools/code_sizes.py), times how often the model has them. How near
/// that is: docs/memory.md.
std::uint64_t estimate_code_bytes(const Plan& plan);

}  // namespace llmc::plan
