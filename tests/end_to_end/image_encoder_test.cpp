// The image encoder in the library of a decoder.
#include <gmock/gmock.h>

#include <fstream>

#include "compiler/evaluate/verify.h"
#include "compiler/plan/weight_formats.h"
#include "compiler/support/file.h"
#include "tests/end_to_end/cross.h"
#include "tests/end_to_end/program.h"
#include "tests/end_to_end/vision_models.h"

namespace llmc::tests {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ImageEncoder : public VisionModel {
 protected:
  /// Writes a bundle of the whole model and returns its header.
  std::string header(const driver::CompileOptions& options) {
    auto source = driver::read_source(options);
    if (!source.ok()) return expect_ok(source.error()), std::string();
    const auto bundles = driver::compile_model(options, *std::move(source), {&options.target, 1},
                                               {&options.out_dir, 1});
    if (!bundles.ok()) return expect_ok(bundles.error()), std::string();
    return *read_file(options.out_dir / ((*bundles)[0].name + ".h"));
  }
};

struct TargetCase {
  std::string target;
  ir::WeightFormat format;
};
class ImageEncoderOfTarget : public ImageEncoder,
                             public ::testing::WithParamInterface<TargetCase> {};

TEST_P(ImageEncoderOfTarget, GivesTheBitsOfTheFunction) {
  const auto [target, format] = GetParam();
  if (const auto row = target::find(target); !executable(**row))
    LLMC_MISSING_CROSS(without_emulator(**row));
  setenv("LLMC_CROSS_DIR", cross_folder().c_str(), 1);
  const fs::path folder = write();
  const auto native = load(options_for(folder / "vision", target, format));
  ASSERT_TRUE(native);
  EXPECT_EQ(native->model().image_rows, kPatches);
  const Floats expected = image_rows(folder, 1, format);
  ASSERT_EQ(expected.size(), kPatches * kWidth);
  for (const std::uint32_t threads : {1u, 2u}) {
    const auto session = native->start(threads);
    ASSERT_TRUE(session.ok());
    ASSERT_TRUE((*session)->prefill(Ids{3, 17}).ok());
    const auto before = bits_of(**session);
    EXPECT_EQ(encoded_rows(**session), expected);
    EXPECT_EQ(bits_of(**session), before);
    EXPECT_EQ((*session)->position(), 2u);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ImageEncoderOfTarget,
                         ::testing::Values(TargetCase{"generic", ir::WeightFormat::kF32},
                                           TargetCase{"generic", ir::WeightFormat::kQ4},
                                           TargetCase{"arm64", ir::WeightFormat::kQ8}),
                         [](const auto& info) {
                           return info.param.target + "_" +
                                  std::string(plan::weight_format_name(info.param.format));
                         });

TEST_F(ImageEncoder, ReadsAsManyImagesAsACallSays) {
  const fs::path folder = write();
  auto options = options_for(folder / "vision", "generic", ir::WeightFormat::kF32);
  options.dims = {{"batch_size", plan::DimRange(1, 3)}};
  const auto native = load(options);
  ASSERT_TRUE(native);
  EXPECT_EQ(native->model().image_rows, 3 * kPatches);
  const auto session = native->start(1);
  ASSERT_TRUE(session.ok());
  EXPECT_EQ(encoded_rows(**session, 3), image_rows(folder, 3));
  const Tensor pixels = made_up_pixels(2);
  const void* const inputs[] = {pixels.floats.data()};
  Floats rows(3 * kPatches * kWidth);
  for (const std::int64_t images : {1, 2}) {
    const auto count =
        (*session)->get<std::size_t>(&exec::Api::encode_image, inputs, &images, rows.data());
    ASSERT_TRUE(count.ok());
    EXPECT_EQ(*count, static_cast<std::size_t>(images * kPatches));
    const Floats some(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(*count) * kWidth);
    EXPECT_EQ(some, [&] {
      const Floats all = image_rows(folder, 2);
      return Floats(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(some.size()));
    }());
  }
  for (const std::int64_t images : {0, 4, -1}) {
    const auto refused =
        (*session)->get<std::size_t>(&exec::Api::encode_image, inputs, &images, rows.data());
    EXPECT_THAT(refused.error().first().message, HasSubstr("a size out of range"));
  }
}

TEST_F(ImageEncoder, HasATypedFunctionInTheHeader) {
  fs::path folder = write({.masked = true});
  auto options = quick(folder / "vision", temporary_.path() / "one");
  options.name = "tiny";
  std::string text = header(options);
  EXPECT_THAT(text, HasSubstr("#define TINY_IMAGE_ROWS 4u\n"));
  EXPECT_THAT(text, HasSubstr("/* input 0: pixel_values f32[1, 3, 8, 8] */\n"));
  EXPECT_THAT(text, HasSubstr("#define TINY_IMAGE_INPUT_PIXEL_ATTENTION_MASK 1\n"));
  EXPECT_THAT(text,
              HasSubstr("llmc_status tiny_encode_image(llmc_session* session,\n"
                        "    const float* pixel_values, const uint8_t* pixel_attention_mask,\n"
                        "    float* rows, size_t* row_count);\n"));
  options.dims = {{"batch_size", plan::DimRange(1, 3)}};
  options.out_dir = temporary_.path() / "several";
  text = header(options);
  EXPECT_THAT(text, HasSubstr("a call of the encoder computes 4 * batch_size rows of "));
  EXPECT_THAT(text, HasSubstr("#define TINY_IMAGE_ROWS 12u /* maximum */\n"));
  EXPECT_THAT(text, HasSubstr("#define TINY_IMAGE_DIM_BATCH_SIZE 0\n"));
  EXPECT_THAT(text, HasSubstr("int64_t n_batch_size,\n    float* rows"));
  options.model = folder / "vision/decoder_model_merged.onnx";
  options.dims = {};
  options.out_dir = temporary_.path() / "alone";
  EXPECT_THAT(header(options), Not(HasSubstr("_IMAGE_")));
}

TEST_F(ImageEncoder, VerifyComparesItWithTheInterpreter) {
  const fs::path folder = write({.masked = true});
  for (const ir::WeightFormat format : {ir::WeightFormat::kF32, ir::WeightFormat::kQ4}) {
    evaluate::VerifyOptions options;
    options.native.compile = options_for(folder / "vision", "generic", format);
    options.long_run = false;
    const auto report = evaluate::verify_model(options);
    ASSERT_TRUE(report.ok());
    ASSERT_TRUE(report->image);
    EXPECT_TRUE(report->image->rows.ok);
    EXPECT_EQ(report->image->relative_error_allowed == 0, format == ir::WeightFormat::kF32);
    EXPECT_TRUE(report->ok());
    evaluate::VerifyReport wrong = *report;
    wrong.image->rows.ok = false;
    EXPECT_FALSE(wrong.ok());
  }
}

TEST_F(ImageEncoder, TheExampleInCNeedsOneLibrary) {
  const fs::path folder = write();
  const auto options = quick(folder / "vision", temporary_.path() / "bundle");
  ASSERT_NE(header(options), "");
  output_of({"env", "CC=clang-19", "sh", LLMC_SOURCE_DIR "/docs/examples/embed/build.sh",
             options.out_dir.string(), temporary_.path().string()});
  const fs::path file = temporary_.path() / "pixels.f32";
  const Floats pixels = made_up_pixels().floats;
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(pixels.data()),
             static_cast<std::streamsize>(pixels.size() * sizeof(float)));
  const std::string generated = output_of(
      {(temporary_.path() / "embed_image").string(), file.string(), "20", "6", "3", "20", "9"});

  const auto native = load(options);
  ASSERT_TRUE(native);
  const auto session = native->start(1);
  ASSERT_TRUE(session.ok());
  ASSERT_TRUE((*session)->prefill(Ids{3}).ok());
  ASSERT_TRUE((*session)->append_embeddings(encoded_rows(**session)).ok());
  ASSERT_TRUE((*session)->prefill(Ids{9}).ok());
  std::string expected;
  for (int i = 0; i < 6; ++i) {
    const auto token = (*session)->step();
    ASSERT_TRUE(token.ok());
    expected += std::to_string(*token) + "\n";
  }
  EXPECT_EQ(generated, expected);
}

TEST_F(ImageEncoder, RefusesWhatDoesNotFit) {
  const auto refused = [](const driver::CompileOptions& options) {
    auto source = driver::read_source(options);
    if (!source.ok()) return source.error().first();
    const auto plans = driver::plan_model(options, *std::move(source), {&options.target, 1});
    EXPECT_FALSE(plans.ok());
    return plans.ok() ? Diagnostic() : plans.error().first();
  };
  fs::path folder = write({.image_width = 20});
  auto options = quick(folder / "vision", {});
  const Diagnostic wide = refused(options);
  EXPECT_EQ(wide.kind, ErrorKind::kBadInput);
  EXPECT_EQ(wide.file, options.model / "vision_encoder.onnx");
  EXPECT_EQ(wide.message,
            "the image encoder returns rows of 20 elements, but the embeddings of the "
            "decoder have 16");
  folder = write();
  options.dims = {{"batch", 1}};
  EXPECT_THAT(refused(options).hint, HasSubstr("its symbols are: batch_size"));
  options.model = folder / "model.onnx";  // without an image encoder: a function
  options.dims = {{"seq", 4}};
  EXPECT_THAT(refused(options).hint, HasSubstr("leave --dim out to compile the decoder"));

  const auto native = load(options_for(folder / "vision", "generic", ir::WeightFormat::kF32));
  ASSERT_TRUE(native);
  const auto session = native->start(1);
  ASSERT_TRUE(session.ok());
  const std::vector<std::byte> few(4);
  EXPECT_EQ((*session)->encode_image({}).error().first().message,
            "the image encoder has 1 input, not 0");
  const std::span<const std::byte> inputs[] = {few};
  EXPECT_EQ((*session)->encode_image(inputs).error().first().message,
            "input 0 of the image encoder has 4 bytes, not 768");
  const auto alone = load(options_for(folder / "model.onnx", "generic", ir::WeightFormat::kF32));
  ASSERT_TRUE(alone);
  EXPECT_EQ((*alone->start(1))->encode_image({}).error().first().kind, ErrorKind::kUnsupported);
}

}  // namespace
}  // namespace llmc::tests
