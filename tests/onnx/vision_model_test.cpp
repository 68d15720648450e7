// Decoders of images and text: the embedding is in a file beside the decoder.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "tests/support_onnx/decoder_runner.h"
#include "tests/support_onnx/edit_model.h"
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

TEST(VisionModel, TheFolderHasItsImageEncoder) {
  const TemporaryFolder folder;
  write_tiny_vision(folder.path(), {.masked = true});
  const fs::path vision = folder.path() / "vision";
  fs::rename(vision / "vision_encoder.onnx", vision / "vision_encoder_fp16.onnx");
  std::ofstream(vision / "vision_encoder_q4.onnx") << "not read";
  const auto model = importer::import_model(vision);
  ASSERT_TRUE(model.ok());
  const ir::Graph* const encoder = model->module.media_encoder();
  ASSERT_NE(encoder, nullptr);
  EXPECT_EQ(encoder->value(encoder->inputs()[1]).name, "pixel_attention_mask");
  EXPECT_EQ(ir::to_string(encoder->value(encoder->outputs()[0]).type), "f32[batch_size, 4, 16]");
  const auto file =
      std::ranges::find(model->files, "vision_encoder_fp16.onnx", &importer::FileInfo::name);
  ASSERT_NE(file, model->files.end());
  EXPECT_EQ(file->role, importer::FileRole::kImageEncoder);
  // One file is the decoder alone, and a decoder of one file reads no folder.
  for (const char* const name : {"vision/decoder_model_merged.onnx", "model.onnx"}) {
    const auto alone = importer::import_model(folder.path() / name);
    ASSERT_TRUE(alone.ok());
    EXPECT_EQ(alone->module.media_encoder(), nullptr);
  }
}

// Multimodal RoPE reads positions of time, height and width, which are equal for text.
TEST(VisionModel, PositionsOfTextAreEqualOnAllAxes) {
  const TemporaryFolder folder;
  VisionForm form;
  write_tiny_vision(folder.path(), form);
  const std::vector<float> expected = logits_of(folder.path() / "model.onnx");
  EXPECT_TRUE(importer::import_model(folder.path() / "vision")->warnings.empty());
  for (const RopeForm rope : {RopeForm::kSections, RopeForm::kStoredSections}) {
    form.decoder.rope = rope;
    write_tiny_vision(folder.path(), form);
    EXPECT_EQ(logits_of(folder.path() / "vision"), expected);
    const auto model = importer::import_model(folder.path() / "vision");
    ASSERT_TRUE(model.ok());
    EXPECT_TRUE(model->warnings.empty());
    EXPECT_TRUE(model->graph().input(ir::InputKind::kPositionAxes).exists());
    EXPECT_FALSE(model->graph().input(ir::InputKind::kPositions).exists());
  }
}

TEST(VisionModel, ReadsPositionsAsTheyAreDeclared) {
  const TemporaryFolder folder;
  VisionForm form;
  form.decoder.rope = RopeForm::kSections;
  const fs::path decoder = folder.path() / "vision/decoder_model_merged.onnx";
  write_tiny_vision(folder.path(), form);
  const std::vector<float> expected = logits_of(folder.path() / "vision");
  const auto edited = [&](auto change) {
    write_tiny_vision(folder.path(), form);
    edit_model(decoder, change);
    return importer::import_model(folder.path() / "vision");
  };
  const auto axes_of = [](const importer::ImportedModel& model) {
    for (const ir::ValueId input : model.graph().inputs())
      if (model.graph().value(input).name == "position_axes")
        return ir::to_string(model.graph().value(input).type);
    return std::string();
  };
  const auto open = edited([](onnx::GraphProto& graph) {
    position_ids(graph).mutable_shape()->mutable_dim(0)->set_dim_param("n");
  });
  ASSERT_TRUE(open.ok());
  EXPECT_EQ(axes_of(*open), "i64[3, seq]");
  EXPECT_EQ(logits_of(folder.path() / "vision"), expected);

  const auto narrow = edited(
      [](onnx::GraphProto& graph) { position_ids(graph).set_elem_type(onnx::TensorProto::INT32); });
  ASSERT_TRUE(narrow.ok());
  EXPECT_EQ(axes_of(*narrow), "i64[3, seq]");
  EXPECT_EQ(logits_of(folder.path() / "vision"), expected);

  // The first of four rows has the places of the tokens; this graph reads the others.
  const auto four = edited([](onnx::GraphProto& graph) {
    position_ids(graph).mutable_shape()->mutable_dim(0)->set_dim_value(4);
    for (auto& node : *graph.mutable_node())
      for (std::string& input : *node.mutable_input())
        if (input == "position_ids") input = "last_three";
    onnx::NodeProto gather;
    gather.set_op_type("Gather");
    gather.add_input("position_ids");
    gather.add_input("one_to_three");
    gather.add_output("last_three");
    auto& nodes = *graph.mutable_node();
    *nodes.Add() = gather;
    for (int i = nodes.size() - 1; i > 0; --i) nodes.SwapElements(i, i - 1);
    auto& rows = *graph.add_initializer();
    rows.set_name("one_to_three");
    rows.set_data_type(onnx::TensorProto::INT64);
    rows.add_dims(3);
    for (const int row : {1, 2, 3}) rows.add_int64_data(row);
  });
  ASSERT_TRUE(four.ok()) << format(four.error().first());
  EXPECT_EQ(axes_of(*four), "i64[3, seq]");
  EXPECT_TRUE(four->graph().input(ir::InputKind::kPositions).exists());
  EXPECT_EQ(logits_of(folder.path() / "vision"), expected);

  for (const int rows : {0, 17}) {
    const auto refused = edited([&](onnx::GraphProto& graph) {
      position_ids(graph).mutable_shape()->mutable_dim(0)->set_dim_value(rows);
    });
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().first().node, "position_ids");
    EXPECT_EQ(refused.error().first().message,
              "has " + std::to_string(rows) + " rows of positions, not 1 to 16");
  }
}

