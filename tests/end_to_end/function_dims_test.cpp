// --dim: the sizes of a function's symbolic dims.
#include <gmock/gmock.h>

#include <functional>
#include <numeric>

#include "tests/end_to_end/mistakes.h"
#include "tests/end_to_end/models.h"
#include "tests/end_to_end/open_function.h"
#include "tests/support_onnx/onnx_builder.h"

#ifdef LLMC_PROGRAM
namespace llmc::tests {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(FunctionDims, MissingOnesAreOneErrorWithTheFlagsToPaste) {
  const testing::TemporaryFolder folder;
  const std::string model = write_open_function(folder.path()).string();
  expect_mistake({"plan", model}, model + ": some dims of the inputs have no size",
                 "--dim batch_size=1 --dim past_sequence_length=N --dim encoder/sequence=N "
                 "--dim e_dim3=N\n");
  const ProgramRun inspected = llmc({"inspect", model});
  EXPECT_THAT(inspected.out, HasSubstr("[batch_size, past_sequence_length + 1]"));
  EXPECT_THAT(inspected.out, HasSubstr("encoder/sequence, e_dim3]"));
  const ProgramRun planned =
      llmc({"plan", model, "--dim", "batch_size=1", "--dim", "past_sequence_length + 1=8", "--dim",
            "encoder/sequence=3", "--dim", "e_dim3=2"});
  EXPECT_EQ(planned.code, 0) << planned.err;
  EXPECT_THAT(planned.out, AllOf(HasSubstr("f32[1, 8]"), HasSubstr("f32[1, 7, 3, 2]")));
  expect_mistake({"plan", model, "--dim", "batchsize=1"}, "no input has a dim called 'batchsize'",
                 "did you mean batch_size?");
}

TEST(FunctionDims, OneLengthOfTokensHasAUsualBound) {
  const testing::TemporaryFolder folder;
  const std::string model = (folder.path() / "open.onnx").string();
  const auto planned = [&](int element) {
    testing::OnnxBuilder b(17);
    b.input("x", element, {"batch_size", "length"});
    b.node("Neg", {"x"}, {}, "y");
    b.output("y", element, {"batch_size", "length"});
    b.save(model);
    return llmc({"plan", model});
  };
  const ProgramRun tokens = planned(onnx::TensorProto::INT64);
  EXPECT_EQ(tokens.code, 0) << tokens.err;
  EXPECT_THAT(tokens.err, HasSubstr("assuming --dim batch_size=1 --dim length=1..512"));
  const ProgramRun samples = planned(onnx::TensorProto::FLOAT);
  EXPECT_NE(samples.code, 0);
  EXPECT_THAT(samples.err, HasSubstr("--dim batch_size=1 --dim length=N"));
}

/// Rows of a table of 100 positions, looked up or cut out in the forms that exporters write.
TEST(FunctionDims, ATableOfPositionsIsABound) {
  const testing::TemporaryFolder folder;
  const std::string model = (folder.path() / "open.onnx").string();
  const auto bound = [&](const std::function<std::string(testing::OnnxBuilder&, std::string)>& rows,
                         std::int64_t count) {
    testing::OnnxBuilder b(17);
    b.input("ids", onnx::TensorProto::INT64, {"batch_size", "length"});
    b.floats("table", {count, 2}, std::vector<float>(static_cast<std::size_t>(2 * count), 0.5F));
    b.floats("words", {8, 2}, std::vector<float>(16, 0.25F));
    const std::string length = b.node("Gather", {b.node("Shape", {"ids"}), b.integer(1)});
    b.node("Add", {b.node("Gather", {"words", "ids"}), rows(b, length)}, {}, "y");
    b.float_output("y", {"batch_size", "length", std::int64_t{2}});
    b.save(model);
    const ProgramRun planned = llmc({"plan", model});
    EXPECT_EQ(planned.code, 0) << planned.err;
    EXPECT_THAT(planned.err, HasSubstr("assuming --dim batch_size=1 --dim length=1..100"));
  };
  const auto cut = [](testing::OnnxBuilder& b, const std::string& x, const std::string& length,
                      std::int64_t axis) {
    return b.node("Slice", {x, b.integers({0}), b.unsqueeze(length, {0}), b.integers({axis})});
  };
  const auto counted = [](testing::OnnxBuilder& b, const std::string& length) {
    return b.node("Range", {b.integer(0), length, b.integer(1)});
  };
  bound([&](auto& b, auto length) { return b.node("Gather", {"table", counted(b, length)}); }, 100);
  bound(
      [&](auto& b, auto length) {
        const auto first = b.node("Add", {counted(b, length), b.integer(2)});
        return b.node("Gather", {"table", first});
      },
      102);
  bound(
      [&](auto& b, auto length) {
        std::vector<std::int64_t> all(100);
        std::iota(all.begin(), all.end(), 0);
        const auto ids = b.unsqueeze(b.integers(all), {0});
        return b.node("Gather", {"table", cut(b, ids, length, 1)});
      },
      100);
  bound([&](auto& b, auto length) { return cut(b, "table", length, 0); }, 100);
}

/// The range begins with the first size that the convolution can read.
TEST(FunctionDims, LengthsOfSoundsHaveUsualBounds) {
  const testing::TemporaryFolder folder;
  const std::string model = (folder.path() / "sound.onnx").string();
  const auto planned = [&](const std::vector<testing::DeclaredDim>& dims, bool spectrogram) {
    testing::OnnxBuilder b(17);
    b.float_input("x", dims);
    const std::string x = spectrogram ? "x" : b.unsqueeze("x", {1});
    const std::int64_t bands = spectrogram ? 8 : 1;
    const std::vector<float> weight(40 * static_cast<std::size_t>(bands), 0.1F);
    b.node("Conv", {x, b.floats("w", {4, bands, 10}, weight)},
           {{"strides", std::vector<std::int64_t>{5}}}, "y");
    b.float_output("y", {"batch_size", std::int64_t{4}, "positions"});
    b.save(model);
    return llmc({"plan", model});
  };
  const ProgramRun sound = planned({"batch_size", "samples"}, false);
  EXPECT_EQ(sound.code, 0) << sound.err;
  EXPECT_THAT(sound.err, HasSubstr("assuming --dim batch_size=1 --dim samples=10..480000"));
  const ProgramRun none = llmc({"plan", model, "--dim", "batch_size=1", "--dim", "samples=0"});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("hint: --dim samples=0 is given: use a size of at least 1"));
  expect_mistake({"plan", model, "--dim", "batch_size=1", "--dim", "samples=1..4"},
                 "negative size for the smallest sizes given", "give ranges that begin later");
  const ProgramRun spectrogram = planned({"batch_size", std::int64_t{8}, "frames"}, true);
  EXPECT_EQ(spectrogram.code, 0) << spectrogram.err;
  EXPECT_THAT(spectrogram.err, HasSubstr("assuming --dim batch_size=1 --dim frames=10..3000"));
  const ProgramRun unknown = planned({"batch_size", "bands", "frames"}, true);
  EXPECT_NE(unknown.code, 0);
  EXPECT_THAT(unknown.err, HasSubstr("--dim bands=N"));
}

