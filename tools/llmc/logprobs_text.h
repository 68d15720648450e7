#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "llmc/llmc.h"
#include "runtime/hosted/tokenizer.h"
#include "tools/llmc/cli.h"

/// Output of `run --logprobs`.
namespace llmc::cli {

/// The log-probability of a sampled token and of the most probable ones.
struct TokenLogprobs {
  float chosen = 0;
  std::vector<llmc_candidate> top;
};

/// Returns JSON of one token: `id`, `piece` (its name in the vocabulary), `logprob`, and
/// `top_logprobs`, a list of tokens with the first three fields.
Json logprob_json(std::int32_t id, const TokenLogprobs& logprobs,
                  const hosted::Tokenizer* tokenizer);
/// Returns JSON of a whole text; `all` has one entry per id. `tokenizer` may be null; then tokens
/// have no names.
Json logprobs_json(std::span<const std::int32_t> ids, std::span<const TokenLogprobs> all,
                   const hosted::Tokenizer* tokenizer);
/// Returns the same as lines: each sampled token, then the most probable ones at its place.
std::string logprobs_text(std::span<const std::int32_t> ids, std::span<const TokenLogprobs> all,
                          const hosted::Tokenizer* tokenizer);

}  // namespace llmc::cli
