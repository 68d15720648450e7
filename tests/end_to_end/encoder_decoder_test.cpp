// Encoder-decoders: native code with its caches against the interpreter, which evaluates encoder
// and decoder again for every token, without a cache.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include "compiler/evaluate/identity.h"
#include "compiler/evaluate/verify.h"
#include "compiler/onnx/model.h"
#include "compiler/reference/interpreter.h"
#include "compiler/target/target.h"
#include "tests/end_to_end/cross.h"
#include "tests/end_to_end/models.h"
#include "tests/support_onnx/tiny_encoder_decoder.h"

namespace llmc::tests {
namespace {

namespace fs = std::filesystem;
using reference::Tensor;
using Ids = std::vector<std::int32_t>;

Tensor integers(std::vector<std::int64_t> values) {
  Tensor tensor;
  tensor.element = ir::ElementType::kI64;
  tensor.dims = {1, static_cast<std::int64_t>(values.size())};
  tensor.integers = std::move(values);
  return tensor;
}

/// Evaluates the files of an export without its caches.
class Uncached {
 public:
  explicit Uncached(const fs::path& folder)
      : encoder_(interpreter(folder / "encoder_model.onnx")),
        decoder_(interpreter(folder / "decoder_model.onnx")) {}

  void encode(const exec::EncoderInput& source) {
    const std::vector<std::int64_t> ids(source.ids.begin(), source.ids.end());
    values_["input_ids"] = integers(ids);
    values_["attention_mask"] = integers(std::vector<std::int64_t>(ids.size(), 1));
    values_["encoder_attention_mask"] = values_["attention_mask"];
    const auto size = static_cast<std::int64_t>(source.features.size());
    values_["input_values"] = reference::f32_tensor({1, size}, source.features);
    if (const auto bands = bands_of_spectrogram())
      values_["input_features"] =
          reference::f32_tensor({1, *bands, size / *bands}, source.features);
    values_["encoder_hidden_states"] = evaluate(encoder_).front();
  }
  /// Returns the logits after the last token.
  std::vector<float> logits(const Ids& tokens) {
    values_["input_ids"] = integers({tokens.begin(), tokens.end()});
    const auto outputs = evaluate(decoder_);
    const Tensor& all = outputs.front();
    return {all.floats.end() - all.dims.back(), all.floats.end()};
  }

 private:
  std::optional<std::int64_t> bands_of_spectrogram() const {
    const ir::Value& input = encoder_.graph().value(encoder_.graph().inputs().front());
    return input.name == "input_features" ? input.type.dims[1].constant() : std::nullopt;
  }
  static reference::Interpreter interpreter(const fs::path& file) {
    auto model = importer::ModelReader().bind_plain(file);
    if (!model.ok()) expect_ok(model.error());
    return reference::Interpreter(std::move(model->module.graph()));
  }
  std::vector<Tensor> evaluate(reference::Interpreter& interpreter) {
    std::vector<Tensor> inputs;
    for (const ir::ValueId input : interpreter.graph().inputs())
      inputs.push_back(values_.at(interpreter.graph().value(input).name));
    auto outputs = interpreter.evaluate(inputs);
    if (!outputs.ok()) expect_ok(outputs.error());
    return *std::move(outputs);
  }

  reference::Interpreter encoder_, decoder_;
  std::map<std::string, Tensor> values_;
};

std::int32_t largest(std::span<const float> logits) {
  return static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
}

/// Models in the table below are written by the tests, all others are samples.
class EncoderDecoders : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string name = GetParam();
    using testing::EncoderSource;
    const std::map<std::string, testing::EncoderDecoderForm> forms{
        {"tiny", {}},
        {"relative", {.relative_bias = true}},
        {"one_cache", {.one_cache = true}},
        {"reversed", {.reversed = true}},
        {"one_token", {.one_token = true}},
        {"relative_one_token", {.relative_bias = true, .one_token = true}},
        {"samples", {.source = EncoderSource::kSamples, .capped = true}},
        {"spectrogram", {.source = EncoderSource::kSpectrogram}}};
    if (const auto form = forms.find(name); form != forms.end()) {
      folder_ = temporary_.path() / name;
      fs::create_directories(folder_);
      testing::write_tiny_encoder_decoder(folder_, form->second);
      return;
    }
    folder_ = shared_folder() / "onnx-samples" / name;
    if (!fs::exists(folder_)) GTEST_SKIP() << folder_ << " is not there";
  }
  testing::TemporaryFolder temporary_;
  fs::path folder_;
};