/// PyTorch's exporter names dims s0, s1, … unless it is given names.
TEST(FunctionDims, TheFirstDimOfImagesIsTheBatch) {
  const testing::TemporaryFolder folder;
  const std::string model = (folder.path() / "image.onnx").string();
  testing::OnnxBuilder b(17);
  b.float_input("pixels", {"s10", std::int64_t{3}, std::int64_t{4}, std::int64_t{4}});
  b.node("Neg", {"pixels"}, {}, "y");
  b.float_output("y", {"s10", std::int64_t{3}, std::int64_t{4}, std::int64_t{4}});
  b.save(model);
  const ProgramRun planned = llmc({"plan", model});
  EXPECT_EQ(planned.code, 0) << planned.err;
  EXPECT_THAT(planned.err, HasSubstr("assuming --dim s10=1"));
}

/// The table has 77 rows, of which the first is no token's.
TEST(FunctionDims, LengthsOfTokensEndWithTheTableOfPositions) {
  const testing::TemporaryFolder folder;
  const std::string model = (folder.path() / "text.onnx").string();
  testing::OnnxBuilder b(17);
  b.input("ids", onnx::TensorProto::INT64, {"batch_size", "length"});
  const std::string length = b.node("Gather", {b.node("Shape", {"ids"}), b.integers({1})});
  const std::string end = b.node("Add", {length, b.integers({1})});
  const std::string table = b.floats("table", {1, 77}, std::vector<float>(77, 1));
  const std::string rows = b.node("Slice", {table, b.integers({1}), end, b.integers({1})});
  const std::string ids = b.node("Cast", {"ids"}, {{"to", std::int64_t{onnx::TensorProto::FLOAT}}});
  b.node("Add", {ids, rows}, {}, "y");
  b.float_output("y", {"batch_size", "length"});
  b.save(model);
  const ProgramRun planned = llmc({"plan", model});
  EXPECT_EQ(planned.code, 0) << planned.err;
  EXPECT_THAT(planned.err, HasSubstr("assuming --dim batch_size=1 --dim length=1..76"));
}

