#pragma once

#include <string>
#include <vector>

#include "runtime/hosted/device/opencl_api.h"

namespace llmc::hosted::opencl {

/// How the kernels compute dot products of four bytes. The values are those of BYTE_PRODUCTS.
enum class ByteProducts {
  kPlain = 0,
  kExtension = 1,  // cl_khr_integer_dot_product
  kPtx = 2,        // NVIDIA's instruction dp4a
};

/// How products of quantized matrices are computed. The values are those of MATRIX_PRODUCTS.
enum class MatrixProducts {
  kNone = 0,  // with ByteProducts
  kPtx = 1,   // with NVIDIA's tensor core instruction mma.sync for bytes
  // Like kPtx, but with ByteProducts instead of this instruction, for tests on other devices.
  kEmulated = 2,
};

struct FoundDevice {
  Handle id = nullptr;
  std::string name;      // "platform: device"
  std::string versions;  // of the device and its driver
  bool is_cpu = false;
  bool shares_memory = false;        // with the CPU
  std::uint64_t max_allocation = 0;  // maximum size of a buffer in bytes
  std::size_t max_group = 1;         // maximum number of work items per group
  ByteProducts byte_products = ByteProducts::kPlain;
  MatrixProducts matrix_products = MatrixProducts::kNone;
  /// Why the device cannot be used: it is not available, lacks a feature, or does not declare the
  /// correctly rounded floats and subnormals that docs/numerics.md needs. Empty if it can be used.
  std::string obstacle;
};

/// Returns all devices of all platforms, at most 64 of each.
std::vector<FoundDevice> list_devices(const Api& api);
/// Finds a usable device whose name contains `part`, which may be empty: the first GPU or
/// accelerator, else the first CPU. Fails with LLMC_ERROR_DEVICE.
Outcome<FoundDevice> find_device(const Api& api, const std::string& part);

}  // namespace llmc::hosted::opencl
