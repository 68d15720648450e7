#include "compiler/evaluate/logits.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "compiler/support/check.h"

namespace llmc::evaluate {

std::vector<std::int32_t> fixed_prompt(std::uint32_t vocabulary, std::size_t count) {
  std::vector<std::int32_t> ids;
  std::uint64_t state = 1;
  for (std::size_t i = 0; i < count; ++i) {
    ids.push_back(static_cast<std::int32_t>((state >> 33) % vocabulary));
    state = state * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX
  }
  return ids;
}

exec::EncoderInput fixed_source(const exec::ModelFacts& model) {
  constexpr std::uint32_t kTokens = 21;
  if (model.source_max == 0) return {};
  if (model.source_width == 0)
    return {.ids = fixed_prompt(model.source_vocab, std::min(model.source_max, kTokens)),
            .features = {}};
  const std::uint64_t frames =
      std::min<std::uint64_t>(model.source_max, std::uint64_t{8} * model.source_min);
  return {.ids = {}, .features = exec::random_features(frames * model.source_width)};
}

std::uint32_t logit_bits(float logit) {
  constexpr std::uint32_t kNan = 0x7fc00000;
  return std::isnan(logit) ? kNan : std::bit_cast<std::uint32_t>(logit);
}

LogitHash::LogitHash() : state_(XXH64_createState()) {
  LLMC_CHECK(state_ != nullptr);
  XXH64_reset(state_, 0);
}

LogitHash::~LogitHash() {
  XXH64_freeState(state_);
}

void LogitHash::add(std::span<const float> logits) {
  const auto is_nan = [](float x) { return std::isnan(x); };
  if (std::ranges::none_of(logits, is_nan)) {
    XXH64_update(state_, logits.data(), logits.size_bytes());
    return;
  }
  std::vector<std::uint32_t> bits;
  for (const float logit : logits) bits.push_back(logit_bits(logit));
  XXH64_update(state_, bits.data(), bits.size() * sizeof(std::uint32_t));
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

std::int32_t likeliest(std::span<const float> logits) {
  return static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
}

double kl_divergence(std::span<const float> base, double base_log_sum,
                     std::span<const float> tested, double tested_log_sum) {
  LLMC_CHECK(base.size() == tested.size());
  double divergence = 0;
  for (std::size_t i = 0; i < base.size(); ++i) {
    const double log_p = base[i] - base_log_sum;
    const double p = std::exp(log_p);
    if (p == 0) continue;  // the limit of the term is 0, but log_p may be infinite
    divergence += p * (log_p - (tested[i] - tested_log_sum));
  }
  return std::max(divergence, 0.0);  // removes negative rounding errors; keeps NaN
}

}  // namespace llmc::evaluate
