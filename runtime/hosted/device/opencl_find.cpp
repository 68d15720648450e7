#include "runtime/hosted/device/opencl_find.h"

#include <algorithm>
#include <optional>
#include <string_view>

namespace llmc::hosted::opencl {
namespace {

/// Maximum number of platforms, and of devices of a platform. Others are ignored.
constexpr std::uint32_t kMaxListed = 64;
/// Number of work items of a group of norm_rows (opencl_rows.h).
constexpr std::size_t kMinGroup = 64;

template <class T>
std::optional<T> info(const Api& api, Handle device, Constant what) {
  T value{};
  if (api.GetDeviceInfo(device, what, sizeof value, &value, nullptr) != 0) return std::nullopt;
  return value;
}

std::string device_text(const Api& api, Handle device, Constant what) {
  std::size_t bytes = 0;
  if (api.GetDeviceInfo(device, what, 0, nullptr, &bytes) != 0) return "unknown";
  std::string text(bytes, '\0');
  if (api.GetDeviceInfo(device, what, bytes, text.data(), nullptr) != 0) return "unknown";
  return text.c_str();  // ends with a zero
}

bool has_extension(const Api& api, Handle device, const char* name) {
  const std::string extensions = " " + device_text(api, device, kDeviceExtensions) + " ";
  return extensions.find(" " + std::string(name) + " ") != std::string::npos;
}

/// Returns the compute capability of NVIDIA's devices, 61 for 6.1; 0 for others.
std::uint32_t compute_capability(const Api& api, Handle device) {
  if (!has_extension(api, device, "cl_nv_device_attribute_query")) return 0;
  return info<std::uint32_t>(api, device, kDeviceComputeMajor).value_or(0) * 10 +
         info<std::uint32_t>(api, device, kDeviceComputeMinor).value_or(0);
}

/// Returns how the device can compute dot products of four bytes. `capability`:
/// compute_capability().
ByteProducts byte_products(const Api& api, Handle device, std::uint32_t capability) {
  if (has_extension(api, device, "cl_khr_integer_dot_product")) return ByteProducts::kExtension;
  return capability >= 61 ? ByteProducts::kPtx : ByteProducts::kPlain;
}

/// Returns why a device cannot be used; empty if it can.
std::string obstacle(const Api& api, Handle device) {
  if (info<std::uint32_t>(api, device, kDeviceAvailable).value_or(0) == 0) return "not available";
  if (info<std::uint32_t>(api, device, kDeviceLittleEndian).value_or(0) == 0)
    return "not little-endian";
  // "OpenCL 1.2 …"
  const std::string version = device_text(api, device, kDeviceVersion);
  if (version.starts_with("OpenCL 1.0") || version.starts_with("OpenCL 1.1"))
    return version.substr(0, 10) + " is older than OpenCL 1.2";
  if (info<std::size_t>(api, device, kDeviceMaxGroup).value_or(0) < kMinGroup)
    return "groups have fewer than 64 work items";
  constexpr Bits kNeeded = kFpDenormals | kFpInfinities | kFpToNearest | kFpDivision;
  const Bits floats = info<Bits>(api, device, kDeviceSingleFp).value_or(0);
  if ((floats & kNeeded) != kNeeded)
    return "divisions, square roots or subnormal floats are not exact";
  return {};
}

/// Returns whether `name` contains `part`, without regard to the case of ASCII letters.
bool contains(std::string_view name, std::string_view part) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return part.empty() || !std::ranges::search(name, part, {}, lower, lower).empty();
}

}  // namespace

std::vector<FoundDevice> list_devices(const Api& api) {
  std::vector<FoundDevice> found;
  Handle platforms[kMaxListed];
  std::uint32_t platform_count = 0;
  if (api.GetPlatformIDs(kMaxListed, platforms, &platform_count) != 0) return found;
  for (std::uint32_t p = 0; p < std::min(platform_count, kMaxListed); ++p) {
    char platform[256] = {};
    Handle devices[kMaxListed];
    std::uint32_t count = 0;
    if (api.GetPlatformInfo(platforms[p], kPlatformName, sizeof platform - 1, platform, nullptr) !=
            0 ||
        api.GetDeviceIDs(platforms[p], kTypeAll, kMaxListed, devices, &count) != 0)
      continue;
    for (std::uint32_t d = 0; d < std::min(count, kMaxListed); ++d) {
      const Handle id = devices[d];
      const std::uint32_t capability = compute_capability(api, id);
      found.push_back(
          {.id = id,
           .name = std::string(platform) + ": " + device_text(api, id, kDeviceName),
           .versions =
               device_text(api, id, kDeviceVersion) + ", " + device_text(api, id, kDriverVersion),
           .is_cpu = (info<Bits>(api, id, kDeviceType).value_or(0) & kTypeCpu) != 0,
           .shares_memory = info<std::uint32_t>(api, id, kDeviceUnifiedMemory).value_or(0) != 0,
           .max_allocation =
               info<std::uint64_t>(api, id, kDeviceMaxAllocation).value_or(UINT64_MAX),
           .max_group = info<std::size_t>(api, id, kDeviceMaxGroup).value_or(1),
           .byte_products = byte_products(api, id, capability),
           .matrix_products = capability >= 80 ? MatrixProducts::kPtx : MatrixProducts::kNone,
           .obstacle = obstacle(api, id)});
    }
  }
  return found;
}

Outcome<FoundDevice> find_device(const Api& api, const std::string& part) {
  std::optional<FoundDevice> best;
  std::string others;
  for (const FoundDevice& device : list_devices(api)) {
    if (device.obstacle.empty() && contains(device.name, part)) {
      if (!device.is_cpu) return device;
      if (!best) best = device;
      continue;
    }
    if (!others.empty()) others += "; ";
    others += device.name;
    if (!device.obstacle.empty()) others += " (" + device.obstacle + ")";
  }
  if (best) return *best;
  std::string message =
      part.empty() ? "no OpenCL device can be used" : "no OpenCL device has a name with " + part;
  if (!others.empty()) message += "; there are: " + others;
  return Failure{.status = LLMC_ERROR_DEVICE,
                 .message = message,
                 .hint = others.empty() ? "install the OpenCL driver of your device"
                         : part.empty() ? ""
                                        : "give a part of one of these names"};
}

}  // namespace llmc::hosted::opencl
