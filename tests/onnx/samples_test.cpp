// Graphs from real exporters with their inputs, outputs and greedy ids, where they are at hand:
// LLMC_SHARED_DIR, or the folder "shared" in the repository's parent.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <ostream>

#include "compiler/onnx/model.h"
#include "compiler/onnx/onnx_file.h"
#include "compiler/onnx/tensor.h"
#include "tests/onnx/imported.h"
#include "tests/support_onnx/decoder_runner.h"
#include "tests/support_onnx/onnx_builder.h"

namespace llmc {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using reference::Tensor;
using Floats = std::vector<float>;

fs::path shared() {
  const char* folder = std::getenv("LLMC_SHARED_DIR");
  return folder ? fs::path(folder) : fs::path(LLMC_SOURCE_DIR) / ".." / "shared";
}

/// A TensorProto file of the test data (typed or raw data), by its name.
std::pair<std::string, Tensor> read_tensor_file(const fs::path& path) {
  onnx::TensorProto proto;
  EXPECT_TRUE(proto.ParseFromString(testing::read_bytes(path))) << path;
  // The importer's own reader wants a model file: put the tensor into one.
  testing::OnnxBuilder builder(15);
  *builder.graph().add_initializer() = proto;
  const testing::TemporaryFolder folder;
  builder.save(folder.path() / "t.onnx");
  auto files = importer::FileSet::open(folder.path());
  auto file = files->parse("t.onnx", importer::FileRole::kModel);
  EXPECT_TRUE(file.ok());
  auto constant =
      importer::read_tensor(*files, **file, (*file)->model.graph().initializer(0), "test data");
  EXPECT_TRUE(constant.ok()) << path << errors(constant.error());
  return {proto.name(), reference::to_tensor(**constant)};
}

struct Sample {
  const char* folder;
  bool generates = true;

