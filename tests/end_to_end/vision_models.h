#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <map>

#include "compiler/exec/function_library.h"
#include "compiler/onnx/model.h"
#include "compiler/reference/interpreter.h"
#include "tests/end_to_end/models.h"
#include "tests/support_onnx/tiny_vision.h"

/// A small model of images and text, and the rows that its files compute.
namespace llmc::tests {

namespace fs = std::filesystem;
using reference::Tensor;
using Floats = std::vector<float>;
using Ids = std::vector<std::int32_t>;

inline constexpr std::int64_t kWidth = 16, kPatches = 4;

inline Tensor id_tensor(const Ids& ids) {
  return reference::i64_tensor({1, static_cast<std::int64_t>(ids.size())},
                               {ids.begin(), ids.end()});
}

/// Compiles the graph as a function and runs it on its only input.
inline Floats run_function(const fs::path& file, ir::WeightFormat format,
                           const plan::DimRanges& dims, const Tensor& input) {
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

inline Tensor made_up_pixels(std::int64_t images = 1) {
  return reference::f32_tensor({images, 3, 8, 8},
                               exec::random_features(static_cast<std::size_t>(images) * 3 * 8 * 8));
}

/// The rows of made_up_pixels(images), from the image encoder compiled as a function.
inline Floats image_rows(const fs::path& folder, std::int64_t images = 1,
                         ir::WeightFormat format = ir::WeightFormat::kF32) {
  return run_function(folder / "vision/vision_encoder.onnx", format, {{"batch_size", images}},
                      made_up_pixels(images));
}

/// The rows of made_up_pixels(images), from the library of the whole model.
inline Floats encoded_rows(exec::Session& session, std::int64_t images = 1) {
  const Tensor pixels = made_up_pixels(images);
  const std::span<const std::byte> inputs[] = {std::as_bytes(std::span(pixels.floats))};
  auto rows = session.encode_image(inputs);
  if (!rows.ok()) return expect_ok(rows.error()), Floats();
  return *std::move(rows);
}

inline Floats table_rows(const fs::path& folder, ir::WeightFormat format, const Ids& ids) {
  const auto count = static_cast<std::int64_t>(ids.size());
  return run_function(folder / "vision/embed_tokens.onnx", format, {{"batch", 1}, {"seq", count}},
                      id_tensor(ids));
}

/// Evaluates a graph with the inputs that it reads, by name; returns its first output.
inline Tensor reference_output(const fs::path& file, const std::map<std::string, Tensor>& values) {
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
inline Floats reference_logits(const fs::path& folder, const Floats& rows, Tensor positions) {
  const auto count = static_cast<std::int64_t>(rows.size()) / kWidth;
  std::map<std::string, Tensor> values{
      {"inputs_embeds", reference::f32_tensor({1, count, kWidth}, rows)},
      {"position_ids", std::move(positions)}};
  for (const char* const layer : {"0", "1"})
    for (const char* const half : {".key", ".value"})
      values[std::string("past_key_values.") + layer + half] =
          reference::f32_tensor({1, 2, 0, 4}, {});
  const Tensor all = reference_output(folder / "vision/decoder_model_merged.onnx", values);
  return {all.floats.end() - all.dims.back(), all.floats.end()};
}

/// The same with the positions of text, one row.
inline Floats reference_logits(const fs::path& folder, const Floats& rows) {
  const auto count = static_cast<std::int64_t>(rows.size()) / kWidth;
  std::vector<std::int64_t> positions(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<std::int64_t>(i);
  return reference_logits(folder, rows, reference::i64_tensor({1, count}, std::move(positions)));
}

inline std::vector<std::uint32_t> bits_of(exec::Session& session) {
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

}  // namespace llmc::tests
