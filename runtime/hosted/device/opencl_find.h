#pragma once

#include <string>
#include <vector>

#include "runtime/hosted/device/opencl_api.h"

namespace llmc::hosted::opencl {

struct FoundDevice {
  Handle id = nullptr;
  std::string name;  // "platform: device"
  bool is_cpu = false;
  bool shares_memory = false;        // with the CPU
  std::uint64_t max_allocation = 0;  // bytes of one buffer
  /// Why it cannot compute the bits of docs/numerics.md, whose floats are correctly rounded, with
  /// subnormals; empty if it can.
  std::string obstacle;
};

/// Returns all devices of all platforms.
std::vector<FoundDevice> list_devices(const Api& api);
/// Finds the device that can be used and whose name contains `part`; if `part` is empty, the first
/// GPU or accelerator, else the first device. Fails with LLMC_ERROR_DEVICE.
Outcome<FoundDevice> find_device(const Api& api, const std::string& part);

}  // namespace llmc::hosted::opencl
