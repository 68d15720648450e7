#pragma once

#include "compiler/exec/native.h"
#include "runtime/hosted/device/opencl_device.h"

namespace llmc::exec {

/// Loads the shared library into this process. If the weights are in a file, maps the file.
Result<std::unique_ptr<NativeModel>> load_library(LinkedModel linked, HugePageOptions huge_pages,
                                                  const hosted::OpenClOptions& opencl = {});

}  // namespace llmc::exec
