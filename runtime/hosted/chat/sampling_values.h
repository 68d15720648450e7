#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "llmc/llmc.h"

namespace llmc::hosted {

/// Maximum accepted factor, penalty, rate or base.
inline constexpr double kMaxSamplingNumber = 1e6;

/// A numeric parameter of llmc_sampling for which a model's files may recommend a value.
struct SamplingParameter {
  const char* name;  // name of the field in llmc_sampling
  double min, max;
  float llmc_sampling::* number;        // nullptr: the parameter is the next field
  std::int32_t llmc_sampling::* whole;  // for integer parameters
};

std::span<const SamplingParameter> sampling_parameters();
/// Returns nullptr if no parameter has this name.
const SamplingParameter* sampling_parameter(std::string_view name);

/// A parameter and a value in its range.
struct SamplingValue {
  const SamplingParameter* parameter;
  double value;
};
using SamplingValues = std::vector<SamplingValue>;

/// Returns whether `value` is finite, in the parameter's range, and an integer if required.
bool is_valid(const SamplingParameter& parameter, double value);
/// Sets one field; the others are unchanged.
void set(const SamplingValue& value, llmc_sampling& sampling);

}  // namespace llmc::hosted
