#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

/// Seeded rows of weights, the same on every host and standard library.
namespace llmc::quant {

class Uniform {
 public:
  explicit Uniform(unsigned seed) : state_(seed * 2654435761u + 1) {}
  /// In [-1, 1).
  float next() {
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<float>(static_cast<std::int32_t>(state_ >> 32)) * 0x1p-31f;
  }

 private:
  std::uint64_t state_;
};

/// About normal, standard deviation 1: a sum of 12 uniform values.
inline std::vector<float> gaussian(std::size_t count, unsigned seed) {
  Uniform random(seed);
  std::vector<float> row(count);
  for (float& w : row) {
    float sum = 0;
    for (int i = 0; i < 12; ++i) sum += random.next();
    w = sum * 0.5f;
  }
  return row;
}

/// Cubes of normal values mixed in: a few weights many times larger than the rest.
inline std::vector<float> heavy_tailed(std::size_t count, unsigned seed) {
  std::vector<float> row = gaussian(count, seed);
  for (float& w : row) w = 0.02f * (w + 0.2f * w * w * w);
  return row;
}

}  // namespace llmc::quant
