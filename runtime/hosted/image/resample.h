#pragma once

#include <cstdint>
#include <vector>

namespace llmc::hosted {

/// Pixels row by row, each three bytes.
struct RgbImage {
  int width = 0, height = 0;
  std::vector<std::uint8_t> bytes;
};

/// Filters, with the numbers of Pillow's enumeration, which configuration files contain.
enum class ImageFilter : std::uint8_t { kNearest, kLanczos, kBilinear, kBicubic, kBox, kHamming };

/// Resizes an image to at least 1 x 1 pixels. The result is byte for byte that of Pillow's
/// Image.resize. If the image shrinks, the filter is scaled to the size of a new pixel, otherwise
/// to that of an old one. All rows are filtered first and rounded to bytes, then all columns.
/// kNearest copies the nearest pixels instead. An image of the same size is returned unchanged.
RgbImage resized(RgbImage image, int width, int height, ImageFilter filter);

/// Returns the center of the image with this size. A smaller image is padded with black pixels.
RgbImage center_cropped(const RgbImage& image, int width, int height);

}  // namespace llmc::hosted
