#pragma once

#include <cstdint>

#include "compiler/onnx/onnx_file.h"

namespace llmc::importer {

/// The newest versions of ONNX that are known: release 1.21.
inline constexpr std::int64_t kNewestOpset = 26, kNewestIrVersion = 13;

/// Checks what ONNX requires of a model whatever its operators compute: versions, one import of
/// each operator set, nodes with an operator and an output, attributes that are given once and hold
/// the value that their type says, initializers of the type and shape of the graph input they
/// initialize, functions with distinct parameters. Looks at all nodes, those of functions and
/// branches too. kUnsupported for versions newer than those above.
Status check_model(const OnnxFile& file);

}  // namespace llmc::importer
