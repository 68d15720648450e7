#pragma once

#include <optional>
#include <string>

#include "compiler/ir/op.h"

namespace llmc::passes {

/// Returns a string that is equal for two operators if and only if their kinds and attributes are
/// equal. It does not depend on operands. Constants of at most 64 KiB, or 1 MiB if they are dense
/// in memory, are compared by content, larger ones by identity. Returns nullopt for loops, which
/// are never treated as equal.
std::optional<std::string> op_key(const ir::Op& op);

/// Returns the part of op_key() that represents a constant.
std::string constant_key(const ir::ConstantPtr& data);

}  // namespace llmc::passes
