#include "runtime/hosted/device/opencl_find.h"

#include <algorithm>
#include <optional>

namespace llmc::hosted::opencl {
namespace {

/// More platforms, or devices of a platform, are ignored.
constexpr std::uint32_t kMost = 64;

template <class T>
std::optional<T> info(const Api& api, Handle device, Constant what) {
  T value{};
  if (api.GetDeviceInfo(device, what, sizeof value, &value, nullptr) != 0) return std::nullopt;
  return value;
}

std::string device_text(const Api& api, Handle device, Constant what) {
  char text[256] = {};
  if (api.GetDeviceInfo(device, what, sizeof text - 1, text, nullptr) != 0) return "unknown";
  return text;
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
  constexpr Bits kNeeded = kFpDenormals | kFpInfinities | kFpToNearest | kFpDivision;
  const Bits floats = info<Bits>(api, device, kDeviceSingleFp).value_or(0);
  if ((floats & kNeeded) != kNeeded)
    return "divisions, square roots or subnormal floats are not exact";
  return {};
}

}  // namespace

Outcome<FoundDevice> find_device(const Api& api, const std::string& part) {
  Handle platforms[kMost];
  std::uint32_t platform_count = 0;
  if (api.GetPlatformIDs(kMost, platforms, &platform_count) != 0) platform_count = 0;
  std::optional<FoundDevice> best;
  std::string others;
  for (std::uint32_t p = 0; p < std::min(platform_count, kMost); ++p) {
    char platform[256] = {};
    if (api.GetPlatformInfo(platforms[p], kPlatformName, sizeof platform - 1, platform, nullptr) !=
        0)
      continue;
    Handle devices[kMost];
    std::uint32_t count = 0;
    if (api.GetDeviceIDs(platforms[p], kTypeAll, kMost, devices, &count) != 0) continue;
    for (std::uint32_t d = 0; d < std::min(count, kMost); ++d) {
      const std::string name =
          std::string(platform) + ": " + device_text(api, devices[d], kDeviceName);
      const bool wanted = name.find(part) != std::string::npos;
      const std::string reason = obstacle(api, devices[d]);
      if (!wanted || !reason.empty()) {
        others += (others.empty() ? "" : "; ") + name + (reason.empty() ? "" : " (" + reason + ")");
        continue;
      }
      const bool is_cpu = (info<Bits>(api, devices[d], kDeviceType).value_or(0) & kTypeCpu) != 0;
      const FoundDevice found{
          devices[d], name,
          info<std::uint32_t>(api, devices[d], kDeviceUnifiedMemory).value_or(0) != 0};
      if (!is_cpu) return found;
      if (!best) best = found;
    }
  }
  if (best) return *best;
  std::string message =
      part.empty() ? "no OpenCL device can be used" : "no OpenCL device has the name " + part;
  if (!others.empty()) message += "; there are: " + others;
  return Failure{.status = LLMC_ERROR_DEVICE,
                 .message = message,
                 .hint = others.empty() ? "install the OpenCL driver of your device" : ""};
}

}  // namespace llmc::hosted::opencl
