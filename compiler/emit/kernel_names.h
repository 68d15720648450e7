#pragma once

#include <string>

#include "compiler/plan/program.h"

/// Names in templates/llmc/kernels/ that the emitted source uses.
namespace llmc::emit {

/// Returns the C++ type of a packed matrix or table: "WeightQ4<432, 288>". `rows` and `columns`
/// replace the text of these numbers unless they are empty.
std::string weight_type(const plan::PackedWeight& weight, std::string rows = {},
                        std::string columns = {});

}  // namespace llmc::emit
