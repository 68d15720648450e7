#include "compiler/driver/sound_config.h"

#include <gtest/gtest.h>

#include "compiler/support/file.h"
#include "tests/support/temporary_folder.h"

namespace llmc::driver {
namespace {

TEST(SoundConfig, IsReadBesideTheFolderOfTheGraphs) {
  const testing::TemporaryFolder folder;
  const auto graphs = folder.path() / "onnx";
  std::filesystem::create_directory(graphs);
  const std::string config = R"({"feature_size": 128, "hop_length": 160, "n_fft": 400})";
  ASSERT_TRUE(write_file(folder.path() / "preprocessor_config.json", config).ok());
  for (const auto& model : {graphs, graphs / "encoder_model.onnx", folder.path()}) {
    const auto features = read_sound_features(model);
    ASSERT_TRUE(features.ok()) << model;
    EXPECT_EQ(features->mels, 128u) << model;
  }
}

}  // namespace
}  // namespace llmc::driver
