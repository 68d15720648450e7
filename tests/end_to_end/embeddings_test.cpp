// Rows that are appended in place of tokens: those of the model's own table, and those of an image.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/plan/weight_formats.h"
#include "tests/end_to_end/cross.h"
#include "tests/end_to_end/vision_models.h"
#include "tests/support_onnx/edit_model.h"

namespace llmc::tests {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct TableCase {
  std::string target;
  ir::WeightFormat format;
};

class TableRows : public VisionModel, public ::testing::WithParamInterface<TableCase> {};

TEST_P(TableRows, GiveTheBitsOfTheTokens) {
  const auto [target, format] = GetParam();
  if (const auto row = target::find(target); !executable(**row))
    LLMC_MISSING_CROSS(without_emulator(**row));
  setenv("LLMC_CROSS_DIR", cross_folder().c_str(), 1);
  const fs::path folder = write();
  const Ids ids{3, 17, 9, 0, 23, 5, 5, 11, 2};
  const Floats rows = table_rows(folder, format, ids);
  ASSERT_EQ(rows.size(), ids.size() * kWidth);
  // The decoder with its own table, and the one whose table is in a file of its own.
  for (const fs::path& model : {folder, folder / "vision"}) {
    const auto native = load(options_for(model, target, format));
    ASSERT_TRUE(native);
    EXPECT_EQ(native->model().embedding_width, kWidth);
    std::vector<std::uint32_t> expected;
    for (const std::uint32_t chunk : {0u, 2u}) {
      const auto tokens = native->start({.chunk = chunk}), mixed = native->start({.chunk = chunk});
      ASSERT_TRUE(tokens.ok() && mixed.ok());
      ASSERT_TRUE((*tokens)->prefill(ids).ok());
      ASSERT_TRUE((*mixed)->prefill(std::span(ids).first(2)).ok());
      const std::span middle = std::span(rows).subspan(2 * kWidth, 5 * kWidth);
      ASSERT_TRUE((*mixed)->append_embeddings(middle).ok());
      ASSERT_TRUE((*mixed)->prefill(std::span(ids).subspan(7)).ok());
      EXPECT_EQ((*mixed)->position(), ids.size());
      const auto bits = bits_of(**tokens);
      EXPECT_EQ(bits_of(**mixed), bits);
      if (expected.empty()) expected = bits;
      EXPECT_EQ(bits, expected);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, TableRows,
                         ::testing::Values(TableCase{"generic", ir::WeightFormat::kF32},
                                           TableCase{"generic", ir::WeightFormat::kQ8},
                                           TableCase{"generic", ir::WeightFormat::kQ4},
                                           TableCase{"arm64", ir::WeightFormat::kQ4}),
                         [](const auto& info) {
                           return info.param.target + "_" +
                                  std::string(plan::weight_format_name(info.param.format));
                         });

/// Returns the rows of an image between those of two texts.
Floats rows_around(const fs::path& folder, const Ids& before, const Floats& image,
                   const Ids& after) {
  Floats rows = table_rows(folder, ir::WeightFormat::kF32, before);
  rows.insert(rows.end(), image.begin(), image.end());
  const Floats last = table_rows(folder, ir::WeightFormat::kF32, after);
  rows.insert(rows.end(), last.begin(), last.end());
  return rows;
}

TEST_F(VisionModel, AnImageInAPrompt) {
  const fs::path folder = write();
  const Floats image = image_rows(folder);
  ASSERT_EQ(image.size(), kPatches * kWidth);
  const Tensor features =
      reference_output(folder / "vision/vision_encoder.onnx", {{"pixel_values", made_up_pixels()}});
  for (std::size_t i = 0; i < image.size(); ++i)
    EXPECT_NEAR(image[i], features.floats[i], 1e-5f) << i;

  const Ids before{3, 17}, after{9, 0, 23};
  const Floats expected = reference_logits(folder, rows_around(folder, before, image, after));

  const auto native = load(options_for(folder / "vision", "generic", ir::WeightFormat::kF32));
  ASSERT_TRUE(native);
  const auto session = native->start(1);
  ASSERT_TRUE(session.ok());
  ASSERT_TRUE((*session)->prefill(before).ok());
  ASSERT_TRUE((*session)->append_embeddings(image).ok());
  ASSERT_TRUE((*session)->prefill(after).ok());
  const auto logits = (*session)->logits();
  ASSERT_TRUE(logits.ok());
  ASSERT_EQ(logits->size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR((*logits)[i], expected[i], 2e-4f) << i;

  const auto refused = (*session)->append_embeddings(std::span(image).first(kWidth + 1));
  EXPECT_EQ(refused.error().first().message, "17 numbers are not rows of 16");
  const Floats many(130 * kWidth, 0.5f);
  EXPECT_EQ((*session)->append_embeddings(many).error().first().kind, ErrorKind::kBadInput);
  EXPECT_EQ((*session)->position(), 9u);
}

struct PositionCase {
  std::string target;
  testing::RopeForm rope;
};

class ImagePositions : public VisionModel, public ::testing::WithParamInterface<PositionCase> {};

// Text, an image of two lines of two patches, and text after the largest position.
TEST_P(ImagePositions, AreThoseOfTheGraph) {
  const auto& [target, rope] = GetParam();
  if (const auto row = target::find(target); !executable(**row))
    LLMC_MISSING_CROSS(without_emulator(**row));
  setenv("LLMC_CROSS_DIR", cross_folder().c_str(), 1);
  testing::VisionForm form;
  form.decoder.rope = rope;
  const fs::path folder = write(form);
  const Ids before{3, 17}, after{9, 0, 23};
  const Floats image = image_rows(folder);
  const std::vector<std::int32_t> grid{0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 1, 1};
  const std::vector<std::int64_t> rows{0, 1, 2, 2, 2, 2, 4, 5, 6,   // time
                                       0, 1, 2, 2, 3, 3, 4, 5, 6,   // height
                                       0, 1, 2, 3, 2, 3, 4, 5, 6};  // width
  const Floats expected = reference_logits(folder, rows_around(folder, before, image, after),
                                           reference::i64_tensor({3, 1, 9}, rows));
  const auto native = load(options_for(folder / "vision", target, ir::WeightFormat::kF32));
  ASSERT_TRUE(native);
  EXPECT_EQ(native->model().position_axes, 3u);
  std::vector<std::uint32_t> first;
  for (const std::uint32_t chunk : {0u, 3u}) {
    const auto session = native->start({.chunk = chunk});
    ASSERT_TRUE(session.ok());
    ASSERT_TRUE((*session)->prefill(before).ok());
    ASSERT_TRUE((*session)->append_embeddings_at(image, grid).ok());
    ASSERT_TRUE((*session)->prefill(after).ok());
    const auto logits = (*session)->logits();
    ASSERT_TRUE(logits.ok());
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR((*logits)[i], expected[i], 2e-4f) << i;
    const auto bits = bits_of(**session);
    if (first.empty()) first = bits;
    EXPECT_EQ(bits, first) << chunk;

    const std::vector<std::int32_t> negative(12, -1);
    const Status refused = (*session)->append_embeddings_at(image, negative);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().first().kind, ErrorKind::kBadInput);
    EXPECT_EQ((*session)->position(), 9u);
  }
  // In the positions of text the image is another one.
  const auto text = native->start(1);
  ASSERT_TRUE(text.ok());
  ASSERT_TRUE((*text)->prefill(before).ok());
  ASSERT_TRUE((*text)->append_embeddings(image).ok());
  ASSERT_TRUE((*text)->prefill(after).ok());
  EXPECT_NE(bits_of(**text), first);
}

INSTANTIATE_TEST_SUITE_P(
    All, ImagePositions,
    ::testing::Values(PositionCase{"generic", testing::RopeForm::kSections},
                      PositionCase{"generic", testing::RopeForm::kStoredSections},
                      PositionCase{"arm64", testing::RopeForm::kSections}),
    [](const auto& info) {
      return info.param.target +
             (info.param.rope == testing::RopeForm::kSections ? "_Sections" : "_StoredSections");
    });

// A graph that computes more than rotations from the positions: it adds the largest to the rows.
TEST_F(VisionModel, AWarningSaysThatPositionsInImagesAreLost) {
  testing::VisionForm form;
  form.decoder.rope = testing::RopeForm::kSections;
  form.decoder.opset = 17;  // the axes of ReduceMax are an attribute
  const fs::path folder = write(form);
  testing::edit_model(folder / "vision/decoder_model_merged.onnx", [](onnx::GraphProto& graph) {
    for (auto& node : *graph.mutable_node())
      for (std::string& input : *node.mutable_input())
        if (input == "inputs_embeds") input = "moved_rows";
    const auto add = [&](const char* type, std::initializer_list<const char*> inputs,
                         const char* output) -> onnx::NodeProto& {
      onnx::NodeProto& node = *graph.add_node();
      node.set_op_type(type);
      for (const char* const input : inputs) node.add_input(input);
      node.add_output(output);
      return node;
    };
    auto& to = *add("Cast", {"position_ids"}, "float_positions").add_attribute();
    to.set_name("to");
    to.set_type(onnx::AttributeProto::INT);
    to.set_i(onnx::TensorProto::FLOAT);
    auto& perm = *add("Transpose", {"float_positions"}, "of_tokens").add_attribute();
    perm.set_name("perm");
    perm.set_type(onnx::AttributeProto::INTS);
    for (const int axis : {1, 2, 0}) perm.add_ints(axis);
    auto& axes = *add("ReduceMax", {"of_tokens"}, "largest").add_attribute();
    axes.set_name("axes");
    axes.set_type(onnx::AttributeProto::INTS);
    axes.add_ints(2);
    add("Add", {"inputs_embeds", "largest"}, "moved_rows");
  });
  auto options = options_for(folder / "vision", "generic", ir::WeightFormat::kF32);
  std::vector<std::string> warnings;
  options.import.on_warning = [&](const Diagnostic& d) { warnings.push_back(d.message); };
  const auto plan = driver::plan_model(options);
  if (!plan.ok()) return expect_ok(plan.error());
  EXPECT_THAT(warnings, Contains(HasSubstr("the rows of an image get the positions of text")));
  // The decoder alone takes rows of anything, at the positions of text.
  warnings.clear();
  options.model /= "decoder_model_merged.onnx";
  const auto native = load(options);
  ASSERT_TRUE(native);
  EXPECT_THAT(warnings, IsEmpty());
  EXPECT_EQ(native->model().position_axes, 0u);
}

TEST_F(VisionModel, AnImageEntersAfterTheScaleOfTheEmbedding) {
  const fs::path folder = write({.scaled = true});
  const Ids before{3, 17}, after{9, 0, 23};
  const Floats image = image_rows(folder);
  const Floats expected = reference_logits(folder, rows_around(folder, before, image, after));
  for (const ir::WeightFormat format : {ir::WeightFormat::kF32, ir::WeightFormat::kQ8}) {
    const auto native = load(options_for(folder / "vision", "generic", format));
    ASSERT_TRUE(native);
    const auto session = native->start(1);
    ASSERT_TRUE(session.ok());
    ASSERT_TRUE((*session)->prefill(before).ok());
    ASSERT_TRUE((*session)->append_embeddings(image).ok());
    ASSERT_TRUE((*session)->prefill(after).ok());
    const auto logits = (*session)->logits();
    ASSERT_TRUE(logits.ok());
    const float tolerance = format == ir::WeightFormat::kF32 ? 2e-4f : 0.1f;
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR((*logits)[i], expected[i], tolerance) << i;
  }
}

TEST_F(VisionModel, AnEmbeddingThatComputesTakesNoRows) {
  const fs::path folder = write({.shifted = true});
  auto options = options_for(folder / "vision", "generic", ir::WeightFormat::kF32);
  std::vector<std::string> warnings;
  options.import.on_warning = [&](const Diagnostic& d) { warnings.push_back(d.message); };
  const auto text = driver::plan_model(options);
  if (!text.ok()) return expect_ok(text.error());
  EXPECT_THAT(warnings,
              Contains(HasSubstr("without its image encoder: the decoder takes no rows")));
  options.dims = {{"batch_size", 1}};  // asks for the image encoder
  const auto with_images = driver::plan_model(options);
  ASSERT_FALSE(with_images.ok());
  EXPECT_EQ(with_images.error().first().file, folder / "vision/vision_encoder.onnx");
  EXPECT_EQ(with_images.error().first().kind, ErrorKind::kUnsupported);
  options.dims.clear();
  options.model /= "decoder_model_merged.onnx";
  const auto native = load(options);
  ASSERT_TRUE(native);
  EXPECT_EQ(native->model().embedding_width, 0u);
  const auto session = native->start(1);
  ASSERT_TRUE(session.ok());
  const Ids ids{3, 17, 9};
  ASSERT_TRUE((*session)->prefill(ids).ok());
  const Floats rows = table_rows(folder, ir::WeightFormat::kF32, ids);
  const Floats expected = reference_logits(folder, rows);
  const auto logits = (*session)->logits();
  ASSERT_TRUE(logits.ok());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR((*logits)[i], expected[i], 2e-4f) << i;
  const Status refused = (*session)->append_embeddings(rows);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().first().kind, ErrorKind::kUnsupported);
}

}  // namespace
}  // namespace llmc::tests
