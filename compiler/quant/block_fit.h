#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

/// The search for scale and min of one block of at most 32 weights, used by the 4-bit encoder. Only
/// correctly rounded float operations in a fixed order of 4 lanes, so the result is the same on
/// every host.
namespace llmc::quant {

inline constexpr std::size_t kFitWidth = 32;
inline constexpr float kLargestCode = 15.0f;

/// A fit w ~ scale * c + min with c in 0..15.
struct Fit {
  float scale = 0, min = 0;
};

/// Result of rounding a block to codes. All sums are weighted by importance.
struct Rounded {
  float error = 0;  // of (w - scale*c - min)^2
  float c = 0, cc = 0, cw = 0;
};

/// Which sums are computed: those needed for another min with the same scale, or all.
enum class Sums : std::uint8_t { kErrorAndCodes, kAll };

class FitBlock;
/// Two blocks are processed at the same time, because a single one mostly waits for the latency of
/// its operations.
using BlockPair = std::array<const FitBlock*, 2>;
using FitPair = std::array<Fit, 2>;
using RoundedPair = std::array<Rounded, 2>;

/// A block: its weights and the importance of each one's squared error.
class FitBlock {
 public:
  using Lanes = float __attribute__((vector_size(16)));
  static constexpr std::size_t kVectors = kFitWidth / 4;

  /// `importance` is empty (all 1) or as long as `weights`, and not negative. 1..32 weights.
  FitBlock(std::span<const float> weights, std::span<const float> importance);

  float low() const { return low_; }
  float high() const { return high_; }
  /// Returns whether there are 32 weights with importance 1.
  bool uniform() const { return uniform_; }
  /// Missing elements have importance 0.
  const std::array<Lanes, kVectors>& weights() const { return weights_; }
  const std::array<Lanes, kVectors>& importance() const { return importance_; }

  /// Returns the codes of all 32 elements for a given fit; those of missing elements are
  /// meaningless.
  void codes(Fit fit, std::span<float, kFitWidth> out) const;
  /// Returns the least-squares fit of scale and min for the codes of `rounded`. With `sign` -1 or 1
  /// the min stays on that side of zero; if it would be clamped to zero, the scale is the best one
  /// for a min of zero.
  Fit refit(const Rounded& rounded, float sign) const;
  /// Returns the best min for an unchanged scale.
  float best_min(const Rounded& rounded, float scale) const {
    const double taken = static_cast<double>(scale) * static_cast<double>(rounded.c);
    return static_cast<float>((weighted_ - taken) * inverse_total_);
  }

 private:
  std::array<Lanes, kVectors> weights_{}, importance_{};
  bool uniform_ = false;
  float low_ = 0, high_ = 0;
  double total_ = 0, weighted_ = 0;  // sums of importance and of importance * w
  double inverse_total_ = 0;         // 1 / total, or 0
};

/// Rounding code for a specific instruction set.
struct Rounder {
  const char* name;
  /// Rounds each block to codes (nearest, ties up, clamped to 0..15; all 0 when the scale is 0).
  void (*round)(const BlockPair& blocks, const FitPair& fits, Sums sums, RoundedPair& out);
};
/// Returns those that run on this machine, the fastest last; all give the same bits.
std::span<const Rounder> rounders();

/// Returns for each block the best fit found from several initial ranges: round, refit, round
/// again. (The alternation is Lloyd's; the initial ranges follow llama.cpp's make_qkx2_quants.)
FitPair search(const Rounder& rounder, const BlockPair& blocks, float sign);

}  // namespace llmc::quant
