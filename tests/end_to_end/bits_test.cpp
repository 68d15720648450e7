// What a compiled model says: the right ids, and the same bits on every target, for every number of
// threads and every chunk size.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <ostream>

#include "tests/end_to_end/models.h"

namespace llmc::tests {
namespace {

struct BitsCase {
  const char* name;
  testing::TinyLlamaConfig model;
  ir::WeightFormat format;
  KvFormats kv = {};

  friend void PrintTo(const BitsCase& c, std::ostream* out) { *out << c.name; }
};

class SameBits : public ::testing::TestWithParam<BitsCase> {};

TEST_P(SameBits, OnEveryTargetForAllThreadsAndChunks) {
  const ModelFolder folder(GetParam().model);
  const auto prompt =
      made_up_prompt(39, static_cast<std::int32_t>(folder.model().config.vocabulary));
  auto generic_options = options_for(folder.path(), "generic", GetParam().format);
  generic_options.cflags.clear();
  generic_options.kv = GetParam().kv;
  const auto generic = load(generic_options);
  ASSERT_NE(generic, nullptr);
  const Generated expected = generate(*generic, prompt, 6);
  if (GetParam().format == ir::WeightFormat::kF32 && GetParam().kv == KvFormats{}) {
    const auto oracle = folder.model().greedy({prompt.begin(), prompt.end()}, 6);
    EXPECT_EQ(std::vector<std::int64_t>(expected.ids.begin(), expected.ids.end()), oracle);
  }
  const auto check = [&](const exec::NativeModel& model) {
    for (const std::uint32_t threads : {1u, 2u, 3u, 4u}) {
      for (const std::uint32_t chunk : {1u, 7u, 32u, 0u}) {
        for (const std::uint32_t cores : {LLMC_CORES_EVEN, LLMC_CORES_UNEVEN}) {
          // Where work differs: two threads share it, four do not divide it evenly.
          if (cores == LLMC_CORES_UNEVEN && threads % 2 != 0) continue;
          const Generated found =
              generate(model, prompt, 6, {.threads = threads, .chunk = chunk, .cores = cores});
          const std::string what = std::to_string(threads) + " threads, chunk " +
                                   std::to_string(chunk) + ", cores " + std::to_string(cores);
          EXPECT_EQ(found.ids, expected.ids) << what;
          EXPECT_EQ(found.logit_hash, expected.logit_hash) << what;
        }
      }
    }
  };
  check(*generic);
  for (const target::Target& target : target::all().subspan(1)) {
    if (!target::runs_here(target)) continue;
    SCOPED_TRACE(target.name);
    auto options = options_for(folder.path(), std::string(target.name), GetParam().format);
    options.cflags.clear();
    options.chunk = 64;  // the whole prompt at once
    options.kv = GetParam().kv;
    const auto model = load(options);
    ASSERT_NE(model, nullptr);
    check(*model);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, SameBits,
                         ::testing::Values(BitsCase{"f32", {}, ir::WeightFormat::kF32},
                                           BitsCase{"q4", {}, ir::WeightFormat::kQ4},
                                           BitsCase{"q8_odd_sizes_cache_int8_fp8",
                                                    {.layers = 1,
                                                     .heads = 3,
                                                     .kv_heads = 1,
                                                     .head_dim = 20,
                                                     .hidden = 44,
                                                     .intermediate = 51,
                                                     .vocabulary = 301,
                                                     .bias = true},
                                                    ir::WeightFormat::kQ8,
                                                    {KvFormat::kInt8, KvFormat::kFp8}},
                                           BitsCase{"f32_bias_heads_first",
                                                    {.layers = 3,
                                                     .layout = testing::TinyLayout::kHeadsFirst,
                                                     .bias = true,
                                                     .norm_in_head = true},
                                                    ir::WeightFormat::kF32},
                                           BitsCase{"f16_cache_f16",
                                                    {.weight_type = onnx::TensorProto::FLOAT16},
                                                    ir::WeightFormat::kF16,
                                                    {KvFormat::kF16, KvFormat::kF16}}),
                         [](const auto& info) { return info.param.name; });

/// Greedy ids of a float32 reference, all prompts of a golden.json.
void expect_golden_ids(const std::filesystem::path& model, std::size_t at_most) {
  std::ifstream file(model / "golden.json");
  const auto golden = nlohmann::json::parse(file);
  auto options = options_for(model, "avx2", ir::WeightFormat::kF32);
  options.cflags.clear();
  options.ctx = 512;
  const auto native = load(options);
  ASSERT_NE(native, nullptr);
  for (const auto& item : golden["cases"]) {
    const std::vector<std::int32_t> prompt = item["prompt_ids"];
    std::vector<std::int32_t> ids = item["greedy_ids"];
    if (ids.size() > at_most) ids.resize(at_most);
    EXPECT_EQ(generate(*native, prompt, ids.size()).ids, ids) << item["prompt"];
  }
}

TEST(GoldenIds, TheShippedModelSaysWhatTorchSaid) {
  if (!target::runs_here(**target::find("avx2"))) GTEST_SKIP() << "this machine has no AVX2";
  expect_golden_ids(tinyfable(), 100);
}

TEST(GoldenIds, Stories15M) {
  const auto model = shared_folder() / "models/stories15M-split";
  if (!std::filesystem::exists(model)) GTEST_SKIP() << model << " is not there";
  if (!target::runs_here(**target::find("avx2"))) GTEST_SKIP() << "this machine has no AVX2";
  expect_golden_ids(model, 200);
}

}  // namespace
}  // namespace llmc::tests
