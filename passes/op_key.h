#pragma once

#include <optional>
#include <string>

#include "compiler/ir/op.h"

namespace llmc::passes {

/// Returns a text that is equal for two operators if and only if their kinds and attributes are
/// equal. It does not depend on operands. Constants are compared by content up to 64 KiB, larger
/// ones by identity. Returns nullopt for loops, which are never treated as equal.
std::optional<std::string> op_key(const ir::Op& op);

/// Returns the text that represents a constant in op_key().
std::string constant_key(const ir::ConstantPtr& data);

}  // namespace llmc::passes
