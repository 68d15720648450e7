#include "compiler/evaluate/output_difference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace llmc::evaluate {
namespace {

std::string type_text(const ir::Constant& data) {
  return fmt::format("{}[{}]", ir::to_string(data.element()), fmt::join(data.dims(), ", "));
}

/// Returns by how much an element exceeds the tolerance; not positive if it does not.
double excess(double actual, double expected, bool exact, double relative, double absolute) {
  if (std::isnan(actual) || std::isnan(expected))
    return std::isnan(actual) && std::isnan(expected) ? 0 : HUGE_VAL;
  if (actual == expected) return 0;
  if (exact || std::isinf(actual) || std::isinf(expected)) return HUGE_VAL;
  return std::fabs(actual - expected) - (absolute + relative * std::fabs(expected));
}

double absolute_of(const Tolerance& tolerance, ir::ElementType element, double largest) {
  const double share = element == ir::ElementType::kF16    ? 5e-3
                       : element == ir::ElementType::kBF16 ? 4e-2
                                                           : 1e-5;
  return tolerance.absolute.value_or(1e-7 + share * largest);
}

/// Returns whether elements of this type are usually indices or flags, whose differences have no
/// size.
bool are_labels(ir::ElementType element) {
  return element == ir::ElementType::kBool ||
         (ir::is_integer(element) && ir::element_bytes(element) >= 4);
}

/// Returns the root mean square of the differences divided by that of the expected elements; for
/// labels, the share of elements that differ.
double relative_error(const ir::Constant& actual, const ir::Constant& expected,
                      std::uint64_t mismatches) {
  if (are_labels(expected.element()))
    return mismatches == 0
               ? 0
               : static_cast<double>(mismatches) / static_cast<double>(expected.element_count());
  const std::vector<double> a = ir::to_doubles(actual), e = ir::to_doubles(expected);
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < e.size(); ++i) {
    if (a[i] == e[i] || (std::isnan(a[i]) && std::isnan(e[i]))) {
      if (std::isfinite(e[i])) size += e[i] * e[i];
      continue;
    }
    difference += (a[i] - e[i]) * (a[i] - e[i]);
    size += e[i] * e[i];
  }
  return difference == 0 ? 0 : std::sqrt(difference / size);
}

}  // namespace

OutputDifference compare(const std::string& name, const ir::Constant& actual,
                         const ir::Constant& expected, const Tolerance& tolerance) {
  OutputDifference result;
  result.name = name;
  result.element = expected.element();
  result.dims = expected.dims();
  if (actual.element() != expected.element() || actual.dims() != expected.dims()) {
    result.problem = fmt::format("is {}, expected {}", type_text(actual), type_text(expected));
    return result;
  }
  const bool exact = !ir::is_float(expected.element());
  if (exact && actual.bytes() == expected.bytes()) return result;
  const std::vector<double> a = ir::to_doubles(actual), e = ir::to_doubles(expected);
  const std::size_t size = ir::element_bytes(expected.element());
  const std::vector<std::byte> a_bytes = exact ? actual.bytes() : std::vector<std::byte>{};
  const std::vector<std::byte> e_bytes = exact ? expected.bytes() : std::vector<std::byte>{};
  double worst = 0;
  for (const double x : e)
    if (std::isfinite(x)) result.largest = std::max(result.largest, std::fabs(x));
  result.all_zeros = !a.empty() && std::ranges::all_of(a, [](double x) { return x == 0; });
  const double absolute = absolute_of(tolerance, expected.element(), result.largest);
  for (std::size_t i = 0; i < e.size(); ++i) {
    if (std::isfinite(a[i]) && std::isfinite(e[i]))
      result.difference = std::max(result.difference, std::fabs(a[i] - e[i]));
    // Different 64-bit integers may convert to the same double.
    const bool differ =
        exact && !std::equal(&a_bytes[i * size], &a_bytes[i * size] + size, &e_bytes[i * size]);
    const double over = differ ? HUGE_VAL : excess(a[i], e[i], exact, tolerance.relative, absolute);
    if (!(over > 0)) continue;
    ++result.mismatches;
    if (over > worst) {
      worst = over;
      result.worst = static_cast<std::int64_t>(i);
      result.actual = a[i];
      result.expected = e[i];
    }
  }
  return result;
}

VerifiedOutput verify_output(const std::string& name, const ir::Constant& actual,
                             const ir::Constant& expected, double allowed,
                             const Tolerance& tolerance) {
  VerifiedOutput output{.largest = compare(name, actual, expected, tolerance)};
  const bool comparable = output.largest.problem.empty();
  if (comparable)
    output.relative_error = relative_error(actual, expected, output.largest.mismatches);
  output.ok = allowed == 0 ? output.largest.ok() : comparable && output.relative_error <= allowed;
  return output;
}

}  // namespace llmc::evaluate
