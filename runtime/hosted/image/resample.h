#pragma once

#include <cstdint>
#include <vector>

namespace llmc::hosted {

/// Pixels row by row, each three bytes.
struct RgbImage {
  int width = 0, height = 0;
  std::vector<std::uint8_t> bytes;
};

/// Filters of image libraries, with Pillow's numbers, which configuration files contain.
enum class ImageFilter : std::uint8_t { kNearest, kLanczos, kBilinear, kBicubic, kBox, kHamming };

/// Returns the image with another size, at least 1 x 1, byte for byte as Pillow's Image.resize:
/// a filter of the width of a new pixel, if the image shrinks, otherwise of an old one; first all
/// rows, rounded to bytes, then all columns. An image of the same size is returned unchanged.
RgbImage resized(RgbImage image, int width, int height, ImageFilter filter);

/// Returns the middle of the image, of this size. Black pixels surround an image that is smaller.
RgbImage center_cropped(const RgbImage& image, int width, int height);

}  // namespace llmc::hosted
