#include "compiler/driver/logits.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cmath>

#include "compiler/support/check.h"

namespace llmc::driver {

LogitHash::LogitHash() : state_(XXH64_createState()) {
  LLMC_CHECK(state_ != nullptr);
  XXH64_reset(state_, 0);
}

LogitHash::~LogitHash() {
  XXH64_freeState(state_);
}

void LogitHash::add(std::span<const float> logits) {
  XXH64_update(state_, logits.data(), logits.size_bytes());
}

std::string LogitHash::text() const {
  return fmt::format("{:016x}", XXH64_digest(state_));
}

double log_sum_exp(std::span<const float> logits) {
  LLMC_CHECK(!logits.empty());
  const double largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float x : logits) sum += std::exp(x - largest);
  return largest + std::log(sum);
}

}  // namespace llmc::driver
