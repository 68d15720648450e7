#pragma once

#include <optional>
#include <vector>

#include "compiler/onnx/node_context.h"

namespace llmc::importer {

/// Appends the function of x that attribute 'activation' of a fused operator names, with the
/// operator's parameters for it; those that are missing have their default. Returns kNoValue after
/// an error.
ir::ValueId activated(NodeContext& n, ir::ValueId x,
                      const std::vector<std::optional<float>>& parameters);

}  // namespace llmc::importer
