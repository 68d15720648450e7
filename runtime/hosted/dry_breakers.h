#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "llmc/llmc.h"
#include "runtime/hosted/tokenizer.h"

namespace llmc::hosted {

/// DRY's sequence breakers as token ids. Owns the memory that an llmc_dry_breakers points to.
struct DryBreakers {
  std::vector<std::int32_t> heads;
  std::vector<std::uint32_t> tail_begins = {0};
  std::vector<std::int32_t> tails;

  /// Returns the breakers for llmc_set_dry_breakers. Valid until this object changes.
  llmc_dry_breakers table() const {
    return {heads.data(), tail_begins.data(), tails.data(),
            static_cast<std::uint32_t>(heads.size())};
  }
};

/// Returns llama.cpp's default breakers: "\n", ":", "\"" and "*".
std::vector<std::string> default_dry_breakers();

/// Returns token sequences that spell one of the strings. A token that contains a string is a
/// breaker by itself. A token that ends with a prefix of a string is a breaker if the tokens follow
/// as which the tokenizer encodes the remaining string (at most 20 of them). Ignores empty strings,
/// and ids that are not below `limit`.
DryBreakers dry_breakers(const Tokenizer& tokenizer, const std::vector<std::string>& strings,
                         std::size_t limit);

}  // namespace llmc::hosted
