// The commands of llmc with a model of images and text.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "runtime/hosted/image/resample.h"
#include "tests/end_to_end/run_command.h"
#include "tests/support_onnx/tiny_vision.h"

#ifdef LLMC_PROGRAM
namespace llmc::tests {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kPixels = 3 * 8 * 8;

class ImageCommand : public RunOfModels {
 protected:
  std::string model(const testing::VisionForm& form = {}) {
    testing::write_tiny_vision(folder_.path(), form);
    const auto vision = folder_.path() / "vision";
    EXPECT_TRUE(write_file(vision / "config.json", R"({"image_token_index": 20})").ok());
    EXPECT_TRUE(write_file(vision / "preprocessor_config.json",
                           R"({"do_rescale": true, "rescale_factor": 0.00392156862745098,
                       "image_mean": [0.5, 0.25, 0.125], "image_std": [0.5, 0.5, 0.25]})")
                    .ok());
    return vision.string();
  }
  static std::string npy(const std::string& shape, const std::string& elements,
                         const std::string& type = "<f4") {
    std::string header =
        "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }\n";
    return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + '\0' + header +
           elements;
  }
  static ProgramRun run(const std::string& model, Arguments more, bool bundle = false) {
    return run_model(model, std::move(more), "4", bundle);
  }
};

TEST_F(ImageCommand, AnImageReplacesItsToken) {
  const std::string vision = model();
  std::string bytes;
  std::vector<float> pixels(kPixels);
  constexpr float kMean[] = {0.5f, 0.25f, 0.125f}, kDeviation[] = {0.5f, 0.5f, 0.25f};
  for (std::size_t i = 0; i < kPixels; ++i) {
    const auto byte = static_cast<unsigned char>(i * 37);
    bytes += static_cast<char>(byte);
    const std::size_t color = i % 3;
    pixels[color * 64 + i / 3] =
        static_cast<float>((byte * 0.00392156862745098 - static_cast<double>(kMean[color])) /
                           static_cast<double>(kDeviation[color]));
  }
  const std::string raw = file("a.f32", floats(pixels));
  const Arguments ids{"--ids", "3,20,9"};
  const auto with = [&](const std::string& image, const std::string& list = "3,20,9") {
    return hash(run(vision, {"--ids", list, "--image", image}));
  };
  const std::string from_raw = with(raw);
  EXPECT_NE(from_raw, hash(run(vision, ids)));
  EXPECT_EQ(with(file("a.npy", npy("(3, 8, 8)", floats(pixels)))), from_raw);
  EXPECT_EQ(with(file("b.npy", npy("(1, 3, 8, 8)", floats(pixels)))), from_raw);
  EXPECT_EQ(with(file("a.ppm", "P6\n# comment\n8 8\n255\n" + bytes)), from_raw);
  // A processor repeats the token for each row.
  EXPECT_EQ(with(raw, "3,20,20,20,20,9"), from_raw);
  // Two images; the prompt may begin and end with one.
  std::vector<float> other = pixels;
  other[0] = 3;
  const std::string second = file("b.f32", floats(other));
  const std::string both =
      hash(run(vision, {"--ids", "20,9,20", "--image", raw, "--image", second}));
  EXPECT_NE(hash(run(vision, {"--ids", "20,9,20", "--image", second, "--image", raw})), both);

  const std::string bundle = (folder_.path() / "bundle").string();
  const ProgramRun made =
      llmc({"compile", vision, "-o", bundle, "--target", "generic", "--cflag=-O0", "-q"});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_EQ(hash(run(bundle, {"--ids", "3,20,9", "--image", file("c.ppm", "P6 8 8 255\n" + bytes)},
                     true)),
            from_raw);
  const ProgramRun dim =
      run(bundle, {"--ids", "3,20", "--image", raw, "--dim", "batch_size=1"}, true);
  EXPECT_EQ(dim.code, 2);
}

