// Trigonometric functions and their inverses beside those of the C++ library.
#include <gtest/gtest.h>

#include <cmath>

#include "compiler/reference/interpreter.h"
#include "tests/onnx/imported.h"
#include "tests/support_onnx/onnx_builder.h"

namespace llmc {
namespace {

using testing::OnnxBuilder;

struct Function {
  const char* name;
  double (*expected)(double);
};

class Trigonometry : public ::testing::TestWithParam<Function> {};

TEST_P(Trigonometry, IsTheNearestFloatOrBesideIt) {
  std::vector<float> x{0,       1e-30f, 1e-7f, 3e-4f,   0.1f, 0.4142f, 0.5f,  0.99999f, 1,
                       1.0001f, 1.5f,   7,     1234.5f, 3e8f, 1e20f,   3e38f, INFINITY, NAN};
  for (std::size_t i = 0, count = x.size(); i < count; ++i) x.push_back(-x[i]);
  OnnxBuilder b(18);
  b.node(GetParam().name, {b.floats("x", {static_cast<std::int64_t>(x.size())}, x)}, {}, "y");
  b.float_output("y", {static_cast<std::int64_t>(x.size())});
  const auto model = import(b);
  ASSERT_TRUE(model.ok()) << errors(model.error());
  const auto outputs = reference::evaluate(model->graph(), {});
  ASSERT_TRUE(outputs.ok()) << errors(outputs.error());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto exact = static_cast<float>(GetParam().expected(x[i]));
    const float y = outputs->at(0).floats[i];
    if (std::isnan(exact)) {
      EXPECT_TRUE(std::isnan(y)) << x[i] << " -> " << y;
    } else if (std::isinf(exact)) {
      EXPECT_EQ(y, exact) << x[i];
    } else {
      EXPECT_LE(y, std::nextafter(exact, INFINITY)) << x[i];
      EXPECT_GE(y, std::nextafter(exact, -INFINITY)) << x[i];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Trigonometry,
                         ::testing::Values(Function{"Asin", std::asin}, Function{"Acos", std::acos},
                                           Function{"Atan", std::atan},
                                           Function{"Asinh", std::asinh},
                                           Function{"Acosh", std::acosh},
                                           Function{"Atanh", std::atanh}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace llmc
