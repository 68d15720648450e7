#pragma once

#include "compiler/exec/native.h"

namespace llmc::exec {

/// Maps the weights when they are in a file, and loads the shared library into this process.
Result<std::unique_ptr<NativeModel>> load_library(LinkedModel linked);

}  // namespace llmc::exec
