#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

/// Searches scale and min of one block of at most 32 weights, for the 4-bit encoder. Uses only
/// correctly rounded float operations in a fixed order of 4 lanes, so the result is the same on
/// every host.
namespace llmc::quant {

inline constexpr std::size_t kFitWidth = 32;
inline constexpr float kLargestCode = 15.0f;

/// An approximation w ~ scale * c + min of each weight w by its code c in 0..15.
struct Fit {
  float scale = 0, min = 0;
};

/// Sums over a block that is rounded to codes c, each weighted by importance.
struct Rounded {
  float error = 0;  // sum of (w - scale*c - min)^2
  float c = 0, cc = 0, cw = 0;
};

/// The sums that are computed: all, or only the error and the sum of codes, which suffice to find
/// another min for the same scale.
enum class Sums : std::uint8_t { kErrorAndCodes, kAll };

class FitBlock;
/// Two blocks that are processed at the same time, because a single block mostly waits for the
/// latency of its operations.
using BlockPair = std::array<const FitBlock*, 2>;
using FitPair = std::array<Fit, 2>;
using RoundedPair = std::array<Rounded, 2>;

/// The weights of a block and the importance of each weight's squared error.
class FitBlock {
 public:
  using Lanes = float __attribute__((vector_size(16)));
  static constexpr std::size_t kVectors = kFitWidth / 4;

  /// Requires 1 to 32 weights. `importance` is empty (all 1) or as long as `weights`, and not
  /// negative.
  FitBlock(std::span<const float> weights, std::span<const float> importance);

  float low() const { return low_; }
  float high() const { return high_; }
  /// Returns whether the block has 32 weights and was made without importance.
  bool uniform() const { return uniform_; }
  /// Return the weights and their importance, padded to 32 elements; the padding has importance 0.
  const std::array<Lanes, kVectors>& weights() const { return weights_; }
  const std::array<Lanes, kVectors>& importance() const { return importance_; }

  /// Writes the codes of all 32 elements for `fit` to `out`; the codes of padding are meaningless.
  void codes(Fit fit, std::span<float, kFitWidth> out) const;
  /// Returns the least-squares scale and min for the codes of `rounded`. `sign` is -1 or 1, the
  /// sign that the min must have unless it is 0. If the min has the other sign, it becomes 0, and
  /// the scale is the best one for a min of 0. The scale is at least 0; if all codes are equal, it
  /// is 0, and the min is the mean weight or 0.
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
  /// Rounds each block to codes (nearest, ties up, clamped to 0..15; all 0 when the scale is 0) and
  /// sets at least the `sums` in `out`.
  void (*round)(const BlockPair& blocks, const FitPair& fits, Sums sums, RoundedPair& out);
};
/// Returns the rounders that run on this machine, the fastest last; all give the same bits.
std::span<const Rounder> rounders();

/// Returns the best fit found for each block; `sign` is as in refit(). Starts from several initial
/// ranges and, for each, alternates rounding and refitting (Lloyd's algorithm; the initial ranges
/// follow llama.cpp's make_qkx2_quants).
FitPair search(const Rounder& rounder, const BlockPair& blocks, float sign);

}  // namespace llmc::quant
