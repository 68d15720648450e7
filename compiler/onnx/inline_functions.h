#pragma once

#include "compiler/onnx/onnx_file.h"

namespace llmc::importer {

/// Replaces every call of a function local to the model (FunctionProto) by the function's nodes,
/// including calls inside functions. Inner values get unique names. An attribute that refers to an
/// attribute of the function gets the caller's value, else the function's default, else is removed
/// (the operator's default applies). Nodes of a function use the operator sets that the function
/// imports. Calls of unknown functions are operators and stay. kBadInput for two functions of one
/// name, recursive functions, more operands than parameters, and more than a million resulting
/// nodes; kOverBudget if the expanded calls exceed `max_bytes`.
Status inline_functions(OnnxFile& file, std::uint64_t max_bytes);

}  // namespace llmc::importer
