#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "llmc/llmc.h"

namespace llmc::hosted {

/// Maximum absolute value of penalties, factors, rates and bases.
inline constexpr double kMaxSamplingNumber = 1e6;

/// A numeric parameter of llmc_sampling for which a model's files may recommend a value.
struct SamplingParameter {
  const char* name;  // name of the field in llmc_sampling
  double min, max;
  /// The field of a parameter that is not an integer; else nullptr.
  float llmc_sampling::* number;
  std::int32_t llmc_sampling::* whole;  // the field of an integer parameter; else nullptr
};

std::span<const SamplingParameter> sampling_parameters();
/// Returns the parameter with this name; nullptr if there is none.
const SamplingParameter* sampling_parameter(std::string_view name);

/// A parameter and its value, which is in the parameter's range.
struct SamplingValue {
  const SamplingParameter* parameter;
  double value;
};
using SamplingValues = std::vector<SamplingValue>;

/// Returns whether `value` is finite and in the parameter's range, and an integer if the parameter
/// is.
bool is_valid(const SamplingParameter& parameter, double value);
/// Sets the field of the parameter; the other fields are unchanged.
void set(const SamplingValue& value, llmc_sampling& sampling);

}  // namespace llmc::hosted
