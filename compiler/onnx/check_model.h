#pragma once

#include <cstdint>

#include "compiler/onnx/onnx_file.h"

namespace llmc::importer {

/// The newest supported versions of ONNX: release 1.21.
inline constexpr std::int64_t kNewestOpset = 26, kNewestIrVersion = 13;

/// Checks the rules of ONNX that do not depend on operators: supported versions, one import per
/// operator set, nodes with an operator and an output, attributes given once with a value of their
/// declared type, initializers with the type and shape of the graph input they initialize,
/// functions with distinct parameters. Nodes of functions and branches are checked too.
/// kUnsupported for versions newer than those above.
Status check_model(const OnnxFile& file);

}  // namespace llmc::importer
