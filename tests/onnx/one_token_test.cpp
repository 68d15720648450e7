// Decoders of one token per call, imported for any number of tokens: against their own graph, which
// is evaluated token by token.
#include <gtest/gtest.h>

#include <map>

#include "compiler/onnx/model.h"
#include "compiler/reference/interpreter.h"
#include "tests/onnx/imported.h"
#include "tests/support_onnx/decoder_runner.h"
#include "tests/support_onnx/tiny_recurrent.h"

namespace llmc {
namespace {

using Mask = testing::RecurrentForm::Mask;
using reference::Tensor;
using Ids = std::vector<std::int64_t>;

/// Returns the logits after each token; the presents of a call are the pasts of the next one.
Result<std::vector<std::vector<float>>> token_by_token(const std::filesystem::path& file,
                                                       const Ids& ids) {
  LLMC_TRY(auto model, importer::ModelReader().bind_plain(file));
  reference::Interpreter interpreter(std::move(model.module.graph()));
  const ir::Graph& graph = interpreter.graph();
  std::map<std::string, Tensor> values;
  for (const ir::ValueId input : graph.inputs()) {
    std::vector<std::int64_t> dims;
    for (const ir::Dim& dim : graph.value(input).type.dims)
      dims.push_back(dim.constant().value_or(dims.empty() ? 1 : 0));
    values[graph.value(input).name] = reference::zeros(ir::ElementType::kF32, dims);
  }
  std::vector<std::vector<float>> logits;
  for (const std::int64_t id : ids) {
    values["input_ids"] = reference::i64_tensor({1, 1}, {id});
    std::vector<Tensor> inputs;
    for (const ir::ValueId input : graph.inputs())
      inputs.push_back(values.at(graph.value(input).name));
    LLMC_TRY(const auto outputs, interpreter.evaluate(inputs));
    logits.push_back(outputs[0].floats);
    for (std::size_t i = 1; i < outputs.size(); ++i) {
      std::string name = graph.value(graph.outputs()[i]).name;
      name.replace(0, std::string("present").size(), "past_key_values");
      values.at(name) = outputs[i];
    }
  }
  return logits;
}

TEST(OneToken, RowsAreTheTokensOfAText) {
  const testing::TemporaryFolder folder;
  const auto path = folder.path() / "model.onnx";
  const Ids ids{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8};
  std::map<Mask, std::vector<float>> last;
  for (const Mask mask : {Mask::kNone, Mask::kOpen, Mask::kWindow}) {
    testing::tiny_recurrent(
        {.convolution = false, .ssm = false, .attention = true, .shifts_keys = false, .mask = mask})
        .save(path);
    const auto expected = token_by_token(path, ids);
    ASSERT_TRUE(expected.ok()) << errors(expected.error());
    const auto model = importer::import_model(path);
    ASSERT_TRUE(model.ok()) << errors(model.error());
    ASSERT_TRUE(model->is_decoder());
    for (const std::size_t chunk : {std::size_t{1}, std::size_t{5}, ids.size()}) {
      testing::DecoderRunner runner(*model);
      for (std::size_t i = 0; i < ids.size(); i += chunk) {
        const std::size_t end = std::min(i + chunk, ids.size());
        const auto logits = runner.feed({ids.begin() + static_cast<std::ptrdiff_t>(i),
                                         ids.begin() + static_cast<std::ptrdiff_t>(end)});
        ASSERT_TRUE(logits.ok()) << errors(logits.error());
        EXPECT_LT(testing::largest_difference(*logits, (*expected)[end - 1]), 1e-5)
            << static_cast<int>(mask) << ", chunks of " << chunk << ", token " << end;
      }
    }
    last[mask] = expected->back();
  }
  EXPECT_EQ(last[Mask::kNone], last[Mask::kOpen]);
  EXPECT_NE(last[Mask::kNone], last[Mask::kWindow]);
}

TEST(OneToken, TermsOfTheScoresDependOnTheDistance) {
  const testing::TemporaryFolder folder;
  const auto path = folder.path() / "model.onnx";
  for (const bool convolution : {false, true})
    for (const Mask mask : {Mask::kNone, Mask::kOpen, Mask::kWindow, Mask::kBias}) {
      testing::tiny_recurrent({.convolution = convolution,
                               .ssm = false,
                               .attention = true,
                               .shifts_keys = convolution,
                               .mask = mask})
          .save(path);
      const auto model = importer::import_model(path);
      ASSERT_EQ(model.ok(), mask != Mask::kBias)
          << static_cast<int>(mask) << (model.ok() ? "" : format(model.error().first()));
      if (model.ok()) continue;
      EXPECT_EQ(model.error().first().kind, ErrorKind::kUnsupported);
      EXPECT_NE(model.error().first().message.find("no function of the distance"),
                std::string::npos);
    }
}

}  // namespace
}  // namespace llmc
