#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/hosted/image/resample.h"

namespace llmc::hosted {
namespace {

using ::testing::ElementsAre;

RgbImage pattern(int width, int height) {
  RgbImage image{width, height, {}};
  for (int i = 0; i < 3 * width * height; ++i)
    image.bytes.push_back(static_cast<std::uint8_t>(i * 73 + i * i % 29 * 11 + i / 7));
  return image;
}

std::uint64_t hash_of(const RgbImage& image) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const std::uint8_t byte : image.bytes) hash = (hash ^ byte) * 0x100000001b3;
  return hash;
}

// Bytes that Pillow 9.4 computes.
TEST(ResampledImages, AreThoseOfPillow) {
  const std::uint64_t expected[][4] = {
      {0xe449534d2af6db5c, 0x45339faccb2c64f4, 0xd162abcd67a65a40, 0x081e99d2af2c0618},
      {0x348621d288cfaf7d, 0xa970706661a8c43b, 0x75d679bda4363f9b, 0x684aa32ee5cca507},
      {0x5d83f049bbd71032, 0xf17d9689ff26e156, 0x5a818f30e369bf08, 0x8426b6c2eded076f},
      {0x1eeff3a36de7d3d3, 0x56efbb8cedbf229c, 0x2cda4a071828366e, 0x0f5081a97da92772},
      {0xd39ba900c8cdae7d, 0x914c758400583ea6, 0xed10528525e738c6, 0x081e99d2af2c0618},
      {0x1175d1a20f0d9701, 0xce641be55271730d, 0xac9acb60d758bee8, 0x2b0b3bd515751d33},
  };
  const RgbImage image = pattern(97, 61);
  const std::pair<int, int> sizes[] = {{32, 32}, {150, 40}, {97, 20}, {200, 61}};
  for (int filter = 0; filter < 6; ++filter)
    for (int i = 0; i < 4; ++i) {
      const auto [width, height] = sizes[i];
      const RgbImage made = resized(image, width, height, static_cast<ImageFilter>(filter));
      EXPECT_EQ(made.width, width);
      EXPECT_EQ(made.height, height);
      EXPECT_EQ(hash_of(made), expected[filter][i]) << filter << ", " << width << " x " << height;
    }
  EXPECT_EQ(resized(image, 97, 61, ImageFilter::kBicubic).bytes, image.bytes);
}

TEST(CroppedImages, AreTheMiddleOrSurroundedByBlack) {
  const RgbImage image{3, 1, {1, 1, 1, 2, 2, 2, 3, 3, 3}};
  EXPECT_THAT(center_cropped(image, 1, 1).bytes, ElementsAre(2, 2, 2));
  EXPECT_THAT(center_cropped(image, 2, 1).bytes, ElementsAre(1, 1, 1, 2, 2, 2));
  EXPECT_THAT(center_cropped(image, 1, 2).bytes, ElementsAre(0, 0, 0, 2, 2, 2));
  EXPECT_THAT(center_cropped({1, 1, {7, 8, 9}}, 4, 1).bytes,
              ElementsAre(0, 0, 0, 0, 0, 0, 7, 8, 9, 0, 0, 0));
}

}  // namespace
}  // namespace llmc::hosted
