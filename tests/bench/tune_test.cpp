#include "compiler/bench/tune.h"

#include <gmock/gmock.h>

#include "compiler/driver/resources.h"
#include "compiler/target/target.h"

namespace llmc::bench {
namespace {

constexpr std::string_view kHeader =
    "// Tiles: 4 = few\n"
    "inline constexpr size_t kTokenTile = 6, kPanelTile = 1;\n"
    "inline constexpr size_t kTokenTileMost = 12;\n";

std::uint32_t value(const Tiles& tiles, std::string_view name) {
  for (const TileConstant& tile : tiles)
    if (tile.name == name) return tile.value;
  return 0;
}

TEST(Tiles, AreReadAndReplacedByName) {
  auto tiles = parse_tiles(kHeader);
  ASSERT_TRUE(tiles.ok());
  EXPECT_EQ(value(*tiles, "kTokenTile"), 6u);
  EXPECT_EQ(value(*tiles, "kPanelTile"), 1u);
  EXPECT_EQ(value(*tiles, "kTokenTileMost"), 12u);
  const std::string text = with_tiles(kHeader, {{"kTokenTile", 12}, {"kPanelTile", 2}});
  EXPECT_EQ(text,
            "// Tiles: 4 = few\n"
            "inline constexpr size_t kTokenTile = 12, kPanelTile = 2;\n"
            "inline constexpr size_t kTokenTileMost = 12;\n");
  EXPECT_EQ(with_tiles(kHeader, {{"kUnknown", 3}}), kHeader);
  EXPECT_FALSE(parse_tiles("// nothing\n").ok());
}

TEST(Tiles, OfEveryTargetAreAmongTheSources) {
  for (const target::Target& target : target::all()) {
    bool found = false;
    for (const driver::Resource& resource : driver::resources()) {
      if (resource.path != "templates/" + std::string(target.tiles)) continue;
      found = true;
      const auto tiles = parse_tiles(resource.content);
      ASSERT_TRUE(tiles.ok());
      EXPECT_GT(value(*tiles, "kFloatTokens"), 0u) << target.name;
      EXPECT_EQ(with_tiles(resource.content, *tiles), resource.content);
    }
    EXPECT_TRUE(found) << target.tiles;
  }
}

}  // namespace
}  // namespace llmc::bench
