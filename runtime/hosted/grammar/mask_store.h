#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "llmc/grammar.h"
#include "runtime/hosted/grammar/token_classes.h"

namespace llmc::hosted::grammar {

/// Stores the masks of the tables without duplicates. Most masks are stored as a few differences
/// from the bitmap of another mask.
class MaskStore {
 public:
  /// `vocabulary`: number of token ids.
  explicit MaskStore(std::uint32_t vocabulary) : words_((vocabulary + 31) / 32) {}

  /// Returns the index of the mask with these tokens. Adds the mask if it is new.
  std::uint32_t add(const TokenClasses& classes);

  /// Returns all masks, and a final entry that ends the lists of the last one.
  std::vector<llmc_grammar_mask> masks() const;
  const std::vector<std::uint32_t>& bitmaps() const { return bitmaps_; }
  const std::vector<std::uint32_t>& flips() const { return flips_; }
  const std::vector<std::uint32_t>& dependents() const { return dependents_; }
  std::uint32_t bitmap_count() const {
    return words_ == 0 ? 0 : static_cast<std::uint32_t>(bitmaps_.size() / words_);
  }
  std::uint64_t bytes() const {
    return 4 * (bitmaps_.size() + flips_.size() + dependents_.size() + 3 * masks_.size());
  }

 private:
  /// Returns whether mask `index` has these tokens.
  bool is_equal(std::uint32_t index, std::vector<std::uint32_t> bitmap,
                const std::vector<std::uint32_t>& dependents) const;

  const std::size_t words_;
  std::vector<llmc_grammar_mask> masks_;
  std::vector<std::uint32_t> bitmaps_, flips_, dependents_;
  std::unordered_multimap<std::uint64_t, std::uint32_t> known_;  // indices by hash
};

}  // namespace llmc::hosted::grammar
