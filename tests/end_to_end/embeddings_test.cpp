// Rows that are appended in place of tokens: those of the model's own table, and those of an image.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <fstream>
#include <map>

#include "compiler/exec/function_library.h"
#include "compiler/onnx/model.h"
#include "compiler/plan/weight_formats.h"
#include "compiler/reference/interpreter.h"
#include "tests/end_to_end/cross.h"
#include "tests/end_to_end/models.h"
#include "tests/end_to_end/program.h"
#include "tests/support_onnx/tiny_vision.h"

namespace llmc::tests {
namespace {

namespace fs = std::filesystem;
using reference::Tensor;
using Floats = std::vector<float>;
using Ids = std::vector<std::int32_t>;

constexpr std::int64_t kWidth = 16, kPatches = 4;

Tensor id_tensor(const Ids& ids) {
  return reference::i64_tensor({1, static_cast<std::int64_t>(ids.size())},
                               {ids.begin(), ids.end()});
}

/// Compiles the graph as a function and runs it on its only input.
Floats run_function(const fs::path& file, ir::WeightFormat format, const plan::DimRanges& dims,
                    const Tensor& input) {
  driver::CompileOptions options = options_for(file, "generic", format);
  options.quant_given = true;
  options.dims = dims;
  auto source = driver::read_source(options);
  if (!source.ok()) return expect_ok(source.error()), Floats();
  const auto library = exec::FunctionLibrary::compile(options, *std::move(source), {}, {});
  if (!library.ok()) return expect_ok(library.error()), Floats();
  const auto outputs = (*library)->run(0, std::vector{reference::to_constant(input)});
  if (!outputs.ok()) return expect_ok(outputs.error()), Floats();
  return reference::to_tensor(*outputs->front()).floats;
}

Tensor made_up_pixels() {
  return reference::f32_tensor({1, 3, 8, 8}, exec::made_up_features(3 * 8 * 8));
}

Floats image_rows(const fs::path& folder) {
  return run_function(folder / "vision/vision_encoder.onnx", ir::WeightFormat::kF32,
                      {{"batch_size", 1}}, made_up_pixels());
}

Floats table_rows(const fs::path& folder, ir::WeightFormat format, const Ids& ids) {
  const auto count = static_cast<std::int64_t>(ids.size());
  return run_function(folder / "vision/embed_tokens.onnx", format, {{"batch", 1}, {"seq", count}},
                      id_tensor(ids));
}

/// Evaluates a graph with the inputs that it reads, by name; returns its first output.
Tensor reference_output(const fs::path& file, const std::map<std::string, Tensor>& values) {
  auto model = importer::ModelReader().bind_plain(file);
  if (!model.ok()) return expect_ok(model.error()), Tensor();
  reference::Interpreter interpreter(std::move(model->module.graph()));
  std::vector<Tensor> inputs;
  for (const ir::ValueId input : interpreter.graph().inputs())
    inputs.push_back(values.at(interpreter.graph().value(input).name));
  auto outputs = interpreter.evaluate(inputs);
  if (!outputs.ok()) return expect_ok(outputs.error()), Tensor();
  return outputs->front();
}

/// The logits after the rows of the decoder that takes them, without a cache.
Floats reference_logits(const fs::path& folder, const Floats& rows) {
  const auto count = static_cast<std::int64_t>(rows.size()) / kWidth;
  std::vector<std::int64_t> positions(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<std::int64_t>(i);
  std::map<std::string, Tensor> values{
      {"inputs_embeds", reference::f32_tensor({1, count, kWidth}, rows)},
      {"position_ids", reference::i64_tensor({1, count}, positions)}};
  for (const char* const layer : {"0", "1"})
    for (const char* const half : {".key", ".value"})
      values[std::string("past_key_values.") + layer + half] =
          reference::f32_tensor({1, 2, 0, 4}, {});
  const Tensor all = reference_output(folder / "vision/decoder_model_merged.onnx", values);
  return {all.floats.end() - all.dims.back(), all.floats.end()};
}

std::vector<std::uint32_t> bits_of(exec::Session& session) {
  const auto logits = session.logits();
  std::vector<std::uint32_t> bits;
  for (const float logit : *logits) bits.push_back(std::bit_cast<std::uint32_t>(logit));
  return bits;
}

class VisionModel : public ::testing::Test {
 protected:
  fs::path write(const testing::VisionForm& form = {}) {
    const fs::path folder = temporary_.path() / "model";
    testing::write_tiny_vision(folder, form);
    return folder;
  }
  testing::TemporaryFolder temporary_;
};

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

TEST_F(VisionModel, AnImageInAPrompt) {
  const fs::path folder = write();
  const Floats image = image_rows(folder);
  ASSERT_EQ(image.size(), kPatches * kWidth);
  const Tensor features =
      reference_output(folder / "vision/vision_encoder.onnx", {{"pixel_values", made_up_pixels()}});
  for (std::size_t i = 0; i < image.size(); ++i)
    EXPECT_NEAR(image[i], features.floats[i], 1e-5f) << i;

  const Ids before{3, 17}, after{9, 0, 23};
  Floats rows = table_rows(folder, ir::WeightFormat::kF32, before);
  rows.insert(rows.end(), image.begin(), image.end());
  const Floats last = table_rows(folder, ir::WeightFormat::kF32, after);
  rows.insert(rows.end(), last.begin(), last.end());
  const Floats expected = reference_logits(folder, rows);

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

TEST_F(VisionModel, AnEmbeddingThatComputesTakesNoRows) {
  const fs::path folder = write({.scaled = true});
  const auto native = load(options_for(folder / "vision", "generic", ir::WeightFormat::kF32));
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

TEST_F(VisionModel, TheExampleInCLinksBothModels) {
  const fs::path folder = write();
  auto decoder = quick(folder / "vision", temporary_.path() / "decoder");
  auto vision = quick(folder / "vision/vision_encoder.onnx", temporary_.path() / "encoder");
  vision.dims = {{"batch_size", 1}};
  for (const driver::CompileOptions* options : {&decoder, &vision}) {
    auto source = driver::read_source(*options);
    ASSERT_TRUE(source.ok());
    const auto bundles = driver::compile_model(*options, *std::move(source), {&options->target, 1},
                                               {&options->out_dir, 1});
    if (!bundles.ok()) expect_ok(bundles.error());
  }
  output_of({"env", "CC=clang-19", "sh", LLMC_SOURCE_DIR "/docs/examples/embed/image.sh",
             decoder.out_dir.string(), vision.out_dir.string(), temporary_.path().string()});
  const fs::path file = temporary_.path() / "pixels.f32";
  const Floats pixels = made_up_pixels().floats;
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(pixels.data()),
             static_cast<std::streamsize>(pixels.size() * sizeof(float)));
  const std::string generated = output_of(
      {(temporary_.path() / "embed_image").string(), file.string(), "20", "6", "3", "20", "9"});

  const auto native = load(decoder);
  ASSERT_TRUE(native);
  const auto session = native->start(1);
  ASSERT_TRUE(session.ok());
  const Ids before{3}, after{9};
  ASSERT_TRUE((*session)->prefill(before).ok());
  ASSERT_TRUE((*session)->append_embeddings(image_rows(folder)).ok());
  ASSERT_TRUE((*session)->prefill(after).ok());
  std::string expected;
  for (int i = 0; i < 6; ++i) {
    const auto token = (*session)->step();
    ASSERT_TRUE(token.ok());
    expected += std::to_string(*token) + "\n";
  }
  EXPECT_EQ(generated, expected);
}

}  // namespace
}  // namespace llmc::tests
