#include "runtime/hosted/image/resample.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace llmc::hosted {
namespace {

constexpr int kColors = 3;
constexpr int kFractionBits = 22;  // of the weights, as in Pillow

/// Number of pixels on each side of the center for which the filter is not 0.
double support_of(ImageFilter filter) {
  switch (filter) {
    case ImageFilter::kLanczos:
      return 3;
    case ImageFilter::kBicubic:
      return 2;
    case ImageFilter::kBox:
      return 0.5;
    default:
      return 1;
  }
}

double sinc(double x) {
  return x == 0 ? 1 : std::sin(x * std::numbers::pi) / (x * std::numbers::pi);
}

double weight_of(ImageFilter filter, double x) {
  const double d = std::fabs(x);
  switch (filter) {
    case ImageFilter::kLanczos:
      return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0;
    case ImageFilter::kBicubic: {
      constexpr double a = -0.5;
      if (d < 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
      return d < 2 ? (((d - 5) * d + 8) * d - 4) * a : 0;
    }
    case ImageFilter::kBox:
      return x > -0.5 && x <= 0.5 ? 1 : 0;
    case ImageFilter::kHamming: {
      if (d == 0) return 1;
      const double angle = d * std::numbers::pi;
      return d < 1 ? std::sin(angle) / angle * (0.54 + 0.46 * std::cos(angle)) : 0;
    }
    default:
      return d < 1 ? 1 - d : 0;
  }
}

/// The old pixels from which a new one is computed, and their weights.
struct Window {
  int first = 0;
  std::vector<std::int32_t> weights;  // sum to 1 << kFractionBits
};

std::vector<Window> windows(int from, int to, ImageFilter filter) {
  const double scale = static_cast<double>(from) / to;
  const double width = std::max(scale, 1.0), support = support_of(filter) * width;
  std::vector<Window> all(static_cast<std::size_t>(to));
  for (int i = 0; i < to; ++i) {
    Window& window = all[static_cast<std::size_t>(i)];
    const double center = (i + 0.5) * scale;
    window.first = std::max(static_cast<int>(center - support + 0.5), 0);
    const int end = std::min(static_cast<int>(center + support + 0.5), from);
    std::vector<double> weights;
    double sum = 0;
    for (int x = window.first; x < end; ++x) {
      weights.push_back(weight_of(filter, (x - center + 0.5) * (1 / width)));
      sum += weights.back();
    }
    for (double weight : weights) {
      if (sum != 0) weight /= sum;
      weight *= 1 << kFractionBits;
      window.weights.push_back(static_cast<std::int32_t>(weight < 0 ? weight - 0.5 : weight + 0.5));
    }
  }
  return all;
}

/// Resamples `lines` lines of `from` pixels to `to` pixels. Consecutive pixels of a line are `step`
/// pixels apart, consecutive lines `stride`; both in the result have `to_step` and `to_stride`.
struct Pass {
  int from = 0, to = 0, lines = 0;
  std::size_t step = 0, stride = 0, to_step = 0, to_stride = 0;
};

std::vector<std::uint8_t> run(const Pass& pass, const std::vector<std::uint8_t>& bytes,
                              ImageFilter filter) {
  const std::vector<Window> all = windows(pass.from, pass.to, filter);
  std::vector<std::uint8_t> result(static_cast<std::size_t>(pass.to) *
                                   static_cast<std::size_t>(pass.lines) * kColors);
  for (std::size_t line = 0; line < static_cast<std::size_t>(pass.lines); ++line)
    for (std::size_t i = 0; i < all.size(); ++i)
      for (std::size_t color = 0; color < kColors; ++color) {
        std::int64_t sum = 1 << (kFractionBits - 1);
        std::size_t at = line * pass.stride + static_cast<std::size_t>(all[i].first) * pass.step;
        for (const std::int32_t weight : all[i].weights) {
          sum += static_cast<std::int64_t>(weight) * bytes[at * kColors + color];
          at += pass.step;
        }
        result[(line * pass.to_stride + i * pass.to_step) * kColors + color] =
            static_cast<std::uint8_t>(std::clamp<std::int64_t>(sum >> kFractionBits, 0, 255));
      }
  return result;
}

/// Returns the index of the first byte of a pixel.
std::size_t pixel_at(int width, int x, int y) {
  return (static_cast<std::size_t>(y) * static_cast<std::size_t>(width) +
          static_cast<std::size_t>(x)) *
         kColors;
}

RgbImage nearest(const RgbImage& image, int width, int height) {
  RgbImage result{width, height, {}};
  const double x_scale = static_cast<double>(image.width) / width;
  const double y_scale = static_cast<double>(image.height) / height;
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      const int from_x = std::min(static_cast<int>((x + 0.5) * x_scale), image.width - 1);
      const int from_y = std::min(static_cast<int>((y + 0.5) * y_scale), image.height - 1);
      const auto* const pixel = image.bytes.data() + pixel_at(image.width, from_x, from_y);
      result.bytes.insert(result.bytes.end(), pixel, pixel + kColors);
    }
  return result;
}

}  // namespace

RgbImage resized(RgbImage image, int width, int height, ImageFilter filter) {
  if (filter == ImageFilter::kNearest) return nearest(image, width, height);
  if (width != image.width) {
    image.bytes = run({.from = image.width,
                       .to = width,
                       .lines = image.height,
                       .step = 1,
                       .stride = static_cast<std::size_t>(image.width),
                       .to_step = 1,
                       .to_stride = static_cast<std::size_t>(width)},
                      image.bytes, filter);
    image.width = width;
  }
  if (height != image.height) {
    const auto row = static_cast<std::size_t>(width);
    image.bytes = run({.from = image.height,
                       .to = height,
                       .lines = width,
                       .step = row,
                       .stride = 1,
                       .to_step = row,
                       .to_stride = 1},
                      image.bytes, filter);
    image.height = height;
  }
  return image;
}

RgbImage center_cropped(const RgbImage& image, int width, int height) {
  RgbImage result{width, height, {}};
  result.bytes.resize(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * kColors);
  // A smaller image is centered in a black one, which is then cropped.
  const auto offset = [](int from, int to) {
    return from >= to ? (from - to) / 2 : -((to - from + 1) / 2);
  };
  const int left = offset(image.width, width), top = offset(image.height, height);
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      const int from_x = x + left, from_y = y + top;
      if (from_x < 0 || from_x >= image.width || from_y < 0 || from_y >= image.height) continue;
      std::copy_n(image.bytes.data() + pixel_at(image.width, from_x, from_y), kColors,
                  result.bytes.data() + pixel_at(width, x, y));
    }
  return result;
}

}  // namespace llmc::hosted
