#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

/// The search for scale and min of one block of at most 32 weights: what the 4-bit encoder is made
/// of. Plain correctly rounded float operations in a fixed order of 4 lanes, so the result is the
/// same on every host.
namespace llmc::quant {

inline constexpr std::size_t kFitWidth = 32;
inline constexpr float kLargestCode = 15.0f;

/// w ~ scale * c + min with c in 0..15.
struct Fit {
  float scale = 0, min = 0;
};

/// What one rounding of a block to codes gives. All sums are weighted by importance.
struct Rounded {
  float error = 0;  // of (w - scale*c - min)^2
  float c = 0, cc = 0, cw = 0;
};

/// Which of the sums are wanted: those that another min for the same scale takes, or all.
enum class Sums : std::uint8_t { kErrorAndCodes, kAll };

class FitBlock;
/// Two blocks are worked on side by side: one alone waits for its own results most of the time.
using BlockPair = std::array<const FitBlock*, 2>;
using FitPair = std::array<Fit, 2>;
using RoundedPair = std::array<Rounded, 2>;

/// One block: its weights and how much the square of each one's error counts.
class FitBlock {
 public:
  using Lanes = float __attribute__((vector_size(16)));
  static constexpr std::size_t kVectors = kFitWidth / 4;

  /// `importance` is empty (all count 1) or as long as `weights`; not negative. 1..32 weights.
  FitBlock(std::span<const float> weights, std::span<const float> importance);

  float low() const { return low_; }
  float high() const { return high_; }
  /// All 32 places are there and count 1.
  bool uniform() const { return uniform_; }
  /// Absent places have no importance.
  const std::array<Lanes, kVectors>& weights() const { return weights_; }
  const std::array<Lanes, kVectors>& importance() const { return importance_; }

  /// Codes of all 32 places for a given fit; absent places get codes too, of no meaning.
  void codes(Fit fit, std::span<float, kFitWidth> out) const;
  /// Least squares of scale and min for the codes that `rounded` is of. With `sign` -1 or 1 the min
  /// is kept on that side of zero, and the scale is then the best for a min of zero.
  Fit refit(const Rounded& rounded, float sign) const;
  /// Best min when the scale stays as it is.
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

/// Code that rounds blocks, for some instructions of the processor.
struct Rounder {
  const char* name;
  /// Rounds each block to codes (nearest, ties up, clamped to 0..15; all 0 when the scale is 0).
  void (*round)(const BlockPair& blocks, const FitPair& fits, Sums sums, RoundedPair& out);
};
/// Those that run on this machine; all give the same bits. The last is the fastest.
std::span<const Rounder> rounders();

/// For each block the best fit found from several starting ranges: round, refit, round again.
/// (The alternation is Lloyd's; the starts are the idea of llama.cpp's make_qkx2_quants.)
FitPair search(const Rounder& rounder, const BlockPair& blocks, float sign);

}  // namespace llmc::quant
