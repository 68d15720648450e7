#include "compiler/grammar/mask_store.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <span>

namespace llmc::grammar {
namespace {

/// Bitmaps that a new set is compared with, the latest ones: most sets are like a neighbour's.
constexpr std::size_t kCompared = 24;

XXH128_hash_t hash_of(const std::vector<std::uint32_t>& ids, std::uint64_t seed) {
  return XXH3_128bits_withSeed(ids.data(), ids.size() * sizeof(std::uint32_t), seed);
}

}  // namespace

std::uint32_t MaskStore::add(const TokenClasses& classes) {
  const XXH128_hash_t first = hash_of(classes.allowed, 1);
  const XXH128_hash_t both = hash_of(classes.dependents, first.low64 ^ first.high64);
  const auto next = static_cast<std::uint32_t>(masks_.size());
  const auto [it, added] =
      known_.try_emplace({first.low64 ^ both.high64, first.high64 ^ both.low64}, next);
  if (!added) return it->second;

  std::vector<std::uint32_t> bitmap(words_);
  for (const std::uint32_t id : classes.allowed) bitmap[id / 32] |= 1u << id % 32;
  // The nearest of the sets that stand as bitmaps, the empty one among them.
  std::uint32_t base = 0;
  std::size_t distance = classes.allowed.size();
  const std::uint32_t count = bitmap_count();
  for (std::uint32_t i = count > kCompared ? count - kCompared : 0; i < count; ++i) {
    const std::span<const std::uint32_t> other(bitmaps_.data() + i * words_, words_);
    std::size_t flips = 0;
    for (std::size_t w = 0; w < words_ && flips < distance; ++w)
      flips += static_cast<std::size_t>(std::popcount(bitmap[w] ^ other[w]));
    if (flips >= distance) continue;
    distance = flips;
    base = i + 1;
  }
  llmc_grammar_mask mask{base, static_cast<std::uint32_t>(flips_.size()),
                         static_cast<std::uint32_t>(dependents_.size())};
  // A flip takes as much room as a word of a bitmap, and more time than a word that is copied.
  if (distance > words_ / 4 + 8) {
    bitmaps_.insert(bitmaps_.end(), bitmap.begin(), bitmap.end());
    mask.base = count + 1;
  } else {
    for (std::size_t w = 0; w < words_; ++w) {
      const std::uint32_t old = base == 0 ? 0 : bitmaps_[(base - 1) * words_ + w];
      for (std::uint32_t bits = bitmap[w] ^ old; bits != 0; bits &= bits - 1)
        flips_.push_back(static_cast<std::uint32_t>(w * 32) +
                         static_cast<std::uint32_t>(std::countr_zero(bits)));
    }
  }
  dependents_.insert(dependents_.end(), classes.dependents.begin(), classes.dependents.end());
  masks_.push_back(mask);
  return next;
}

std::vector<llmc_grammar_mask> MaskStore::masks() const {
  std::vector<llmc_grammar_mask> result = masks_;
  result.push_back({0, static_cast<std::uint32_t>(flips_.size()),
                    static_cast<std::uint32_t>(dependents_.size())});
  return result;
}

}  // namespace llmc::grammar
