#pragma once

#include <optional>
#include <string>

#include "compiler/ir/op.h"

namespace llmc::passes {

/// Text that is the same for two operators exactly when they are the same with the same attributes,
/// whatever their operands. Constants count by content up to 64 KiB and by identity beyond. nullopt
/// for loops, which are never compared.
std::optional<std::string> op_key(const ir::Op& op);

/// op_key of a constant: content up to 64 KiB, identity beyond.
std::string constant_key(const ir::ConstantPtr& data);

}  // namespace llmc::passes
