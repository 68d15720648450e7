#include "runtime/hosted/grammar/mask_store.h"

#include <algorithm>
#include <bit>
#include <span>

namespace llmc::hosted::grammar {
namespace {

/// Number of recent bitmaps that are compared with a new mask. Most masks are similar to a recent
/// one.
constexpr std::size_t kCompared = 24;

}  // namespace

std::uint32_t MaskStore::add(const TokenClasses& classes) {
  std::vector<std::uint32_t> bitmap(words_);
  for (const std::uint32_t id : classes.allowed) bitmap[id / 32] |= 1u << id % 32;
  const std::uint64_t hash =
      llmc_grammar_hash(llmc_grammar_hash(LLMC_GRAMMAR_HASH_START, bitmap.data(), bitmap.size()),
                        classes.dependents.data(), classes.dependents.size());
  const auto [first, last] = known_.equal_range(hash);
  for (auto it = first; it != last; ++it)
    if (is_equal(it->second, bitmap, classes.dependents)) return it->second;
  const auto next = static_cast<std::uint32_t>(masks_.size());
  known_.emplace(hash, next);

  // Find the most similar bitmap. Base 0 means an empty bitmap.
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
  // A flip is as large as a word of a bitmap, and applying it takes more time than copying a word.
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

bool MaskStore::is_equal(std::uint32_t index, std::vector<std::uint32_t> bitmap,
                         const std::vector<std::uint32_t>& dependents) const {
  const llmc_grammar_mask& mask = masks_[index];
  const bool last = index + 1 == masks_.size();
  const std::size_t flips_end = last ? flips_.size() : masks_[index + 1].first_flip;
  const std::size_t dependents_end = last ? dependents_.size() : masks_[index + 1].first_dependent;
  for (std::size_t i = mask.first_flip; i < flips_end; ++i)
    bitmap[flips_[i] / 32] ^= 1u << flips_[i] % 32;
  const std::vector<std::uint32_t> none(mask.base == 0 ? words_ : 0);
  const std::uint32_t* const base =
      mask.base == 0 ? none.data() : bitmaps_.data() + (mask.base - 1) * words_;
  return std::equal(bitmap.begin(), bitmap.end(), base) &&
         std::equal(dependents.begin(), dependents.end(),
                    dependents_.begin() + static_cast<std::ptrdiff_t>(mask.first_dependent),
                    dependents_.begin() + static_cast<std::ptrdiff_t>(dependents_end));
}

std::vector<llmc_grammar_mask> MaskStore::masks() const {
  std::vector<llmc_grammar_mask> result = masks_;
  result.push_back({0, static_cast<std::uint32_t>(flips_.size()),
                    static_cast<std::uint32_t>(dependents_.size())});
  return result;
}

}  // namespace llmc::hosted::grammar
