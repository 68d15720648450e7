// Convolutions that are linear layers.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/driver/dims.h"
#include "compiler/exec/function_library.h"
#include "compiler/ir/text.h"
#include "compiler/reference/interpreter.h"
#include "tests/function/made_up.h"

namespace llmc::function_test {
namespace {

/// Two convolutions of a spectrogram with open sizes; two of an image, the second of which adds its
/// input; one of groups, and two of single elements.
constexpr std::string_view kConvolutions =
    R"(graph @g(%x: f32[b, 40, n], %i: f32[1, 5, 20, 21]) {
  %p = constant i64[6] {0, 0, 1, 0, 0, 1}
  %x1 = pad %x, %p
  %w1 = constant f32[24, 40, 3] random(1, 0.1)
  %b1 = constant f32[24, 1] random(2, 0.1)
  %c1 = conv %x1, %w1 {strides = [1], dilations = [1]}
  %a1 = add %c1, %b1
  %g1 = gelu %a1
  %x2 = pad %g1, %p
  %w2 = constant f32[19, 24, 3] random(3, 0.1)
  %c2 = conv %x2, %w2 {strides = [2], dilations = [1]}
  %y = transpose %c2 {perm = [0, 2, 1]}
  %w3 = constant f32[16, 5, 3, 3] random(4, 0.1)
  %c3 = conv %i, %w3 {strides = [2, 1], dilations = [1, 2]}
  %r3 = relu %c3
  %q = constant i64[8] {0, 0, 1, 1, 0, 0, 1, 1}
  %x4 = pad %r3, %q
  %w4 = constant f32[16, 16, 3, 3] random(5, 0.1)
  %c4 = conv %x4, %w4 {strides = [1, 1], dilations = [1, 1]}
  %z = add %c4, %r3
  %w5 = constant f32[16, 8, 5, 1] random(6, 0.1)
  %c5 = conv %z, %w5 {strides = [1, 1], dilations = [1, 1], groups = 2}
  %w6 = constant f32[16, 16, 1, 1] random(7, 0.1)
  %c6 = conv %c5, %w6 {strides = [1, 1], dilations = [1, 1]}
  %u = conv %c6, %w6 {strides = [1, 1], dilations = [1, 1]}
  return %y, %z, %u
})";

TEST(Convolutions, AreLinearLayersWithTheSameBitsEverywhere) {
  const auto open = ir::parse(kConvolutions);
  ASSERT_TRUE(open.ok()) << format(open.error().first());
  const auto fixed = driver::bind_dims(*open, {{"b", 2}, {"n", 151}});
  ASSERT_TRUE(fixed.ok()) << format(fixed.error().first());
  std::vector<ir::ConstantPtr> data;
  std::vector<reference::Tensor> tensors;
  std::uint64_t state = 1;
  for (const ir::ValueId input : fixed->inputs()) {
    data.push_back(made_up(fixed->value(input).type, false, state));
    tensors.push_back(reference::to_tensor(*data.back()));
  }
  const auto expected = reference::evaluate(*fixed, tensors);
  ASSERT_TRUE(expected.ok());
  struct Format {
    ir::WeightFormat format;
    double tolerance;
    int layers;  // convolutions that are linear layers
  };
  using enum ir::WeightFormat;
  constexpr Format kFormats[] = {
      {kF32, 2e-5, 4}, {kQ6, 0.1, 4}, {kQ4, 0.4, 4}, {kQ8, 5e-2, 4}, {kQ8, 5e-2, 4}};
  std::vector<exec::FunctionLibrary::Job> jobs;
  for (const Format& f : kFormats)
    jobs.push_back({&*fixed, "convolutions_" + std::to_string(jobs.size()), nullptr, f.format});
  // The last one has the bits of the one before it.
  jobs.back().graph = &*open;
  jobs.back().open_dims = {{"b", {1, 3}}, {"n", {1, 300}}};
  std::vector<std::vector<ir::ConstantPtr>> first(jobs.size() - 1);
  for (const target::Target& target : target::all()) {
    if (!target::runs_here(target)) continue;
    exec::FunctionLibrary::Outcome outcome;
    const auto library =
        exec::FunctionLibrary::compile(jobs, std::string(target.name), "-O1", outcome);
    ASSERT_TRUE(library.ok()) << format(library.error().first());
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      ASSERT_FALSE(outcome[i]) << format(outcome[i]->first());
      const Format& f = kFormats[i];
      const auto& forward = (*library)->plan(i).program.forward;
      const auto layers = std::ranges::count_if(forward, [](const plan::Stage& stage) {
        const auto* linear = std::get_if<plan::LinearStage>(&stage.op);
        return linear != nullptr && linear->windows;
      });
      EXPECT_EQ(layers, f.layers) << i;
      for (const std::uint32_t threads : {1u, 3u}) {
        const auto outputs = (*library)->run(i, data, threads);
        ASSERT_TRUE(outputs.ok()) << format(outputs.error().first());
        std::vector<ir::ConstantPtr>& known = first[std::min(i, first.size() - 1)];
        const std::string what =
            fmt::format("{} for {} on {} threads", jobs[i].name, target.name, threads);
        for (std::size_t o = 0; o < outputs->size(); ++o) {
          if (known.empty()) {
            expect_close((*expected)[o], *(*outputs)[o], f.tolerance, what);
          } else {
            EXPECT_EQ((*outputs)[o]->bytes(), known[o]->bytes()) << what;
          }
        }
        if (known.empty()) known = *outputs;
      }
    }
  }
}

}  // namespace
}  // namespace llmc::function_test
