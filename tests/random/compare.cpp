#include "tests/random/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace llmc::testing {
namespace {

/// `tolerance` of the element itself; of the largest element a hundredth of that, for sums that
/// cancel.
bool same_float(double a, double b, double scale, double tolerance) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::abs(a - b) <= tolerance * std::max(std::abs(a), scale / 100);
}

}  // namespace

std::string difference(const std::vector<reference::Tensor>& expected,
                       const std::vector<reference::Tensor>& computed) {
  if (expected.size() != computed.size()) return "another number of outputs";
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const reference::Tensor &a = expected[i], &b = computed[i];
    if (a.element != b.element || a.dims != b.dims)
      return fmt::format("output {}: {} instead of {}", i, type_text(b), type_text(a));
    std::string found;
    reference::with_data(a.element, [&](auto member) {
      const auto &x = a.*member, &y = b.*member;
      double scale = 1;
      for (const auto v : x)
        if (std::isfinite(static_cast<double>(v)))
          scale = std::max(scale, std::abs(static_cast<double>(v)));
      for (std::size_t j = 0; j < x.size() && found.empty(); ++j) {
        const bool same = a.is_float()
                              ? same_float(static_cast<double>(x[j]), static_cast<double>(y[j]),
                                           scale, a.element == ir::ElementType::kF64 ? 1e-9 : 1e-4)
                              : x[j] == y[j];
        if (!same) found = fmt::format("output {}, element {}: {} instead of {}", i, j, y[j], x[j]);
      }
    });
    if (!found.empty()) return found;
  }
  return {};
}

}  // namespace llmc::testing