/// Returns two sources. The second one is shorter, where the model allows it, so that keys of the
/// first one would be noticed.
std::vector<exec::EncoderInput> sources(const exec::ModelFacts& model) {
  if (model.source_width == 0)
    return {{.ids = {5, 17, 20, 2, 9, 7, 16}, .features = {}},
            {.ids = {11, 3, 15}, .features = {}}};
  std::vector<exec::EncoderInput> result;
  for (const std::uint32_t times : {5, 2}) {
    const std::uint32_t frames = std::min(model.source_max, times * model.source_min + 7);
    result.push_back(
        {.ids = {}, .features = exec::random_features(std::size_t{frames} * model.source_width)});
    if (model.source_max == model.source_min)
      for (float& feature : result.back().features) feature *= static_cast<float>(times);
  }
  return result;
}

TEST_P(EncoderDecoders, GenerateAsWithoutACache) {
  Uncached uncached(folder_);
  const auto model = load(options_for(folder_, "avx2", ir::WeightFormat::kF32));
  ASSERT_NE(model, nullptr);
  auto session = model->start(2);
  ASSERT_TRUE(session.ok());
  for (const exec::EncoderInput& source : sources(model->model())) {
    uncached.encode(source);
    const Status encoded = (*session)->encode(source);
    if (!encoded.ok()) return expect_ok(encoded.error());
    EXPECT_EQ((*session)->position(), 0u);
    Ids tokens{2, 9, 21};
    auto status = (*session)->prefill(tokens);
    if (!status.ok()) return expect_ok(status.error());
    for (int step = 0; step < 24; ++step) {
      const std::vector<float> expected = uncached.logits(tokens);
      const auto logits = (*session)->logits();
      ASSERT_TRUE(logits.ok());
      ASSERT_EQ(logits->size(), expected.size());
      for (std::size_t i = 0; i < expected.size(); ++i)
        ASSERT_NEAR((*logits)[i], expected[i], 1e-4) << "step " << step << ", logit " << i;
      tokens.push_back(largest(expected));
      const auto next = (*session)->step();
      ASSERT_TRUE(next.ok());
      ASSERT_EQ(*next, tokens.back()) << "step " << step;
    }
  }
}

TEST_P(EncoderDecoders, NeedASource) {
  const auto model = load(options_for(folder_, "avx2", ir::WeightFormat::kF32));
  ASSERT_NE(model, nullptr);
  auto session = model->start(2);
  ASSERT_TRUE(session.ok());
  const auto status = (*session)->prefill(Ids{2});
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().first().message.find("no source is encoded"), std::string::npos);
  EXPECT_FALSE((*session)->encode({}).ok());
  if (const std::uint32_t width = model->model().source_width; width != 0) {
    EXPECT_FALSE((*session)->encode({Ids{1, 2}, {}}).ok());
    const std::uint32_t least = model->model().source_min;
    const auto features = [&](std::size_t count) {
      return (*session)->encode({{}, std::vector<float>(count)}).ok();
    };
    EXPECT_FALSE(features(std::size_t{least - 1} * width));
    EXPECT_FALSE(width > 1 && features(std::size_t{least} * width + 1));
    EXPECT_FALSE(features((std::size_t{model->model().source_max} + 1) * width));
    EXPECT_TRUE(features(std::size_t{least} * width));
    EXPECT_TRUE((*session)->prefill(Ids{2}).ok());
    return;
  }
  EXPECT_FALSE((*session)->encode({Ids(513, 1), {}}).ok());
  EXPECT_FALSE((*session)->encode({Ids{1, 100000}, {}}).ok());
  EXPECT_FALSE((*session)->encode({Ids{-1}, {}}).ok());
  EXPECT_TRUE((*session)->encode({Ids{1, 2}, {}}).ok());
  EXPECT_TRUE((*session)->prefill(Ids{2}).ok());
}