TEST_F(ImageCommand, RowsHaveTheirPlacesInAGrid) {
  testing::VisionForm form;
  form.decoder.rope = testing::RopeForm::kSections;
  const std::string raw = file("a.f32", floats(std::vector<float>(kPixels, 0.5f)));
  const auto with = [&](const std::string& vision, const Arguments& more) {
    Arguments arguments{"--ids", "3,20,9"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(vision, arguments);
  };
  const std::string vision = model(form);
  const Arguments image{"--image", raw};
  const auto grid = [&](const std::string& size) {
    return Arguments{"--image", raw, "--image-grid", size};
  };
  const std::string square = hash(with(vision, image));
  EXPECT_EQ(hash(with(vision, grid("2x2"))), square);
  EXPECT_NE(hash(with(vision, grid("1x4"))), square);
  const auto refused = [&](const std::string& of, const Arguments& more, const std::string& text) {
    const ProgramRun made = with(of, more);
    EXPECT_EQ(made.code, 2) << made.err;
    EXPECT_THAT(made.err, HasSubstr(text));
  };
  refused(vision, grid("2x3"), "the image has 4 rows, not 2 x 3");
  for (const std::string bad : {"2", "2x", "x2", "0x4", "2x2x1", "-1x4", "2X2", "99999999999x1"})
    refused(vision, grid(bad), "is not two numbers of lines and columns");
  refused(vision, {"--image", raw, "--dim", "batch_size=2"}, "--image takes one image a file");
  refused(vision, {"--image-grid", "2x2"}, "--image-grid has no effect without --image");
  refused(model(), grid("2x2"), "--image-grid needs a model with positions in images");
}

/// An image of any size, as P6.
std::string ppm(const hosted::RgbImage& image) {
  return fmt::format("P6 {} {} 255\n", image.width, image.height) +
         std::string(image.bytes.begin(), image.bytes.end());
}

TEST_F(ImageCommand, ResizesAsTheProcessorDoes) {
  const std::string vision = model();
  hosted::RgbImage image{20, 10, {}};
  for (int i = 0; i < 600; ++i) image.bytes.push_back(static_cast<std::uint8_t>(i * 37 + i / 11));
  const std::string large = file("large.ppm", ppm(image));
  const auto configured = [&](const std::string& resizing) {
    EXPECT_TRUE(write_file(vision + "/preprocessor_config.json",
                           R"({"image_mean": [0.5, 0.25, 0.125], "image_std": [0.5, 0.5, 0.25], )" +
                               resizing + "}")
                    .ok());
  };
  const auto with = [&](const std::string& path) {
    return run(vision, {"--ids", "3,20,9", "--image", path});
  };
  const auto same = [&](const hosted::RgbImage& expected) {
    EXPECT_EQ(hash(with(large)), hash(with(file("small.ppm", ppm(expected)))));
  };
  using hosted::ImageFilter;
  configured(R"("size": {"height": 8, "width": 8}, "resample": 3)");
  same(hosted::resized(image, 8, 8, ImageFilter::kBicubic));
  configured(R"("do_resize": true, "size": 8, "resample": 2,
                "image_processor_type": "ViTImageProcessor", "do_center_crop": false)");
  same(hosted::resized(image, 8, 8, ImageFilter::kBilinear));
  const std::string crops = R"("resample": 3, "do_center_crop": true, "crop_size": )";
  configured(R"("size": {"shortest_edge": 9}, )" + crops + R"({"height": 8, "width": 8})");
  const hosted::RgbImage cropped =
      hosted::center_cropped(hosted::resized(image, 18, 9, ImageFilter::kBicubic), 8, 8);
  same(cropped);
  configured(R"("size": 9, "feature_extractor_type": "CLIPFeatureExtractor", )" + crops + "8");
  same(cropped);
  const std::string bundle = (folder_.path() / "bundle").string();
  const ProgramRun made =
      llmc({"compile", vision, "-o", bundle, "--target", "generic", "--cflag=-O0", "-q"});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_EQ(hash(run(bundle, {"--ids", "3,20,9", "--image", large}, true)), hash(with(large)));

  const auto refused = [&](const std::string& resizing, const std::string& message) {
    configured(resizing);
    const ProgramRun ran = with(large);
    EXPECT_EQ(ran.code, 3) << ran.err;
    EXPECT_THAT(ran.err, HasSubstr("has 20 x 10 pixels, but the image encoder reads 8 x 8"));
    EXPECT_THAT(ran.err, HasSubstr(message));
  };
  refused(R"("size": {"height": 4, "width": 8}, "resample": 3)", "makes 8 x 4 of it");
  refused(R"("size": {"shortest_edge": 8}, "resample": 3)", "makes 16 x 8 of it");
  refused(R"("size": {"height": 8, "width": 8})", "resample of preprocessor_config.json");
  refused(R"("size": 8, "resample": 3)", "size of preprocessor_config.json");
  refused(R"("size": {"longest_edge": 8}, "resample": 3)", "size of preprocessor_config.json");
  refused(R"("size": [8, 8], "resample": 3)", "size of preprocessor_config.json");
  refused(R"("size": {"height": 8, "width": 8}, "resample": 3, "do_pad": true)",
          "do_pad of preprocessor_config.json");
  refused(R"("size": {"height": 8, "width": 8}, "resample": 3, "do_resize": false)",
          "do_resize of preprocessor_config.json");
}

TEST_F(ImageCommand, MasksHideNothing) {
  const std::string vision = model({.masked = true});
  const std::string raw = file("a.f32", floats(std::vector<float>(kPixels, 0.5f)));
  const std::string masked = hash(run(vision, {"--ids", "3,20,9", "--image", raw}));
  EXPECT_EQ(hash(run(model(), {"--ids", "3,20,9", "--image", raw})), masked);
}

TEST_F(ImageCommand, PlanInspectAndVerifyShowTheEncoder) {
  const std::string vision = model();
  const ProgramRun plan = llmc({"plan", vision, "--target", "generic", "--dim", "batch_size=1..2"});
  ASSERT_EQ(plan.code, 0) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr("image encoder: up to 8 rows\n"));
  EXPECT_THAT(plan.out, HasSubstr("pixel_values"));
  EXPECT_THAT(plan.out, HasSubstr("1..2  batch_size"));
  const ProgramRun inspect = llmc({"inspect", vision});
  ASSERT_EQ(inspect.code, 0) << inspect.err;
  EXPECT_THAT(inspect.out, HasSubstr("image encoder"));
  EXPECT_THAT(inspect.out, HasSubstr("[batch_size, 3, 8, 8]"));
  const ProgramRun verify = llmc(
      {"verify", vision, "--target", "generic", "--cflag=-O0", "--short", "--no-require-golden"});
  EXPECT_EQ(verify.code, 0) << verify.err;
  EXPECT_THAT(verify.err + verify.out, HasSubstr("image encoder: ok: relative error "));
  const ProgramRun bench = llmc({"bench", vision, "--target", "generic", "--cflag=-O0", "-p", "4",
                                 "-n", "0", "-r", "1", "-t", "1", "-o", "csv"});
  EXPECT_EQ(bench.code, 0) << bench.err;
  EXPECT_THAT(bench.out, HasSubstr("img4"));
}

