#pragma once

#include <cstdint>

#include "compiler/onnx/onnx_file.h"

namespace llmc::importer {

/// Newest supported operator-set and IR versions: those of ONNX 1.21.
inline constexpr std::int64_t kNewestOpset = 26, kNewestIrVersion = 13;

/// Checks the rules of ONNX that do not depend on operators:
///  - versions are supported, and each operator set is imported once
///  - each node has an operator type and an output
///  - the attributes of a node have distinct names and values of their declared types
///  - an initializer has the type and shape that the graph input of the same name declares
///  - the inputs, outputs and attributes of a function have distinct names
/// Also checks the nodes of functions and branches. Fails with kUnsupported if a version is newer
/// than those above, otherwise with kBadInput.
Status check_model(const OnnxFile& file);

}  // namespace llmc::importer