TEST(FunctionDims, SizesThatMakeNoSenseAreOneError) {
  const testing::TemporaryFolder folder;
  const std::string model = write_open_function(folder.path()).string();
  const auto with = [&](const std::vector<std::string>& sizes) {
    std::vector<std::string> arguments{"plan", model, "--dim", "encoder/sequence=3"};
    for (const std::string& size : sizes) arguments.insert(arguments.end(), {"--dim", size});
    return arguments;
  };
  const ProgramRun large =
      llmc(with({"batch_size=999999999999", "past_sequence_length=999999999", "e_dim3=999999999"}));
  EXPECT_EQ(large.code, 2);
  EXPECT_THAT(large.err, AllOf(HasSubstr("999999999999"), HasSubstr("is too large"),
                               HasSubstr("give smaller sizes")));
  EXPECT_EQ(large.err.find("error: "), large.err.rfind("error: ")) << large.err;
  expect_mistake(with({"batch_size=0", "past_sequence_length=4", "e_dim3=2"}),
                 "with --dim batch_size=0 no output has an element", "at least 1");
  EXPECT_EQ(llmc(with({"batch_size=1", "past_sequence_length=0", "e_dim3=2"})).code, 0);
  expect_mistake(with({"batch_size=1..9000000000000000000"}),
                 "the size 9000000000000000000 of --dim batch_size is too large", "at most");
  expect_mistake(with({"batch_size=1..1000000", "past_sequence_length=1..1000000", "e_dim3=1000"}),
                 "is too large: a tensor has at most 2^40 elements", "give smaller sizes");
  expect_mistake(with({"e_dim3=2", "e_dim3=3"}), "--dim has two sizes for 'e_dim3': 2 and 3",
                 "remove one");
  expect_mistake(with({"batch_size=1,e_dim3=2"}), "has several sizes", "repeat the option");
  for (const char* const text :
       {"1..", "..4", "1...4", "1..2..3", "-1", "abc", "99999999999999999999"})
    expect_mistake(with({std::string("e_dim3=") + text}),
                   std::string("--dim e_dim3: '") + text + "' is not a size",
                   "--dim length=1..512");
  for (const char* const text : {"e_dim3", "e_dim3=", "=3"})
    expect_mistake(with({text}), "has no size", "--dim length=1..512");
  expect_mistake(with({"batch_size=1", "past_sequence_length=0..4", "e_dim3=2"}),
                 "--dim past_sequence_length=0..4 is no range", "at least 1");
  expect_mistake(with({"batch_size=1", "past_sequence_length + 1=1..4", "e_dim3=2"}),
                 "gives a range to a sum", "the symbols");
  expect_mistake(with({"e_dim3=2", "e_dim3=2..3"}), "two sizes for 'e_dim3': 2 and 2..3",
                 "remove one");
}

TEST(FunctionDims, RangesAreSizesOfEachCall) {
  const testing::TemporaryFolder folder;
  const std::string model = write_open_function(folder.path()).string();
  const ProgramRun planned =
      llmc({"plan", model, "--dim", "batch_size=1..4", "--dim", "past_sequence_length=1..8",
            "--dim", "encoder/sequence=3..3", "--dim", "e_dim3=2"});
  EXPECT_EQ(planned.code, 0) << planned.err;
  EXPECT_THAT(planned.out, AllOf(HasSubstr("1..4  batch_size"), HasSubstr("1..8  past_seq"),
                                 HasSubstr("f32[batch_size, past_sequence_length + 1]"),
                                 HasSubstr("f32[batch_size, past_sequence_length, 3, 2]")));
}

TEST(FunctionDims, ThatADecoderBecomesAFunctionIsSaid) {
  const std::string model = tinyfable().string();
  const ProgramRun open = llmc({"plan", model, "--dim", "batch_size=1"});
  EXPECT_EQ(open.code, 2);
  EXPECT_THAT(open.err, AllOf(HasSubstr("the model is a decoder"), HasSubstr("leave --dim out")));
  EXPECT_THAT(llmc({"plan", model, "--function", "--dim", "batch_size=1"}).err,
              Not(HasSubstr("the model is a decoder")));
  const ProgramRun range = llmc({"plan", model, "--dim", "batch_size=1..4"});
  EXPECT_EQ(range.code, 2);
  EXPECT_THAT(range.err, AllOf(HasSubstr("the model is a decoder"), HasSubstr("a range"),
                               HasSubstr("--function")));
}

}  // namespace
}  // namespace llmc::tests
#endif