std::vector<std::uint32_t> bits(exec::Session& session) {
  const auto logits = session.logits();
  if (!logits.ok()) return {};
  std::vector<std::uint32_t> result;
  for (const float x : *logits) result.push_back(std::bit_cast<std::uint32_t>(x));
  return result;
}

/// Returns the bits of the logits after a prompt and each of `steps` tokens, for each source:
/// decoded together, or each in a session of its own.
Result<std::vector<std::vector<std::uint32_t>>> logits_of_sources(const exec::NativeModel& model,
                                                                  bool together, int steps) {
  const Ids prompt{2, 9, 21};
  const auto all = sources(model.model());
  std::vector<std::vector<std::uint32_t>> found(all.size());
  std::unique_ptr<exec::Session> session;
  std::vector<std::uint32_t> sequences;
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::uint32_t sequence = 0;
    if (!together || i == 0) {
      LLMC_TRY(session, model.start(2));
    } else {
      LLMC_TRY(sequence, session->get<std::uint32_t>(&exec::Api::fork, 0));
    }
    sequences.push_back(sequence);
    LLMC_RETURN_IF_ERROR(session->call(&exec::Api::select, sequence));
    LLMC_RETURN_IF_ERROR(session->encode(all[i]));
    LLMC_RETURN_IF_ERROR(session->prefill(prompt));
    for (int step = 0; !together && step < steps; ++step) {
      const std::int32_t token = step % 7;
      LLMC_RETURN_IF_ERROR(session->prefill(std::span(&token, 1)));
      const auto row = bits(*session);
      found[i].insert(found[i].end(), row.begin(), row.end());
    }
  }
  for (int step = 0; together && step < steps; ++step) {
    const Ids tokens(all.size(), step % 7);
    LLMC_RETURN_IF_ERROR(
        session->call(&exec::Api::append_batch, sequences.data(), sequences.size(), tokens.data()));
    for (std::size_t i = 0; i < all.size(); ++i) {
      LLMC_RETURN_IF_ERROR(session->call(&exec::Api::select, sequences[i]));
      const auto row = bits(*session);
      found[i].insert(found[i].end(), row.begin(), row.end());
    }
  }
  return found;
}

driver::CompileOptions options_for_sources(const fs::path& folder, std::string target) {
  driver::CompileOptions options = options_for(folder, std::move(target), passes::kQ4Mixed);
  options.sources = options.sequences = options.batch = 2;
  return options;
}

class EncoderDecoderBatches : public EncoderDecoders {};

TEST_P(EncoderDecoderBatches, RowsAttendToTheirOwnSources) {
  const auto model = load(options_for_sources(folder_, "avx2"));
  ASSERT_NE(model, nullptr);
  const auto together = logits_of_sources(*model, true, 6);
  if (!together.ok()) return expect_ok(together.error());
  const auto alone = logits_of_sources(*model, false, 6);
  if (!alone.ok()) return expect_ok(alone.error());
  EXPECT_EQ((*together)[0].size(), 6u * model->model().vocab);
  EXPECT_TRUE(*together == *alone);
  EXPECT_FALSE((*together)[0] == (*together)[1]);
}

