#pragma once

#include "compiler/exec/emulator.h"
#include "compiler/exec/native.h"

namespace llmc::exec {

/// Starts the model's runner under the emulator. Each session is a separate process.
Result<std::unique_ptr<NativeModel>> load_runner(LinkedModel linked, Emulator emulator);

}  // namespace llmc::exec
