#pragma once

#include <cstddef>

/// Sizes of tests that need much of something.
namespace llmc::tests {

/// Returns `count`, or a tenth of it under the address sanitizer, where a step takes up to 60 times
/// as long. The tests that use it run in both builds.
constexpr std::size_t load(std::size_t count) {
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
  return count / 10;
#endif
#endif
  return count;
}

}  // namespace llmc::tests