TEST(EncoderDecoder, BatchesOfSourcesHaveTheSameBitsOnEveryTarget) {
  const testing::TemporaryFolder folder;
  testing::write_tiny_encoder_decoder(folder.path(), {.relative_bias = true});
  setenv("LLMC_CROSS_DIR", cross_folder().c_str(), 1);
  std::vector<std::vector<std::uint32_t>> expected;
  for (const target::Target& target : target::all()) {
    if (!executable(target)) continue;
    driver::CompileOptions options = options_for_sources(folder.path(), std::string(target.name));
    options.kv = {KvFormat::kInt8, KvFormat::kFp8};  // of sources, too
    const auto model = load(options);
    ASSERT_NE(model, nullptr) << target.name;
    const auto found = logits_of_sources(*model, true, 4);
    if (!found.ok()) return expect_ok(found.error());
    if (expected.empty()) expected = *found;
    EXPECT_TRUE(*found == expected) << target.name;
  }
  EXPECT_FALSE(expected.empty());
}

TEST(EncoderDecoder, BothDecodersInOneFileAreTheSameModel) {
  for (const bool relative : {false, true}) {
    std::set<std::string> hashes;
    for (const bool merged : {false, true}) {
      const testing::TemporaryFolder folder;
      testing::write_tiny_encoder_decoder(folder.path(),
                                          {.relative_bias = relative, .merged = merged});
      evaluate::VerifyOptions options;
      options.native.compile = options_for(folder.path(), "generic", ir::WeightFormat::kF32);
      const auto report = evaluate::verify_model(options);
      if (!report.ok()) return expect_ok(report.error());
      EXPECT_TRUE(report->reference_ok);
      hashes.insert(report->runs[0].hash);
    }
    EXPECT_EQ(hashes.size(), 1u);
  }
}

TEST(EncoderDecoder, HasTheSameBitsOnEveryTarget) {
  const testing::TemporaryFolder folder;
  evaluate::IdentityOptions options;
  for (const testing::EncoderDecoderForm& form :
       {testing::EncoderDecoderForm{.relative_bias = true},
        testing::EncoderDecoderForm{.source = testing::EncoderSource::kSamples, .capped = true}}) {
    options.models.push_back(folder.path() / std::to_string(options.models.size()));
    fs::create_directories(options.models.back());
    testing::write_tiny_encoder_decoder(options.models.back(), form);
  }
  options.threads = {1, 3};
  options.chunks = {1, 5};
  options.tokens = 12;
  options.steps = 4;
  options.native.compile.cflags = {"-O0"};
  setenv("LLMC_CROSS_DIR", cross_folder().c_str(), 1);
  for (const target::Target& target : target::all())
    if (executable(target)) options.targets.emplace_back(target.name);
  const auto report = evaluate::measure_identity(options);
  if (!report.ok()) return expect_ok(report.error());
  ASSERT_EQ(report->rows.size(), 2u);
  for (const evaluate::IdentityRow& row : report->rows)
    EXPECT_EQ(row.cells.size(), 2 * options.targets.size());
  EXPECT_EQ(report->differences(), 0u);
}

TEST_P(EncoderDecoders, AgreeWithTheReferenceInEachFormat) {
  for (const auto format : {ir::WeightFormat::kF32, ir::WeightFormat::kQ4}) {
    evaluate::VerifyOptions options;
    options.native.compile = options_for(folder_, "generic", format);
    const auto report = evaluate::verify_model(options);
    if (!report.ok()) return expect_ok(report.error());
    EXPECT_TRUE(report->reference_ok) << static_cast<int>(format);
  }
}

INSTANTIATE_TEST_SUITE_P(Each, EncoderDecoders,
                         ::testing::Values("tiny", "relative", "one_cache", "reversed", "one_token",
                                           "relative_one_token", "samples", "spectrogram",
                                           "s2s-bart-ts18", "t5-ts18", "s2s-whisper-ts18",
                                           "s2s-moonshine-ts18", "t5gated-dyn23"),
                         [](const auto& info) { return test_name(info.param); });

INSTANTIATE_TEST_SUITE_P(Each, EncoderDecoderBatches,
                         ::testing::Values("relative", "samples", "t5-ts18", "s2s-whisper-ts18"),
                         [](const auto& info) { return test_name(info.param); });

}  // namespace
}  // namespace llmc::tests
