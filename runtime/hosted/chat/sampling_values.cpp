#include "runtime/hosted/chat/sampling_values.h"

#include <cmath>

namespace llmc::hosted {
namespace {

constexpr SamplingParameter kSamplingParameters[] = {
    {"temperature", 0, 100, &llmc_sampling::temperature, nullptr},
    {"top_k", 0, INT32_MAX, nullptr, &llmc_sampling::top_k},
    {"top_p", 0, 1, &llmc_sampling::top_p, nullptr},
    {"min_p", 0, 1, &llmc_sampling::min_p, nullptr},
    {"tfs_z", 0, 1, &llmc_sampling::tfs_z, nullptr},
    {"typical_p", 0, 1, &llmc_sampling::typical_p, nullptr},
    {"repeat_penalty", 0, kMaxSamplingNumber, &llmc_sampling::repeat_penalty, nullptr},
    {"frequency_penalty", -kMaxSamplingNumber, kMaxSamplingNumber,
     &llmc_sampling::frequency_penalty, nullptr},
    {"presence_penalty", -kMaxSamplingNumber, kMaxSamplingNumber, &llmc_sampling::presence_penalty,
     nullptr},
};

}  // namespace

std::span<const SamplingParameter> sampling_parameters() {
  return kSamplingParameters;
}

const SamplingParameter* sampling_parameter(std::string_view name) {
  for (const SamplingParameter& parameter : kSamplingParameters)
    if (parameter.name == name) return &parameter;
  return nullptr;
}

bool is_valid(const SamplingParameter& parameter, double value) {
  if (!(value >= parameter.min && value <= parameter.max)) return false;  // also rejects NaN
  return parameter.number != nullptr || value == std::floor(value);
}

void set(const SamplingValue& value, llmc_sampling& sampling) {
  if (value.parameter->number != nullptr)
    sampling.*(value.parameter->number) = static_cast<float>(value.value);
  else
    sampling.*(value.parameter->whole) = static_cast<std::int32_t>(value.value);
}

}  // namespace llmc::hosted
