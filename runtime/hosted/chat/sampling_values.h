#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "llmc/llmc.h"

namespace llmc::hosted {

/// The greatest factor, penalty, rate or base that is taken.
inline constexpr double kMaxSamplingNumber = 1e6;

/// A numeric parameter of llmc_sampling that a model's files may recommend a value for.
struct SamplingParameter {
  const char* name;  // of the field in llmc_sampling
  double least, greatest;
  float llmc_sampling::* number;        // nullptr: the next one
  std::int32_t llmc_sampling::* whole;  // takes whole numbers
};

std::span<const SamplingParameter> sampling_parameters();
/// nullptr when no parameter has this name.
const SamplingParameter* sampling_parameter(std::string_view name);

/// A parameter and its value, which is in range.
struct SamplingValue {
  const SamplingParameter* parameter;
  double value;
};
using SamplingValues = std::vector<SamplingValue>;

/// Whether `value` is finite, within the parameter's range and whole where it has to be.
bool is_valid(const SamplingParameter& parameter, double value);
/// Sets one field; the others stay.
void set(const SamplingValue& value, llmc_sampling& sampling);

}  // namespace llmc::hosted
