#pragma once

#include <string>
#include <vector>

#include "runtime/hosted/device/opencl_api.h"

namespace llmc::hosted::opencl {

/// How the kernels compute sums of four products of bytes; the values of their BYTE_PRODUCTS.
enum class ByteProducts {
  kPlain = 0,
  kExtension = 1,  // cl_khr_integer_dot_product
  kPtx = 2,        // an instruction of NVIDIA's processors
};

/// How products of quantized matrices are computed; the values of MATRIX_PRODUCTS.
enum class MatrixProducts {
  kNone = 0,  // by ByteProducts
  kPtx = 1,   // by instructions of NVIDIA's processors that multiply small matrices of bytes
  // As kPtx, with ByteProducts in place of these instructions: for tests on other devices.
  kEmulated = 2,
};

struct FoundDevice {
  Handle id = nullptr;
  std::string name;      // "platform: device"
  std::string versions;  // of the device and its driver
  bool is_cpu = false;
  bool shares_memory = false;        // with the CPU
  std::uint64_t max_allocation = 0;  // bytes of one buffer
  std::size_t max_group = 1;         // work items of a group
  ByteProducts byte_products = ByteProducts::kPlain;
  MatrixProducts matrix_products = MatrixProducts::kNone;
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
