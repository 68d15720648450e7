#pragma once

#include <cstdint>

#include "compiler/onnx/onnx_file.h"

namespace llmc::importer {

/// Newest supported operator-set and IR versions: those of ONNX 1.21.
inline constexpr std::int64_t kNewestOpset = 26, kNewestIrVersion = 13;

/// Checks the rules of ONNX that do not depend on operators: versions are supported; each operator
/// set is imported once; each node has an operator and an output; each attribute occurs once and
/// has a value of its declared type; an initializer of a graph input has its type and shape;
/// function parameters are distinct. Also checks the nodes of functions and branches. Fails with
/// kUnsupported if a version is newer than those above, otherwise with kBadInput.
Status check_model(const OnnxFile& file);

}  // namespace llmc::importer
