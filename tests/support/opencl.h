#pragma once

#include <string>

#include "runtime/hosted/device/opencl_find.h"

namespace llmc::tests {

/// Returns why the system has no OpenCL device for a test; empty if it has one. tools/setup.sh
/// installs one.
inline std::string missing_opencl() {
  const auto api = hosted::opencl::load_api();
  if (!api.ok()) return api.failure().message;
  const auto found = hosted::opencl::find_device(**api, "");
  return found.ok() ? "" : found.failure().message;
}

}  // namespace llmc::tests
