#pragma once

#include <string>

#include "compiler/plan/program.h"

/// Names in templates/llmc/kernels/ that the emitted source uses.
namespace llmc::emit {

/// Returns the C++ type of a packed matrix or table (LLMC_CHECK): "WeightQ4<432, 288>". If not
/// empty, `rows` and `columns` are C++ expressions to write instead of the matrix's sizes.
std::string weight_type(const plan::PackedWeight& weight, std::string rows = {},
                        std::string columns = {});

}  // namespace llmc::emit
