#include "compiler/quant/q4.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <functional>

#include "compiler/quant/block_fit.h"
#include "compiler/support/check.h"
#include "llmc/half.h"

namespace llmc::quant {
namespace {

/// Parameters of the search for m for a given s: initial offsets of the range, in steps between
/// codes, and the number of rounds for each offset.
constexpr std::array<float, 3> kMinStarts{-0.5f, 0, 0.5f};
constexpr int kMinRounds = 6;

/// Returns floor(x + 0.5), clamped to lowest..limit.
float round_clamped(float x, float lowest, float limit) {
  const float clamped = std::min(std::max(x, lowest), limit);
  return static_cast<float>(static_cast<int>(clamped + 0.5f));
}

struct BlockCode {
  float s = 1, m = 0;
};

/// Searches the s and m of one block. Tries the values of s near the float fit; for each s, the m
/// with the least error. Rounding and refitting changes the min only a little, so for each s the
/// search starts from three positions of the range: centered as in the fit, and half a step to each
/// side. next() and take() alternate until all candidates are tried.
class GridSearch {
 public:
  GridSearch() = default;
  GridSearch(const FitBlock& block, Fit fit, float scale, float min)
      : block_(&block), fit_(fit), scale_(scale), min_(min) {
    const float nearest = scale > 0 ? round_clamped(fit.scale / scale, 1, kLargestQ4Scale) : 1;
    inverse_min_ = min != 0 ? 1 / min : 0;
    s_ = nearest - 2;
    last_s_ = nearest + 1;
  }

  const FitBlock* block() const { return block_; }
  BlockCode best() const { return best_; }

  /// Advances to the next candidate(). Returns false after the last one.
  bool next() {
    for (;;) {
      if (start_ < kMinStarts.size() && round_ < kMinRounds) {
        const auto m = static_cast<std::size_t>(m_);
        if (!tried_.test(m)) {
          tried_.set(m);
          return true;
        }
      }
      round_ = 0;
      if (++start_ >= kMinStarts.size() && !next_scale()) return false;
      set_min(fit_.min + shift_ + kMinStarts[start_] * step_);
    }
  }
  Fit candidate() const { return {step_, min_ * m_}; }
  /// Records the error of the current candidate. Branch-free, because the outcome is unpredictable.
  void take(const Rounded& rounded) {
    const bool better = first_ | (rounded.error < least_);
    first_ = false;
    least_ = better ? rounded.error : least_;
    best_.s = better ? s_ : best_.s;
    best_.m = better ? m_ : best_.m;
    set_min(block_->best_min(rounded, step_));
    ++round_;
  }

 private:
  void set_min(float wanted) { m_ = round_clamped(wanted * inverse_min_, 0, kLargestQ4Min); }
  bool next_scale() {
    for (++s_; s_ <= last_s_; ++s_) {
      if (s_ < 1 || s_ > kLargestQ4Scale) continue;
      step_ = scale_ * s_;
      // A block whose weights are all equal has no range to center; its min is the value.
      shift_ = fit_.scale > 0 ? (fit_.scale - step_) * (kLargestCode / 2) : 0;
      tried_.reset();
      start_ = 0;
      return true;
    }
    return false;
  }

