#pragma once

#include <string>

#include "runtime/hosted/device/opencl_api.h"

namespace llmc::hosted::opencl {

struct FoundDevice {
  Handle id = nullptr;
  std::string name;            // "platform: device"
  bool shares_memory = false;  // with the CPU
};

/// Finds the device whose name contains `part`; if `part` is empty, the first GPU or accelerator,
/// else the first device. Devices that cannot compute the bits of docs/numerics.md are left out:
/// the arithmetic of floats must be correctly rounded, with subnormals. Fails with
/// LLMC_ERROR_DEVICE.
Outcome<FoundDevice> find_device(const Api& api, const std::string& part);

}  // namespace llmc::hosted::opencl
