#pragma once

#include "compiler/onnx/onnx_file.h"

namespace llmc::importer {

/// Replaces every call of a model-local function (FunctionProto) by the function's nodes, including
/// calls inside functions. Inner values get unique names. An attribute reference is replaced by the
/// caller's value or the function's default; without either, the attribute is removed, so the
/// operator's default applies. Nodes of a function use the operator sets that the function imports.
/// Nodes that call no local function are kept. Fails with kBadInput if two functions have the same
/// domain, name and overload, a function is recursive or too deeply nested, a call has more
/// operands or results than the function, or more than a million nodes result. Fails with
/// kOverBudget if the expanded calls exceed `max_bytes`.
Status inline_functions(OnnxFile& file, std::uint64_t max_bytes);

}  // namespace llmc::importer
