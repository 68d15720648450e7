#pragma once

#include <cstdint>
#include <span>
#include <vector>

/// The 4-bit asymmetric format (docs/decisions/0003-q4-format.md):
///
///     w[k] = S * (s[b] * c[k]) + M * m[b],  b = k / 32
///
/// c in 0..15, s in 1..15, m in 0..255. S and M are bf16, one pair per row; S >= 0. M <= 0 if the
/// row has a negative weight, else M >= 0.
namespace llmc::quant {

/// One encoded row, before it is packed into a panel.
struct Q4Row {
  std::uint16_t scale = 0, min = 0;    // S and M as bits of bf16
  std::vector<std::uint8_t> codes;     // one per weight
  std::vector<std::uint8_t> scales;    // s, one per block of 32
  std::vector<std::uint8_t> minimums;  // m, one per block of 32
};

/// Maximum values of s and m.
inline constexpr float kLargestQ4Scale = 15, kLargestQ4Min = 255;
/// Maximum magnitude of a weight; up to it, decoding never overflows.
inline constexpr float kLargestQ4Weight = 0x1p126f;

/// Returns 2^e such that `largest` is in [2^e, 2^(e+1)); e is limited so that both 2^e and its
/// inverse are normal floats. Encoders divide rows by it before the search, which is exact.
float power_of_two_below(float largest);

/// Encodes a row of any length. The weights must be finite, with magnitudes of at most
/// kLargestQ4Weight. `importance` is the factor of each squared error (finite, not negative);
/// empty: all equal. A row of zeros gets S = M = 0. Reuses `out`'s memory.
void encode_q4_row(std::span<const float> weights, std::span<const float> importance, Q4Row& out);

}  // namespace llmc::quant
