#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "harness.h"
#include "llmc/kernels/kv.h"

/// The cache's formats (docs/numerics.md) one number at a time, and its layouts by their formulas.
namespace llmc::test {

constexpr KvFormats formats_of(KvFormat keys, KvFormat values) {
  return {keys, values};
}

/// A number as the cache has it: scale * number + midpoint, each of the three as it is stored.
struct Kept {
  float number = 0, scale = 1, midpoint = 0;

  double value() const { return static_cast<double>(scale) * number + midpoint; }
  /// All NaN are one.
  bool operator==(const Kept& other) const {
    const auto same = [](float a, float b) {
      return bits_of(a) == bits_of(b) || (std::isnan(a) && std::isnan(b));
    };
    return same(number, other.number) && same(scale, other.scale) && same(midpoint, other.midpoint);
  }
};

/// What E4M3 makes of the lower seven bits of a code, divided by 2^8.
inline double e4m3_magnitude(int code) {
  const int exponent = code >> 3, fraction = code & 7;
  return exponent == 0 ? std::ldexp(fraction, -9 - 8)
                       : std::ldexp(8 + fraction, exponent - 7 - 3 - 8);
}
inline float e4m3_value(std::uint8_t code) {
  const auto magnitude = static_cast<float>(e4m3_magnitude(code & 0x7f));
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}
/// The nearest of all, the even one of two.
inline float e4m3_nearest(float y) {
  int best = 0;
  const double x = std::abs(static_cast<double>(y));
  for (int code = 1; code < 0x7f; ++code) {
    const double now = std::abs(e4m3_magnitude(code) - x);
    const double before = std::abs(e4m3_magnitude(best) - x);
    if (now < before || (now == before && code % 2 == 0)) best = code;
  }
  return std::copysign(static_cast<float>(e4m3_magnitude(best)), y);
}

/// A head's keys or values of one token as the cache keeps them.
inline std::vector<Kept> reference_kept(KvFormat format, bool keys, const float* row,
                                        std::size_t n) {
  std::vector<Kept> kept(n);
  float low = row[0], high = row[0], magnitude = 0;
  bool usable = true;
  for (std::size_t i = 0; i < n; ++i) {
    low = std::min(low, row[i]);
    high = std::max(high, row[i]);
    magnitude = std::max(magnitude, std::abs(row[i]));
    usable &= std::abs(row[i]) < 0x1p126f;
    kept[i].number = format == KvFormat::kF16 ? f16_to_f32(f32_to_f16(row[i])) : row[i];
  }
  if (!kv_has_scale(format)) return kept;
  const float steps = keys ? 254.0f : format == KvFormat::kInt8 ? 127.0f : 1.75f;
  const float range = keys ? high - low : magnitude;
  const bool empty = !usable || range < 0x1p-96f;
  const float inverse = empty ? 0 : steps / range;
  const float midpoint = keys ? (low + high) * 0.5f : 0;
  for (std::size_t i = 0; i < n; ++i) {
    const float x = (row[i] - midpoint) * inverse;
    kept[i].scale = !usable ? NAN : empty ? 0 : range / steps;
    kept[i].midpoint = usable ? midpoint : 0;
    kept[i].number = empty ? 0
                     : format == KvFormat::kInt8
                         ? std::clamp(std::nearbyint(x), -128.0f, 127.0f) + 0.0f  // no -0
                         : e4m3_nearest(x);
  }
  return kept;
}

/// A KV pool whose bytes are `fill`, with its blocks in a shuffled order.
template <class Shape>
class Cache {
 public:
  explicit Cache(std::size_t tokens, unsigned char fill = 0xff)
      : fill_(fill),
        table_(ceil_div(tokens, Shape::kBlockTokens)),
        pool_(table_.size() * kBlockBytes, fill) {
    for (std::size_t i = 0; i < table_.size(); ++i) table_[i] = pool_.data() + i * kBlockBytes;
    Random random(99);
    for (std::size_t i = table_.size(); i > 1; --i) {
      std::swap(table_[i - 1], table_[random.below(static_cast<std::uint32_t>(i))]);
    }
  }
  unsigned char* const* blocks() const { return table_.data(); }
  /// Bytes of the block with `position`, after its tokens.
  std::vector<unsigned char> block(std::size_t position) const {
    const unsigned char* at = table_[position / Shape::kBlockTokens];
    return {at + kTokensBytes, at + kBlockBytes};
  }
  Kept key(std::size_t layer, std::size_t head, std::size_t position, std::size_t d) const {
    const unsigned char* number = key_at(layer, head, position, d);
    if (!kv_has_scale(kFormats.keys)) return {plain(kFormats.keys, number)};
    const std::size_t lane = position % Shape::kBlockTokens % 8;
    const unsigned char* scales = number - d * 8 - lane + Shape::kPadded * 8 + lane * 4;
    return {static_cast<float>(static_cast<std::int8_t>(*number)), bits_float(load_u32(scales)),
            bits_float(load_u32(scales + 32))};
  }
  Kept value(std::size_t layer, std::size_t head, std::size_t position, std::size_t d) const {
    const unsigned char* number = value_at(layer, head, position, d);
    if (!kv_has_scale(kFormats.values)) return {plain(kFormats.values, number)};
    const std::size_t index = head * Shape::kBlockTokens + position % Shape::kBlockTokens;
    const unsigned char* scale = base(layer, position) + kKeyBytes + kNumbers + index * 4;
    return {kFormats.values == KvFormat::kInt8
                ? static_cast<float>(static_cast<std::int8_t>(*number))
                : e4m3_value(*number),
            bits_float(load_u32(scale)), 0};
  }
  /// Only positions [begin, end) of `layer` have been written, and no token.
  bool untouched(std::size_t layer, std::size_t begin, std::size_t end) const {
    const auto written = [this](KvFormat format, const unsigned char* p) {
      return std::any_of(p, p + kv_number_bytes(format),
                         [this](unsigned char b) { return b != fill_; });
    };
    for (const unsigned char* block : table_) {
      if (!std::all_of(block, block + kTokensBytes, [this](unsigned char b) { return b == fill_; }))
        return false;
    }
    for (std::size_t l = 0; l < Shape::kLayers; ++l) {
      for (std::size_t p = 0; p < table_.size() * Shape::kBlockTokens; ++p) {
        if (l == layer && p >= begin && p < end) continue;
        for (std::size_t h = 0; h < Shape::kKvHeads; ++h) {
          for (std::size_t d = 0; d < Shape::kPadded; ++d) {
            if (written(kFormats.keys, key_at(l, h, p, d))) return false;
            if (written(kFormats.values, value_at(l, h, p, d))) return false;
          }
        }
      }
    }
    return true;
  }

