#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "llmc/llmc.h"
#include "runtime/hosted/tokenizer.h"
#include "tools/llmc/cli.h"

/// --logprobs of `run`.
namespace llmc::cli {

/// What the model said about a token that was chosen.
struct TokenLogprobs {
  float chosen = 0;
  std::vector<llmc_candidate> likeliest;
};

/// Of one token: `id`, `text` (its name), `logprob` and `top_logprobs`, a list of the same.
Json logprob_json(std::int32_t id, const TokenLogprobs& said, const hosted::Tokenizer* tokenizer);
/// Of a whole text; `all` has one for each id. `tokenizer` may be null: tokens have no names then.
Json logprobs_json(std::span<const std::int32_t> ids, std::span<const TokenLogprobs> all,
                   const hosted::Tokenizer* tokenizer);
/// The same as lines: the token that was chosen, then the likeliest.
std::string logprobs_text(std::span<const std::int32_t> ids, std::span<const TokenLogprobs> all,
                          const hosted::Tokenizer* tokenizer);

}  // namespace llmc::cli
