#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "llmc/llmc.h"
#include "runtime/hosted/tokenizer.h"

namespace llmc::hosted {

/// DRY's sequence breakers as token ids; owns the memory that llmc_dry_breakers points to.
struct DryBreakers {
  std::vector<std::int32_t> heads;
  std::vector<std::uint32_t> tail_begins = {0};
  std::vector<std::int32_t> tails;

  /// Valid until this object changes.
  llmc_dry_breakers table() const {
    return {heads.data(), tail_begins.data(), tails.data(),
            static_cast<std::uint32_t>(heads.size())};
  }
};

/// Returns llama.cpp's defaults: "\n", ":", "\"" and "*".
std::vector<std::string> default_dry_breakers();

/// Returns all ways in which tokens can spell the strings: a token that contains a string breaks by
/// itself; a token that ends with a prefix of a string breaks if the tokens of the remainder follow
/// (at most 20 of them). Empty strings are ignored, and so are ids from `limit` on.
DryBreakers dry_breakers(const Tokenizer& tokenizer, const std::vector<std::string>& strings,
                         std::size_t limit);

}  // namespace llmc::hosted
