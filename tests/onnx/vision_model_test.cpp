// Decoders of images and text: the embedding is in a file beside the decoder.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "tests/support_onnx/decoder_runner.h"
#include "tests/support_onnx/tiny_vision.h"

namespace llmc::testing {
namespace {

namespace fs = std::filesystem;

std::vector<float> logits_of(const fs::path& model) {
  const auto imported = importer::import_model(model);
  if (!imported.ok()) {
    ADD_FAILURE() << format(imported.error().first());
    return {};
  }
  EXPECT_TRUE(imported->is_decoder());
  DecoderRunner runner(*imported);
  EXPECT_TRUE(runner.feed({3, 17, 9}).ok());
  auto logits = runner.feed({0, 23});
  EXPECT_TRUE(logits.ok());
  return *std::move(logits);
}

TEST(VisionModel, TakesItsEmbeddingFromTheFileBesideIt) {
  const TemporaryFolder folder;
  write_tiny_vision(folder.path());
  const std::vector<float> expected = logits_of(folder.path() / "model.onnx");
  EXPECT_EQ(logits_of(folder.path() / "vision"), expected);
  EXPECT_EQ(logits_of(folder.path() / "vision/decoder_model_merged.onnx"), expected);
  const auto model = importer::import_model(folder.path() / "vision");
  ASSERT_TRUE(model.ok());
  const auto file = std::ranges::find(model->files, "embed_tokens.onnx", &importer::FileInfo::name);
  ASSERT_NE(file, model->files.end());
  EXPECT_EQ(file->role, importer::FileRole::kEmbedding);
}

TEST(VisionModel, TakesTheLeastQuantizedEmbedding) {
  const TemporaryFolder folder;
  write_tiny_vision(folder.path());
  const std::vector<float> expected = logits_of(folder.path() / "model.onnx");
  const fs::path vision = folder.path() / "vision";
  fs::rename(vision / "embed_tokens.onnx", vision / "embed_tokens_fp16.onnx");
  for (const char* const name : {"embed_tokens_q4.onnx", "embed_tokens_other.onnx"})
    std::ofstream(vision / name) << "not read";
  EXPECT_EQ(logits_of(vision), expected);
  fs::remove(vision / "embed_tokens_fp16.onnx");
  EXPECT_FALSE(importer::import_model(vision).ok());
  fs::remove(vision / "embed_tokens_q4.onnx");
  const auto missing = importer::import_model(vision);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().first().hint,
            "copy embed_tokens.onnx, embedding.onnx or embeddings_bf16.bin into the folder");
}

TEST(VisionModel, AnEmbeddingMayScaleItsRows) {
  const TemporaryFolder folder;
  write_tiny_vision(folder.path(), {.scaled = true});
  EXPECT_NE(logits_of(folder.path() / "vision"), logits_of(folder.path() / "model.onnx"));
}

}  // namespace
}  // namespace llmc::testing
