#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

/// The accelerators that --accelerate names.
namespace llmc::target {

/// What a device computes, and the costs by which the compiler decides what it gets
/// (plan/partition.h).
struct Device {
  std::string_view name;
  /// Weight formats of the matrix products that it takes, as in --quant; empty: all formats.
  std::span<const std::string_view> formats = {};
  /// Whether it reads and writes the memory of the CPU, so that nothing is copied.
  bool shares_memory = true;
  double multiply_adds_per_ns = 0;  // of matrix products of a whole chunk
  double bytes_per_ns = 0;          // across the border, in each direction
  double submit_ns = 0;             // to start a region and to learn that it is done
};

/// Multiply-adds of a matrix product per nanosecond on the CPU, with which a device is compared:
/// about those of one core with 256-bit integer dot products.
inline constexpr double kCpuMultiplyAddsPerNs = 60;

/// Returns the names with commas between them: "reference, simulated".
std::string device_names();
/// Returns nullptr if there is no device of this name.
const Device* find_device(std::string_view name);

}  // namespace llmc::target
