#include "compiler/target/device.h"

#include <algorithm>
#include <ranges>

#include "compiler/support/name_list.h"

namespace llmc::target {
namespace {

constexpr Device kDevices[] = {
    // Separate threads of the CPU, with the kernels of the target.
    {.name = "reference",
     .multiply_adds_per_ns = kCpuMultiplyAddsPerNs,
     .bytes_per_ns = 10,
     .submit_ns = 5000},
    // A GPU or another processor with OpenCL. The costs are those of a small GPU.
    {.name = "opencl",
     .shares_memory = false,
     .multiply_adds_per_ns = 8 * kCpuMultiplyAddsPerNs,
     .bytes_per_ns = 10,
     .submit_ns = 20000},
    // Runs like `reference`, with the costs of an assumed accelerator, for `plan --timeline`.
    {.name = "simulated",
     .shares_memory = false,
     .multiply_adds_per_ns = 8 * kCpuMultiplyAddsPerNs,
     .bytes_per_ns = 20,
     .submit_ns = 10000},
};

}  // namespace

std::string device_names() {
  return name_list(std::views::transform(kDevices, &Device::name), ", ");
}

const Device* find_device(std::string_view name) {
  const auto* const found = std::ranges::find(kDevices, name, &Device::name);
  return found == std::end(kDevices) ? nullptr : found;
}

}  // namespace llmc::target
