#include "compiler/evaluate/scores.h"

#include <algorithm>
#include <cmath>

#include "compiler/evaluate/logits.h"
#include "compiler/support/check.h"

namespace llmc::evaluate {
namespace {

/// Returns exp of a mean. The error is a first-order approximation.
Estimate exponential(Estimate mean) {
  const double value = std::exp(mean.value);
  return {value, value * mean.error};
}

float logit_of(std::span<const float> logits, std::int32_t token) {
  LLMC_CHECK(token >= 0 && static_cast<std::size_t>(token) < logits.size());
  return logits[static_cast<std::size_t>(token)];
}

}  // namespace

void RunningMean::add(double value) {
  ++count_;
  const double from_old = value - mean_;
  mean_ += from_old / static_cast<double>(count_);
  squares_ += from_old * (value - mean_);
}

Estimate RunningMean::mean() const {
  if (count_ < 2) return {mean_, 0};
  const auto n = static_cast<double>(count_);
  return {mean_, std::sqrt(squares_ / n / (n - 1))};
}

double quantile(std::span<const double> sorted, double part) {
  LLMC_CHECK(!sorted.empty() && part >= 0 && part <= 1);
  const double place = part * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  const double weight = place - static_cast<double>(below);
  return weight == 0 ? sorted[below] : (1 - weight) * sorted[below] + weight * sorted[above];
}

bool Scores::add(std::span<const float> logits, std::int32_t token) {
  const double loss = log_sum_exp(logits) - logit_of(logits, token);
  if (!std::isfinite(loss)) return false;
  loss_.add(loss);
  return true;
}

bool Scores::add(std::span<const float> logits, std::int32_t token, std::span<const float> base) {
  const double log_sum = log_sum_exp(logits), base_log_sum = log_sum_exp(base);
  const double loss = log_sum - logit_of(logits, token);
  const double base_loss = base_log_sum - logit_of(base, token);
  const double kl = kl_divergence(base, base_log_sum, logits, log_sum);
  if (!std::isfinite(loss) || !std::isfinite(base_loss) || !std::isfinite(kl)) return false;
  loss_.add(loss);
  base_loss_.add(base_loss);
  difference_.add(loss - base_loss);
  kl_.add(kl);
  kl_values_.push_back(kl);
  same_ += likeliest(logits) == likeliest(base) ? 1 : 0;
  return true;
}

Estimate Scores::perplexity() const {
  return exponential(loss_.mean());
}

std::optional<Divergence> Scores::divergence() const {
  if (kl_values_.empty()) return std::nullopt;
  std::vector<double> sorted = kl_values_;
  std::ranges::sort(sorted);
  const auto n = static_cast<double>(sorted.size());
  const double same = static_cast<double>(same_) / n;
  return Divergence{
      .base_perplexity = exponential(base_loss_.mean()),
      .ratio = exponential(difference_.mean()),
      .kl = kl_.mean(),
      .median = quantile(sorted, 0.5),
      .p90 = quantile(sorted, 0.9),
      .p99 = quantile(sorted, 0.99),
      .p999 = quantile(sorted, 0.999),
      .largest = sorted.back(),
      .same_top = {same, n < 2 ? 0 : std::sqrt(same * (1 - same) / (n - 1))},
  };
}

}  // namespace llmc::evaluate
