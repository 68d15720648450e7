#pragma once

#include "compiler/onnx/onnx_file.h"

namespace llmc::importer {

/// Replaces every call of a function local to the model (FunctionProto) by the function's nodes,
/// calls inside functions too: values inside get names of their own, an attribute that refers to
/// one of the function takes the caller's, else the function's default, else is left out (the
/// operator's own default then holds). Nodes of a function follow the operator sets that the
/// function imports. Unknown calls stay: they are operators. Fails (kBadInput) on two functions
/// of one name, on functions that call themselves, on more operands than parameters, and when the
/// result would have more than a million nodes; kOverBudget when the calls expand to more than
/// `max_bytes`.
Status inline_functions(OnnxFile& file, std::uint64_t max_bytes);

}  // namespace llmc::importer
