#include "tools/llmc/logprobs_text.h"

#include <fmt/format.h>

#include <string_view>

#include "compiler/support/diagnostic.h"

namespace llmc::cli {
namespace {

/// Returns a token as JSON, with its name in the vocabulary if there is a tokenizer.
Json token_json(std::int32_t id, float logprob, const hosted::Tokenizer* tokenizer) {
  Json json{{"id", id}};
  if (tokenizer != nullptr) json["piece"] = printable(std::string(tokenizer->name_of(id)));
  json["logprob"] = logprob;
  return json;
}

}  // namespace

Json logprob_json(std::int32_t id, const TokenLogprobs& logprobs,
                  const hosted::Tokenizer* tokenizer) {
  Json json = token_json(id, logprobs.chosen, tokenizer);
  json["top_logprobs"] = Json::array();
  for (const llmc_candidate& candidate : logprobs.top)
    json["top_logprobs"].push_back(token_json(candidate.token, candidate.logprob, tokenizer));
  return json;
}

Json logprobs_json(std::span<const std::int32_t> ids, std::span<const TokenLogprobs> all,
                   const hosted::Tokenizer* tokenizer) {
  Json list = Json::array();
  for (std::size_t i = 0; i < all.size(); ++i)
    list.push_back(logprob_json(ids[i], all[i], tokenizer));
  return list;
}

std::string logprobs_text(std::span<const std::int32_t> ids, std::span<const TokenLogprobs> all,
                          const hosted::Tokenizer* tokenizer) {
  const auto one = [&](std::int32_t id, float logprob) {
    if (tokenizer == nullptr) return fmt::format("{} {:.4f}", id, logprob);
    return fmt::format("{} '{}' {:.4f}", id, printable(std::string(tokenizer->name_of(id))),
                       logprob);
  };
  std::string text;
  for (std::size_t i = 0; i < all.size(); ++i) {
    text += one(ids[i], all[i].chosen) + ":";
    std::string_view separator = " ";
    for (const llmc_candidate& candidate : all[i].top) {
      text += fmt::format("{}{}", separator, one(candidate.token, candidate.logprob));
      separator = ", ";
    }
    text += "\n";
  }
  return text;
}

}  // namespace llmc::cli
