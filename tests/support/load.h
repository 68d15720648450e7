#pragma once

#include <cstddef>

/// Differences between tests with and without the address sanitizer.
namespace llmc::tests {

#if defined(__has_feature)
inline constexpr bool kAddressSanitizer = __has_feature(address_sanitizer);
#else
inline constexpr bool kAddressSanitizer = false;
#endif

/// Returns `count`, or a tenth of it under the address sanitizer, where a step takes up to 60 times
/// as long. The tests that use it run in both builds.
constexpr std::size_t load(std::size_t count) {
  return kAddressSanitizer ? count / 10 : count;
}

}  // namespace llmc::tests