TEST_F(ImageCommand, RefusesImagesThatDoNotFit) {
  const std::string vision = model();
  const std::string elements = floats(std::vector<float>(kPixels, 0.5f));
  const std::string raw = file("a.f32", elements);
  const auto refused = [&](const Arguments& more, int code, const std::string& message) {
    const ProgramRun ran = run(vision, more);
    EXPECT_EQ(ran.code, code) << ran.err;
    EXPECT_THAT(ran.err, HasSubstr(message));
  };
  const auto bad_file = [&](const std::string& path, const std::string& message) {
    refused({"--ids", "3,20", "--image", path}, 3, message);
  };
  bad_file((folder_.path() / "none.npy").string(), "none.npy");
  bad_file(file("b.f32", "abc"), "has 3 bytes, but the image encoder reads 768: f32[1, 3, 8, 8]");
  bad_file(file("a.npy", npy("(3, 4, 16)", elements)), "has the shape [3, 4, 16]");
  bad_file(file("b.npy", npy("(3, 8, 8)", elements.substr(4))), "is damaged");
  bad_file(file("c.npy", npy("(3, 8, 8)", elements, "<f8")), "not 32-bit floats in C order");
  bad_file(file("d.npy", "\x93NUMPY\x01"), "is damaged");
  bad_file(file("a.ppm", "P6 4 8 255\n" + std::string(96, 'x')), "has 4 x 8 pixels");
  bad_file(file("d.ppm", "P6 99999 1 255\nx"), "has 99999 x 1 pixels; 1 to 32768");
  bad_file(file("e.ppm", "P6 0 1 255\n"), "has 0 x 1 pixels");
  bad_file(file("b.ppm", "P6 8 8 255\n" + std::string(191, 'x')), "is truncated");
  bad_file(file("c.ppm", "P6 8 8 65535\n" + std::string(192, 'x')), "not a binary PPM file");
  refused({"--ids", "3,9", "--image", raw}, 2, "the prompt has 0 places with the image token 20");
  refused({"--ids", "3,20", "--image", raw, "--image", raw}, 2, "2 images are given");
  refused({"--ids", "3,20", "--image", raw, "--cfg-scale", "2", "--cfg-negative-prompt", "a"}, 2,
          "--cfg-scale does not take images");
  refused({"--ids", "3,20", "--image", raw, "--ctx", "4"}, 3, "5 tokens does not fit the context");
  refused({"--ids", "3,20", "--image", raw, "--dim", "batch_size=1..2"}, 2, "of fixed sizes");
  EXPECT_TRUE(write_file(vision + "/preprocessor_config.json",
                         R"({"image_mean": [0, 0, 0], "image_std": [1, 0, 1]})")
                  .ok());
  bad_file(raw, "image_std is not three numbers other than 0");
  EXPECT_TRUE(write_file(vision + "/preprocessor_config.json", "{}").ok());
  EXPECT_TRUE(write_file(vision + "/config.json", "{}").ok());
  refused({"--ids", "3,20", "--image", raw}, 2, "no image_token_index");
  const ProgramRun text =
      run((folder_.path() / "model.onnx").string(), {"--ids", "3,20", "--image", raw});
  EXPECT_EQ(text.code, 2);
  EXPECT_THAT(text.err, HasSubstr("--image needs a model with an image encoder"));
}

}  // namespace
}  // namespace llmc::tests
#endif
