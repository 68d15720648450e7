#include "sampler.h"

#include "philox.h"

namespace llmc::core {
namespace {

constexpr float kInfinity = __builtin_inff();

// llama.cpp's order. Penalties and dry come before top_k, typical_p between top_k and top_p, xtc
// before temperature.
constexpr SamplerStage kChain[] = {
    {"top_k", apply_top_k},
    {"top_p", apply_top_p},
    {"min_p", apply_min_p},
    {"temperature", apply_temperature},
};

bool finite(float value) {
  return value > -kInfinity && value < kInfinity;
}

}  // namespace

llmc_status check_sampling(const llmc_sampling& sampling) {
  for (const uint32_t word : sampling.reserved)
    if (word != 0) return LLMC_ERROR_VERSION;
  const bool numbers =
      finite(sampling.temperature) && finite(sampling.top_p) && finite(sampling.min_p);
  return numbers ? LLMC_OK : LLMC_ERROR_SAMPLING;
}

llmc_status sample_token(const float* logits, uint32_t vocab, uint32_t best,
                         const llmc_sampling& sampling, uint64_t position, Candidate* entries,
                         int32_t* token) {
  const float best_logit = logits[best];
  if (!finite(best_logit)) return LLMC_ERROR_NOT_FINITE;
  if (sampling.temperature <= 0.0f) {  // no stage so far can take the best candidate away
    *token = static_cast<int32_t>(best);
    return LLMC_OK;
  }
  for (uint32_t i = 0; i < vocab; ++i) {
    const float logit = logits[i] >= -kInfinity ? logits[i] : -kInfinity;  // NaN: impossible
    entries[i] = {logit, static_cast<int32_t>(i)};
  }
  Candidates candidates{entries, vocab, best_logit, false};
  for (const SamplerStage& stage : kChain) stage.apply(candidates, sampling);
  *token = draw(candidates, uniform_draw(sampling.seed, position, 0));
  return LLMC_OK;
}

}  // namespace llmc::core

extern "C" void llmc_sampling_defaults(llmc_sampling* sampling) {
  if (sampling == nullptr) return;
  *sampling = llmc_sampling{};
  sampling->temperature = 0.8f;
  sampling->top_k = 40;
  sampling->top_p = 0.95f;
  sampling->min_p = 0.05f;
}
