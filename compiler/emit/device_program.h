#pragma once

#include <string>

#include "compiler/plan/plan.h"

namespace llmc::emit {

/// Returns the definition of `kDeviceProgram`, which describes the regions as data
/// (llmc_device_program). Requires a plan with a partition.
std::string device_program(const plan::Plan& plan);

}  // namespace llmc::emit
