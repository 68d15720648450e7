#include "models/random/random_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "compiler/onnx/model.h"
#include "compiler/support/half.h"
#include "tests/support_onnx/decoder_runner.h"
#include "tests/support_onnx/onnx_builder.h"

namespace llmc::models {
namespace {

namespace fs = std::filesystem;
using llmc::testing::read_bytes;
using llmc::testing::TemporaryFolder;
using ::testing::HasSubstr;

RandomShape tiny(std::uint64_t seed = 1) {
  RandomShape shape = *find_random_shape("tiny");
  shape.config.seed = seed;
  return shape;
}

importer::ImportedModel written(const RandomShape& shape, const fs::path& folder) {
  const Status status = write_random_model(shape, folder);
  EXPECT_TRUE(status.ok()) << format(status.error().first());
  auto model = importer::import_model(folder);
  EXPECT_TRUE(model.ok()) << format(model.error().first());
  return *std::move(model);
}

std::size_t entries(const fs::path& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

// The published numbers of parameters; Qwen2.5-1.5B's and Llama-3.2-1B's with the head tied.
TEST(RandomShapes, HaveTheParametersOfTheirNames) {
  const std::pair<const char*, std::uint64_t> expected[] = {
      {"qwen1.5-0.5b", 463987712},  {"llama-3.2-1b", 1235814400}, {"qwen2.5-1.5b", 1543714304},
      {"qwen1.5-1.8b", 1836828672}, {"qwen1.5-4b", 3950369280},   {"llama-2-7b", 6738415616},
      {"olmoe-1b-7b", 6919161856}};
  for (const auto& [name, parameters] : expected) {
    ASSERT_NE(find_random_shape(name), nullptr) << name;
    EXPECT_EQ(parameter_count(*find_random_shape(name)), parameters) << name;
  }
  EXPECT_EQ(find_random_shape("qwen"), nullptr);
}

TEST(RandomModel, IsImportedWithItsShape) {
  const TemporaryFolder folder;
  const RandomShape shape = tiny();
  const auto model = written(shape, folder.path() / "m");
  EXPECT_TRUE(model.is_decoder());
  EXPECT_EQ(std::ssize(model.module.states), shape.config.layers);
  EXPECT_EQ(model.module.states[0].kv_heads, shape.config.kv_heads);
  EXPECT_EQ(model.module.states[0].head_dim, shape.config.head_dim);
  EXPECT_EQ(model.module.vocabulary(), shape.config.vocabulary);
  ASSERT_TRUE(model.tokenizer.has_value());
  std::uint64_t weights = 0;
  for (const auto& file : model.files)
    if (file.name.ends_with(".onnx") || file.name.ends_with(".bin")) weights += file.size_bytes;
  EXPECT_GE(weights, file_bytes(shape));
  EXPECT_LT(weights, file_bytes(shape) + 30000);  // graphs
}

TEST(RandomModel, IsTheSameForTheSameSeed) {
  const TemporaryFolder folder;
  const auto hash = [&](const RandomShape& shape) {
    const auto model = written(shape, folder.path() / "m");  // replaces the one before
    return *importer::content_hash(model);
  };
  const std::string first = hash(tiny());
  EXPECT_EQ(hash(tiny()), first);
  EXPECT_NE(hash(tiny(2)), first);
  EXPECT_EQ(entries(folder.path()), 1u);
}

TEST(RandomModel, HasTheseNumbersOnEveryMachine) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_random_model(tiny(), folder.path() / "m").ok());
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char byte : read_bytes(folder.path() / "m/embeddings_bf16.bin"))
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
  EXPECT_EQ(hash, 18413095907858059497u);
}

TEST(RandomModel, TiedHeadIsTheEmbedding) {
  const TemporaryFolder folder;
  const RandomShape shape = tiny();
  const fs::path at = folder.path() / "m";
  ASSERT_TRUE(write_random_model(shape, at).ok());
  const std::string table = read_bytes(at / "embeddings_bf16.bin");
  onnx::ModelProto head;
  ASSERT_TRUE(head.ParseFromString(read_bytes(at / "lm.onnx")));
  ASSERT_EQ(head.graph().initializer_size(), 1);
  const onnx::TensorProto& weight = head.graph().initializer(0);
  EXPECT_EQ(weight.data_type(), onnx::TensorProto::FLOAT16);
  const auto hidden = static_cast<std::size_t>(shape.config.hidden);
  const auto vocabulary = static_cast<std::size_t>(shape.config.vocabulary);
  ASSERT_EQ(weight.raw_data().size(), hidden * vocabulary * 2);
  ASSERT_EQ(table.size(), hidden * vocabulary * 2);
  const auto half = [](const std::string& bytes, std::size_t i) {
    return static_cast<std::uint16_t>(static_cast<unsigned char>(bytes[2 * i]) |
                                      static_cast<unsigned char>(bytes[2 * i + 1]) << 8);
  };
  for (std::size_t v = 0; v < vocabulary; ++v)
    for (std::size_t h = 0; h < hidden; ++h)
      ASSERT_EQ(half(weight.raw_data(), h * vocabulary + v),
                f32_to_f16(bf16_to_f32(half(table, v * hidden + h))));
}

TEST(RandomModel, LogitsAreNeitherZeroNorHuge) {
  const TemporaryFolder folder;
  RandomShape shape = tiny();
  shape.tied = false;
  shape.config.layers = 8;
  const auto model = written(shape, folder.path() / "m");
  const auto logits = testing::DecoderRunner(model).feed({1, 40, 2, 511, 7});
  ASSERT_TRUE(logits.ok());
  double squares = 0;
  for (const float x : *logits) squares += static_cast<double>(x) * static_cast<double>(x);
  const double deviation = std::sqrt(squares / static_cast<double>(logits->size()));
  // 0.7 of what the final norm makes, 1.
  EXPECT_GT(deviation, 0.5);
  EXPECT_LT(deviation, 0.9);
}

TEST(RandomModel, ReplacesNoOtherFolderAndLeavesNothingBehind) {
  const TemporaryFolder folder;
  const fs::path at = folder.path() / "m";
  testing::write_bytes(at / "block_0.onnx", "not of this program: no configuration beside it");
  const Status refused = write_random_model(tiny(), at);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().first().kind, ErrorKind::kBadInput);
  EXPECT_EQ(entries(at), 1u);
  EXPECT_EQ(entries(folder.path()), 1u);

  RandomShape huge = tiny();
  huge.config.vocabulary = std::int64_t{1} << 40;
  const Status full = write_random_model(huge, folder.path() / "n");
  ASSERT_FALSE(full.ok());
  EXPECT_THAT(full.error().first().message, HasSubstr("the disk has room for"));
  EXPECT_EQ(entries(folder.path()), 1u);
}

}  // namespace
}  // namespace llmc::models
