#pragma once

#include <optional>
#include <vector>

#include "compiler/onnx/node_context.h"

namespace llmc::importer {

/// Appends the activation function that attribute 'activation' of a fused operator names, and
/// returns its result for x. Parameters that are missing have their defaults. Returns x if the
/// attribute is absent, and kNoValue after an error.
ir::ValueId activated(NodeContext& n, ir::ValueId x,
                      const std::vector<std::optional<float>>& parameters);

}  // namespace llmc::importer
