// `llmc test-onnx`: data sets that do not fit, and quantized code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compiler/support/file.h"
#include "tests/end_to_end/mistakes.h"
#include "tests/end_to_end/open_function.h"
#include "tests/end_to_end/program.h"
#include "tests/support_onnx/onnx_builder.h"

#ifdef LLMC_PROGRAM
namespace llmc::tests {
namespace {

using ::testing::HasSubstr;

TEST(TestOnnxCommand, NamesTheFileThatIsNoTensor) {
  const testing::TemporaryFolder folder;
  const std::string model = write_open_function(folder.path()).string();
  for (const char* const file : {"input_0.pb", "output_0.pb"})
    ASSERT_TRUE(write_file(folder.path() / file, std::string_view("x\n")).ok());
  const ProgramRun ran = llmc({"test-onnx", model, folder.path().string()});
  EXPECT_EQ(ran.code, 3) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("error: " + (folder.path() / "input_0.pb").string() +
                                 ": is not an ONNX tensor\n"));
}

/// Weights of which 4 bits lose those that count, beside larger ones that are multiplied by 0.
TEST(TestOnnxCommand, JudgesRoundedWeightsByTheRelativeError) {
  const testing::TemporaryFolder folder;
  constexpr int kRows = 96, kColumns = 8;
  std::vector<float> weights, x, y(kColumns);
  for (int k = 0; k < kRows; ++k) {
    x.push_back(k % 3 == 1 ? 0.0F : static_cast<float>(k % 5 + 1));
    for (int n = 0; n < kColumns; ++n) {
      weights.push_back(k % 3 == 1 ? 1000.0F : 0.01F * static_cast<float>((k + n) % 7));
      y[static_cast<std::size_t>(n)] += x.back() * weights.back();
    }
  }
  testing::OnnxBuilder builder(17);
  builder.float_input("x", {std::int64_t{1}, std::int64_t{kRows}});
  builder.node("MatMul", {"x", builder.floats("w", {kRows, kColumns}, weights)}, {}, "y");
  builder.float_output("y", {std::int64_t{1}, std::int64_t{kColumns}});
  builder.save(folder.path() / "model.onnx");
  const auto save = [&](const char* file, const std::vector<float>& values) {
    onnx::TensorProto tensor;
    tensor.set_data_type(onnx::TensorProto::FLOAT);
    tensor.add_dims(1);
    tensor.add_dims(static_cast<std::int64_t>(values.size()));
    for (const float value : values) tensor.add_float_data(value);
    testing::write_bytes(folder.path() / file, tensor.SerializeAsString());
  };
  save("input_0.pb", x);
  save("output_0.pb", y);
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"test-onnx", (folder.path() / "model.onnx").string(),
                                       folder.path().string(), "--target=generic"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return llmc(arguments);
  };
  const ProgramRun exact = with({"-t", "9", "--rtol", "1e-3"});
  EXPECT_EQ(exact.code, 0) << exact.err;
  EXPECT_THAT(exact.out, ::testing::Not(HasSubstr("relative error")));
  EXPECT_THAT(with({"--quant", "q8", "--atol", "1"}).err, HasSubstr("--rtol and --atol have no"));
  const ProgramRun half = with({"--quant", "f16"});
  EXPECT_EQ(half.code, 0) << half.out;
  EXPECT_THAT(half.out, HasSubstr("relative error"));
  const ProgramRun spoiled = with({"--quant", "q4"});
  EXPECT_EQ(spoiled.code, 7);
  EXPECT_THAT(spoiled.out, HasSubstr("FAIL  y f32[1, 8]"));
  expect_mistake({"test-onnx", "x", "y", "--quant", "q5"}, "--quant q5 is not a weight format",
                 "use q6");
}

TEST(TestOnnxCommand, SaysIfTheDataHaveOtherDimsThanTheModel) {
  const testing::TemporaryFolder folder;
  testing::OnnxBuilder builder(17);
  builder.float_input("x", {std::int64_t{2}, std::int64_t{3}});
  builder.float_output("y", {std::int64_t{2}, std::int64_t{3}});
  const std::vector<float> ones(6, 1);
  builder.raw("w", onnx::TensorProto::FLOAT, {2, 3},
              std::string(reinterpret_cast<const char*>(ones.data()), 6 * sizeof(float)));
  builder.node("Add", {"x", "w"}, {}, "y");
  builder.save(folder.path() / "model.onnx");
  onnx::TensorProto tensor;
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  tensor.add_dims(4);
  for (int i = 0; i < 4; ++i) tensor.add_float_data(1);
  for (const char* const file : {"input_0.pb", "output_0.pb"})
    testing::write_bytes(folder.path() / file, tensor.SerializeAsString());
  const ProgramRun ran =
      llmc({"test-onnx", (folder.path() / "model.onnx").string(), folder.path().string()});
  EXPECT_EQ(ran.code, 3) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("do not broadcast"));
  EXPECT_THAT(ran.err, HasSubstr("input_0.pb has the dims [4], and the model's input 'x' [2, 3]"));
}

}  // namespace
}  // namespace llmc::tests
#endif