  friend void PrintTo(const Sample& c, std::ostream* out) { *out << c.folder; }
};

class Samples : public ::testing::TestWithParam<Sample> {
 protected:
  void SetUp() override {
    folder_ = shared() / "onnx-samples" / GetParam().folder;
    if (!fs::exists(folder_)) GTEST_SKIP() << folder_ << " is not there";
  }
  fs::path folder_;
};

/// Compares one exported graph with the outputs that came with it.
void check_data_sets(const fs::path& folder, const std::string& stem, int limit, float tolerance) {
  importer::PlainInputs known;
  // What these two declare is wrong; the graphs inside are right for these.
  using ir::Dim;
  const Dim seq = Dim::symbol("seq"), past = Dim::symbol("past");
  if (folder.string().find("quirk") != std::string::npos) {
    known.types["position_ids"] = {ir::ElementType::kI64, {1, seq}};
    known.types["attention_mask"] = {ir::ElementType::kF32, {1, 1, seq, *add(past, seq)}};
    known.types["past_key_values"] = {ir::ElementType::kF32, {2, 1, past, 4, 16}};
  }
  const auto model = importer::ModelReader().bind_plain(folder / (stem + ".onnx"), known);
  ASSERT_TRUE(model.ok()) << errors(model.error());
  int sets = 0;
  for (; sets < limit && fs::exists(folder / stem / ("test_data_set_" + std::to_string(sets)));
       ++sets) {
    const auto data = folder / stem / ("test_data_set_" + std::to_string(sets));
    std::map<std::string, Tensor> given;
    for (int i = 0; fs::exists(data / ("input_" + std::to_string(i) + ".pb")); ++i)
      given.insert(read_tensor_file(data / ("input_" + std::to_string(i) + ".pb")));
    std::vector<Tensor> inputs;
    for (const auto id : model->graph().inputs()) {
      const auto& name = model->graph().value(id).name;
      ASSERT_TRUE(given.contains(name)) << stem << " has no data for " << name;
      inputs.push_back(given[name]);
    }
    const auto outputs = reference::evaluate(model->graph(), inputs);
    ASSERT_TRUE(outputs.ok()) << data << errors(outputs.error());
    for (std::size_t i = 0; i < outputs->size(); ++i) {
      const auto [name, expected] =
          read_tensor_file(data / ("output_" + std::to_string(i) + ".pb"));
      EXPECT_EQ((*outputs)[i].dims, expected.dims) << data << " " << name;
      EXPECT_LE(testing::largest_difference((*outputs)[i].floats, expected.floats), tolerance)
          << data << " " << name;
      EXPECT_EQ((*outputs)[i].integers, expected.integers) << data << " " << name;
    }
  }
  EXPECT_GT(sets, 0) << folder << " " << stem;
}

TEST_P(Samples, BlocksGiveTheExportersOutputs) {
  for (const char* stem : {"block_0", "block_1", "embedding", "lm", "lm_token"})
    if (fs::exists(folder_ / (std::string(stem) + ".onnx"))) {
      SCOPED_TRACE(stem);
      // Where the cache was folded away only the first set, whose cache is empty, fits the graph.
      const bool block = std::string(stem).starts_with("block");
      check_data_sets(folder_, stem, block && !GetParam().generates ? 1 : 100, 1e-4f);
    }
}

void check_greedy(const fs::path& path, const json& prompt, const json& expected) {
  const auto model = importer::import_model(path);
  ASSERT_TRUE(model.ok()) << errors(model.error());
  ASSERT_TRUE(model->is_decoder());
  testing::DecoderRunner runner(*model);
  const auto ids = runner.greedy(prompt.get<std::vector<std::int64_t>>(),
                                 static_cast<std::int64_t>(expected.size()));
  ASSERT_TRUE(ids.ok()) << errors(ids.error());
  EXPECT_EQ(*ids, expected.get<std::vector<std::int64_t>>()) << path;
}

TEST_P(Samples, GeneratesTheExportersIds) {
  if (!GetParam().generates) {
    const auto model = importer::import_model(folder_);
    ASSERT_FALSE(model.ok());
    EXPECT_EQ(model.error().first().file, folder_ / "block_0.onnx");
    EXPECT_NE(model.error().first().message.find("cannot generate"), std::string::npos);
    EXPECT_FALSE(model.error().first().hint.empty());
    return;
  }
  const json e2e = json::parse(testing::read_bytes(folder_ / "e2e.json"));
  check_greedy(folder_, e2e["prompt_ids"], e2e["greedy"]);
  check_greedy(folder_ / "llm.onnx", e2e["prompt_ids"], e2e["greedy"]);
}

INSTANTIATE_TEST_SUITE_P(
    Split, Samples,
    ::testing::Values(Sample{"split-llama-ts17-bhsd"}, Sample{"split-qwen15-ts15-bhsd"},
                      Sample{"split-qwen15-ts15-bshd-quirk-slim24"},
                      Sample{"split-qwen15-ts15-bshd-quirk-slimhead-nopast", false},
                      Sample{"split-qwen2gqa-dyn18-bshd"}, Sample{"split-qwen2gqa-ts15-bshd"}),
    [](const auto& info) {
      std::string name = info.param.folder;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

class HuggingFaceSamples : public ::testing::TestWithParam<const char*> {};

// One sequence without padding: past.N holds key and value one behind the other, and so does
// present.N.
TEST_P(HuggingFaceSamples, GiveTheExportersOutputs) {
  const fs::path folder = shared() / "onnx-samples" / GetParam();
  if (!fs::exists(folder)) GTEST_SKIP() << folder << " is not there";
  // Half precision: the sample's numbers were computed in f16, ours in f32.
  const float tolerance = std::string(GetParam()).ends_with("fp16") ? 2e-2f : 1e-4f;
  const auto model = importer::import_model(folder);
  ASSERT_TRUE(model.ok()) << errors(model.error());
  ASSERT_TRUE(model->is_decoder());
  int compared = 0;
  for (int set = 0; fs::exists(folder / "model" / ("test_data_set_" + std::to_string(set)));
       ++set) {
    const auto data = folder / "model" / ("test_data_set_" + std::to_string(set));
    std::map<std::string, Tensor> tensors;
    for (const auto& entry : fs::directory_iterator(data))
      tensors.insert(read_tensor_file(entry.path()));
    const auto& mask = tensors["attention_mask"];
    if (mask.dims[0] != 1 || std::count(mask.integers.begin(), mask.integers.end(), 0) > 0)
      continue;
    ++compared;
    const auto join = [&](const std::string& stem) {
      Floats both = tensors[stem + ".key"].floats;
      const Floats& values = tensors[stem + ".value"].floats;
      both.insert(both.end(), values.begin(), values.end());
      return both;
    };
    const std::int64_t past = tensors["past_key_values.0.key"].dims[2];
    std::vector<Tensor> inputs;
    for (const auto id : model->graph().inputs()) {
      const std::string& name = model->graph().value(id).name;
      if (name.starts_with("past."))
        inputs.push_back(reference::f32_tensor(
            {2, 1, model->module.states[0].kv_heads, past, model->module.states[0].head_dim},
            join("past_key_values." + name.substr(5))));
      else
        inputs.push_back(tensors[name]);
      if (name == "input_ids") inputs.back().dims.erase(inputs.back().dims.begin());
    }
    const auto outputs = reference::evaluate(model->graph(), inputs);
    ASSERT_TRUE(outputs.ok()) << data << errors(outputs.error());
    EXPECT_LE(testing::largest_difference(outputs->at(0).floats, tensors["logits"].floats),
              tolerance)
        << data;
    for (std::size_t i = 1; i < outputs->size(); ++i)
      EXPECT_LE(testing::largest_difference((*outputs)[i].floats,
                                            join("present." + std::to_string(i - 1))),
                tolerance)
          << data << " layer " << i - 1;
  }
  EXPECT_GT(compared, 0);
}

INSTANTIATE_TEST_SUITE_P(Architectures, HuggingFaceSamples,
                         ::testing::Values("arch-gptj-dyn18-eager", "arch-helium-dyn18-sdpa"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

INSTANTIATE_TEST_SUITE_P(TorchScript, HuggingFaceSamples,
                         ::testing::Values("hf-llama-ts14-eager", "hf-llama-ts18-eager-fp16",
                                           "hf-llama-ts18-sdpa", "hf-phi-ts18-eager",
                                           "hf-qwen2-ts18-sdpa"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// The model of this repository: prompts, ids and logits as torch gave them.
TEST(ShippedModel, GeneratesTheGoldenIds) {
  const auto folder = fs::path(LLMC_SOURCE_DIR) / "models" / "tinyfable";
  const json golden = json::parse(testing::read_bytes(folder / "golden.json"));
  ASSERT_FALSE(golden["cases"].empty());
  for (const auto& one : golden["cases"]) {
    auto ids = one["greedy_ids"];
    while (ids.size() > 5) ids.erase(ids.size() - 1);
    check_greedy(folder, one["prompt_ids"], ids);
  }
}

TEST(Stories15M, GeneratesTheGoldenIds) {
  const auto folder = shared() / "models" / "stories15M-split";
  if (!fs::exists(folder)) GTEST_SKIP() << folder << " is not there";
  const json golden = json::parse(testing::read_bytes(folder / "golden.json"));
  const auto& first = golden["cases"][0];
  auto ids = first["greedy_ids"];
  while (ids.size() > 20) ids.erase(ids.size() - 1);
  check_greedy(folder, first["prompt_ids"], ids);
}

}  // namespace
}  // namespace llmc
