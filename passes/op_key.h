#pragma once

#include <optional>
#include <string>

#include "compiler/ir/op.h"

namespace llmc::passes {

/// Text that is equal for two operators if and only if kind and attributes are equal; operands do
/// not count. Constants are compared by content up to 64 KiB, larger ones by identity. nullopt for
/// loops, which are never compared.
std::optional<std::string> op_key(const ir::Op& op);

/// op_key of a constant.
std::string constant_key(const ir::ConstantPtr& data);

}  // namespace llmc::passes