TEST(VisionModel, AnImageEncoderReturnsRows) {
  const TemporaryFolder folder;
  write_tiny_vision(folder.path());
  const fs::path vision = folder.path() / "vision";
  const auto refused = [&] {
    const auto model = importer::import_model(vision);
    EXPECT_FALSE(model.ok());
    return model.ok() ? Diagnostic() : model.error().first();
  };
  std::ofstream(vision / "vision_encoder.onnx") << "damaged";
  Diagnostic error = refused();
  EXPECT_EQ(error.kind, ErrorKind::kBadInput);
  EXPECT_TRUE(error.file.ends_with("vision_encoder.onnx")) << error.file;
  EXPECT_TRUE(
      error.hint.ends_with("give the path of decoder_model_merged.onnx to compile the "
                           "decoder without this encoder"))
      << error.hint;
  OnnxBuilder ids(18);
  ids.input("x", onnx::TensorProto::INT64, {std::int64_t{2}, std::int64_t{16}});
  ids.node("Identity", {"x"}, {}, "y");
  ids.output("y", onnx::TensorProto::INT64, {std::int64_t{2}, std::int64_t{16}});
  ids.save(vision / "vision_encoder.onnx");
  error = refused();
  EXPECT_EQ(error.message, "returns i64[2, 16], not rows of floats of a fixed size");
  EXPECT_EQ(error.node, "y");
}

TEST(VisionModel, AnImageEncoderThatIsNotSupportedIsLeftOut) {
  const TemporaryFolder folder;
  write_tiny_vision(folder.path());
  const fs::path vision = folder.path() / "vision";
  OnnxBuilder encoder(18);
  encoder.input("pixels", onnx::TensorProto::FLOAT, {std::int64_t{2}, std::int64_t{16}});
  encoder.node("GridSampleOfTheFuture", {"pixels"}, {}, "image_features");
  encoder.output("image_features", onnx::TensorProto::FLOAT, {std::int64_t{2}, std::int64_t{16}});
  encoder.save(vision / "vision_encoder.onnx");
  const auto model = importer::import_model(vision);
  ASSERT_TRUE(model.ok()) << model.error().first().message;
  EXPECT_EQ(model->module.media_encoder(), nullptr);
  ASSERT_EQ(model->warnings.size(), 1u);
  EXPECT_TRUE(
      model->warnings[0].message.starts_with("the decoder is compiled without its image encoder: "))
      << model->warnings[0].message;
}

TEST(VisionModel, ANumberOfTheEmbeddingScalesItsTable) {
  const TemporaryFolder folder;
  for (const bool shifted : {false, true}) {
    write_tiny_vision(folder.path(), {.scaled = true, .shifted = shifted});
    const auto model = importer::import_model(folder.path() / "vision");
    ASSERT_TRUE(model.ok());
    const ir::Graph& graph = model->graph();
    const ir::UseDef uses(graph);
    const auto reads_scaled = [&](const ir::Node& node) {
      const ir::ConstantPtr table =
          ir::op_as<ir::Gather>(&node) ? uses.constant(node.inputs[0]) : nullptr;
      return table && table->describe().starts_with("scaled(") &&
             uses.use_count(node.outputs[0]) > 0;
    };
    EXPECT_EQ(std::ranges::any_of(graph.nodes(), reads_scaled), !shifted);
  }
}

TEST(VisionModel, AnEmbeddingMayScaleItsRows) {
  const TemporaryFolder folder;
  write_tiny_vision(folder.path(), {.scaled = true});
  EXPECT_NE(logits_of(folder.path() / "vision"), logits_of(folder.path() / "model.onnx"));
}

}  // namespace
}  // namespace llmc::testing