  const FitBlock* block_ = nullptr;
  Fit fit_;
  float scale_ = 0, min_ = 0, inverse_min_ = 0;  // values of the row
  float s_ = 0, last_s_ = 0, step_ = 0, shift_ = 0;
  std::size_t start_ = kMinStarts.size();
  int round_ = 0;
  float m_ = 0;
  std::bitset<256> tried_;  // the values of m already tried
  bool first_ = true;
  float least_ = 0;
  BlockCode best_;
};

/// Searches all blocks of a row, several at the same time: when one block is done, the next block
/// takes its slot.
void search_grid(const Rounder& rounder, std::span<const FitBlock> blocks,
                 std::span<const Fit> fits, float scale, float min, std::span<BlockCode> out) {
  struct Slot {
    GridSearch search;
    std::size_t block = 0;
    bool busy = false;
  };
  // Enough slots to hide latency: the next step of a block is chosen long after the block was
  // rounded.
  std::array<Slot, 8> slots;
  std::size_t started = 0, working = slots.size();
  const auto advance = [&](Slot& slot) {  // to the next candidate, of the next block if necessary
    if (slot.busy && slot.search.next()) return;
    if (slot.busy) out[slot.block] = slot.search.best();
    slot.busy = started < blocks.size();
    if (!slot.busy) return;
    slot.block = started++;
    slot.search = GridSearch(blocks[slot.block], fits[slot.block], scale, min);
    LLMC_CHECK(slot.search.next());  // there is always a candidate: `nearest` is in range
  };
  for (;;) {
    for (Slot& slot : slots) advance(slot);
    if (!std::ranges::all_of(slots, &Slot::busy))
      working = static_cast<std::size_t>(
          std::partition(slots.begin(), slots.end(), std::mem_fn(&Slot::busy)) - slots.begin());
    if (working == 0) return;
    std::array<RoundedPair, slots.size() / 2> rounded{};
    for (std::size_t i = 0; i < working; i += 2) {
      const GridSearch& a = slots[i].search;
      const GridSearch& b = slots[std::min(i + 1, working - 1)].search;
      rounder.round({a.block(), b.block()}, {a.candidate(), b.candidate()}, Sums::kErrorAndCodes,
                    rounded[i / 2]);
    }
    for (std::size_t i = 0; i < working; ++i) slots[i].search.take(rounded[i / 2][i % 2]);
  }
}

}  // namespace

float power_of_two_below(float largest) {
  const std::uint32_t exponent = float_bits(largest) >> 23 & 0xffu;
  return bits_float(std::clamp<std::uint32_t>(exponent, 1, 253) << 23);
}

void encode_q4_row(std::span<const float> weights, std::span<const float> importance, Q4Row& out) {
  LLMC_CHECK(importance.empty() || importance.size() == weights.size());
  const std::size_t blocks = (weights.size() + kFitWidth - 1) / kFitWidth;
  out.codes.assign(weights.size(), 0);
  out.scales.assign(blocks, 1);
  out.minimums.assign(blocks, 0);
  out.scale = out.min = 0;
  float largest = 0, low = 0;
  for (const float w : weights) {
    largest = std::max(largest, w < 0 ? -w : w);
    low = std::min(low, w);
  }
  LLMC_CHECK(largest <= kLargestQ4Weight);
  if (largest == 0) return;

  // Squares of very large or very small weights exceed a float's range, so the search uses the row
  // divided by a power of two, which is exact.
  const float unit = power_of_two_below(largest);
  const float sign = low < 0 ? -1.0f : 1.0f;
  std::vector<FitBlock> parts;
  std::vector<Fit> fits(blocks);
  std::vector<BlockCode> found(blocks);
  parts.reserve(blocks);
  float largest_scale = 0, largest_min = 0;
  for (std::size_t b = 0; b < blocks; ++b) {
    const std::size_t begin = b * kFitWidth;
    const std::size_t count = std::min(kFitWidth, weights.size() - begin);
    std::array<float, kFitWidth> scaled;
    for (std::size_t i = 0; i < count; ++i) scaled[i] = weights[begin + i] / unit;
    parts.emplace_back(std::span(scaled).first(count),
                       importance.empty() ? importance : importance.subspan(begin, count));
  }
  const Rounder& rounder = rounders().back();
  for (std::size_t b = 0; b < blocks; b += 2) {
    const std::size_t other = std::min(b + 1, blocks - 1);
    const FitPair pair = search(rounder, {&parts[b], &parts[other]}, sign);
    fits[b] = pair[0];
    fits[other] = pair[other - b];
  }
  for (const Fit& fit : fits) {
    largest_scale = std::max(largest_scale, fit.scale);
    largest_min = std::max(largest_min, fit.min * sign);
  }

  out.scale = f32_to_bf16(largest_scale / kLargestQ4Scale * unit);
  out.min = f32_to_bf16(sign * largest_min / kLargestQ4Min * unit);
  // Fit the blocks to the stored S and M, so that their rounding causes no additional error.
  const float scale = bf16_to_f32(out.scale) / unit;
  const float min = bf16_to_f32(out.min) / unit;
  search_grid(rounder, parts, fits, scale, min, found);
  for (std::size_t b = 0; b < blocks; ++b) {
    const BlockCode code = found[b];
    out.scales[b] = static_cast<std::uint8_t>(code.s);
    out.minimums[b] = static_cast<std::uint8_t>(code.m);
    std::array<float, kFitWidth> codes;
    parts[b].codes({scale * code.s, min * code.m}, codes);
    const std::size_t begin = b * kFitWidth;
    for (std::size_t i = begin; i < std::min(begin + kFitWidth, weights.size()); ++i)
      out.codes[i] = static_cast<std::uint8_t>(codes[i - begin]);
  }
}

}  // namespace llmc::quant
