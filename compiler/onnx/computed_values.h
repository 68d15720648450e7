#pragma once

#include "compiler/ir/builder.h"

namespace llmc::importer {

/// Returns the elements of a small value that is computed from constants and known sizes alone,
/// such as the side of a square table, sqrt(rows); nullptr for other values.
ir::ConstantPtr computed_constant(const ir::Builder& builder, ir::ValueId value);

}  // namespace llmc::importer
