#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "llmc/llmc.h"
#include "runtime/hosted/tokenizer.h"

namespace llmc::hosted {

/// Sequence breakers of dry as token ids, with the memory that llmc_dry_breakers points to.
struct DryBreakers {
  std::vector<std::int32_t> heads;
  std::vector<std::uint32_t> tail_begins = {0};
  std::vector<std::int32_t> tails;

  /// Valid until this changes.
  llmc_dry_breakers table() const {
    return {heads.data(), tail_begins.data(), tails.data(),
            static_cast<std::uint32_t>(heads.size())};
  }
};

/// llama.cpp's: "\n", ":", "\"" and "*".
std::vector<std::string> default_dry_breakers();

/// The ways tokens can spell the strings: a token that holds one breaks by itself, one that ends
/// with a string's beginning breaks when the tokens of its rest follow (the first 20 of them).
/// Empty strings are nothing. `limit`: ids from there on are left out.
DryBreakers dry_breakers(const Tokenizer& tokenizer, const std::vector<std::string>& strings,
                         std::size_t limit);

}  // namespace llmc::hosted
