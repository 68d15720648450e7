#pragma once

#include "tests/runtime/core/fake_model.h"

/// The fake model's logits from nothing but the tokens: no cache, no chunks, no session.
namespace llmc::fake {

/// `positions`: of each token in a model with position axes; empty: in one without.
inline std::vector<float> plain_logits(const std::vector<std::int32_t>& tokens,
                                       const std::vector<Positions>& positions = {}) {
  std::uint64_t row[kLanes];
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    row[lane] = kWeights[0];
    for (std::size_t p = 0; p < tokens.size(); ++p)
      row[lane] = mix(row[lane], mix(static_cast<std::uint64_t>(tokens[p]) << 8 | lane,
                                     place_of(p, positions.empty() ? nullptr : &positions[p])));
  }
  std::vector<float> logits(kVocab);
  std::uint32_t best = 0;
  head(nullptr, reinterpret_cast<const float*>(row), 1, logits.data(), &best);
  return logits;
}

inline std::uint64_t plain_hash(const std::vector<std::int32_t>& tokens,
                                const std::vector<Positions>& positions = {}) {
  return hash_logits(plain_logits(tokens, positions).data());
}

inline std::int32_t plain_greedy(const std::vector<std::int32_t>& tokens) {
  const std::vector<float> logits = plain_logits(tokens);
  return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

}  // namespace llmc::fake
