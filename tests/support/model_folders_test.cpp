#include "compiler/support/model_folders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/support/file.h"
#include "tests/support/temporary_folder.h"

namespace llmc {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

TEST(ModelFolders, AreItsOwnAndTheOneAboveOnnx) {
  const testing::TemporaryFolder folder;
  const fs::path top = fs::canonical(folder.path()), graphs = top / "onnx";
  fs::create_directory(graphs);
  ASSERT_TRUE(write_file(top / "weights.bin", std::string_view("x")).ok());
  EXPECT_THAT(model_folders(top), ElementsAre(top));
  EXPECT_THAT(model_folders(top / "model.onnx"), ElementsAre(top)) << "need not exist";
  EXPECT_THAT(model_folders(top / "weights.bin"), ElementsAre(top));
  EXPECT_THAT(model_folders(graphs), ElementsAre(graphs, top));
  EXPECT_THAT(model_folders(graphs / "model.onnx"), ElementsAre(graphs, top));
  EXPECT_THAT(model_folders(graphs / ""), ElementsAre(graphs / "", top));
  EXPECT_THAT(model_folders("/nowhere/onnx/"), ElementsAre("/nowhere/onnx/", "/nowhere"));
  EXPECT_THAT(model_folders("/nowhere/m"), ElementsAre("/nowhere/m"));
  fs::create_directory_symlink(graphs, top / "link");
  EXPECT_THAT(model_folders(top / "link"), ElementsAre(top / "link", top));
  fs::create_directory(top / "m.onnx");
  EXPECT_THAT(model_folders(top / "m.onnx"), ElementsAre(top / "m.onnx"));

  const fs::path before = fs::current_path();
  fs::current_path(graphs);
  const auto of_file = model_folders("model.onnx"), of_folder = model_folders(".");
  fs::current_path(before);
  EXPECT_THAT(of_file, ElementsAre(".", top));
  EXPECT_THAT(of_folder, ElementsAre(".", top));
}

TEST(ModelFolders, TheFirstThatHasAFileGivesIt) {
  const testing::TemporaryFolder folder;
  const fs::path top = fs::canonical(folder.path()), graphs = top / "onnx";
  fs::create_directory(graphs);
  const auto folders = model_folders(graphs);
  EXPECT_FALSE(find_in_folders(folders, "config.json").has_value());
  ASSERT_TRUE(write_file(top / "config.json", std::string_view("{}")).ok());
  EXPECT_EQ(find_in_folders(folders, "config.json"), top / "config.json");
  ASSERT_TRUE(write_file(graphs / "config.json", std::string_view("{}")).ok());
  EXPECT_EQ(find_in_folders(folders, "config.json"), graphs / "config.json");
}

}  // namespace
}  // namespace llmc