 private:
  static constexpr KvFormats kFormats = Shape::kFormats;
  static constexpr std::size_t kNumbers = Shape::kKvHeads * Shape::kPadded * Shape::kBlockTokens;
  /// Of eight tokens' keys of a head.
  static constexpr std::size_t kGroupBytes =
      Shape::kPadded * 8 * kv_number_bytes(kFormats.keys) + (kv_has_scale(kFormats.keys) ? 64 : 0);
  static constexpr std::size_t kKeyBytes = Shape::kKvHeads * Shape::kBlockTokens / 8 * kGroupBytes;
  static constexpr std::size_t kScaleBytes =
      kv_has_scale(kFormats.values) ? Shape::kKvHeads * Shape::kBlockTokens * 4 : 0;
  static constexpr std::size_t kLayerBytes =
      kKeyBytes + kNumbers * kv_number_bytes(kFormats.values) + (kScaleBytes + 63) / 64 * 64;
  static constexpr std::size_t kTokensBytes = (Shape::kBlockTokens * 8 + 63) / 64 * 64;
  static constexpr std::size_t kBlockBytes = kTokensBytes + Shape::kLayers * kLayerBytes;

  static float plain(KvFormat format, const unsigned char* p) {
    return format == KvFormat::kF16 ? f16_to_f32(load_u16(p)) : bits_float(load_u32(p));
  }
  const unsigned char* key_at(std::size_t layer, std::size_t head, std::size_t position,
                              std::size_t d) const {
    const std::size_t in_block = position % Shape::kBlockTokens;
    const std::size_t group = head * (Shape::kBlockTokens / 8) + in_block / 8;
    return base(layer, position) + group * kGroupBytes +
           (d * 8 + in_block % 8) * kv_number_bytes(kFormats.keys);
  }
  const unsigned char* value_at(std::size_t layer, std::size_t head, std::size_t position,
                                std::size_t d) const {
    const std::size_t in_block = position % Shape::kBlockTokens;
    const std::size_t group = head * (Shape::kPadded / 8) + d / 8;
    return base(layer, position) + kKeyBytes +
           ((group * Shape::kBlockTokens + in_block) * 8 + d % 8) *
               kv_number_bytes(kFormats.values);
  }
  const unsigned char* base(std::size_t layer, std::size_t position) const {
    return table_[position / Shape::kBlockTokens] + kTokensBytes + layer * kLayerBytes;
  }

  unsigned char fill_;
  std::vector<unsigned char*> table_;
  Aligned<unsigned char> pool_;
};

}  // namespace llmc::test
