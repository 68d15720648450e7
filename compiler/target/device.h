#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

/// The table of accelerators for --accelerate.
namespace llmc::target {

/// An accelerator: what it supports, and the costs by which the compiler divides the forward pass
/// (plan/partition.h).
struct Device {
  std::string_view name;
  /// Weight formats of the matrix products that it supports, as in --quant; empty: all formats.
  std::span<const std::string_view> formats = {};
  /// Whether it reads and writes the memory of the CPU, so that nothing is copied.
  bool shares_memory = true;
  double multiply_adds_per_ns = 0;  // of matrix products of a whole chunk
  double bytes_per_ns = 0;          // copied between CPU and device
  double submit_ns = 0;             // latency of starting a region and of detecting its end
};

/// Assumed multiply-adds per nanosecond of matrix products on the CPU, to which a device is
/// compared. This is about the rate of one core with 256-bit integer dot products.
inline constexpr double kCpuMultiplyAddsPerNs = 60;

/// Returns the names of all devices: "reference, opencl, simulated".
std::string device_names();
/// Returns nullptr if there is no device of this name.
const Device* find_device(std::string_view name);

}  // namespace llmc::target
