#include "tests/support_onnx/norm_form.h"

#include <cmath>

namespace llmc::testing {

namespace {

/// A reduction of the last dim; axes are an operand from operator set 18 on.
std::string reduced_rows(OnnxBuilder& b, const std::string& type, const std::string& x, bool keep) {
  const Attribute keepdims{"keepdims", std::int64_t{keep}};
  if (b.model.opset_import(0).version() >= 18)
    return b.node(type, {x, b.integers({-1})}, {keepdims});
  return b.node(type, {x}, {{"axes", std::vector<std::int64_t>{-1}}, keepdims});
}

/// mean(x^2) of rows, with an epsilon where the form has one.
std::string mean_square(OnnxBuilder& b, NormForm form, const std::string& x, std::int64_t width) {
  const auto mean_of_power = [&](const std::string& exponent) {
    return b.reduce_mean(b.node("Pow", {x, exponent}), -1);
  };
  switch (form) {
    case NormForm::kSumSquare: {
      const auto count = b.scalar(static_cast<float>(width));
      const auto mean = b.node("Div", {reduced_rows(b, "ReduceSumSquare", x, true), count});
      return b.node("Add", {mean, b.scalar(1e-5f)});
    }
    case NormForm::kDroppedAxis:
      return b.unsqueeze(reduced_rows(b, "ReduceMean", b.node("Mul", {x, x}), false), {-1});
    case NormForm::kIntegerPower:
      return mean_of_power(b.integer(2));
    case NormForm::kDoublePower:
      return mean_of_power(
          b.node("Cast", {b.integers({2})}, {{"to", std::int64_t{onnx::TensorProto::DOUBLE}}}));
    case NormForm::kNoEpsilon:
      return mean_of_power(b.scalar(2));
    default:
      return b.node("Add", {mean_of_power(b.scalar(2)), b.scalar(1e-5f)});
  }
}

}  // namespace

std::string root_mean_square_norm(OnnxBuilder& b, NormForm form, const std::string& x,
                                  const std::string& weight, std::int64_t width) {
  const float root_of_width = std::sqrt(static_cast<float>(width));
  if (form == NormForm::kLpNormalization) {
    const auto unit =
        b.node("LpNormalization", {x}, {{"axis", std::int64_t{-1}}, {"p", std::int64_t{2}}});
    return b.node("Mul", {b.node("Mul", {unit, b.scalar(root_of_width)}), weight});
  }
  if (form == NormForm::kEuclidean) {
    const auto length = reduced_rows(b, "ReduceL2", x, true);
    const auto root = b.node("Mul", {length, b.scalar(1 / root_of_width)});
    return b.node("Div", {b.node("Mul", {weight, x}), root});
  }
  const auto root = b.node("Sqrt", {mean_square(b, form, x, width)});
  if (form == NormForm::kPlain) return b.node("Mul", {weight, b.node("Div", {x, root})});
  return b.node("Mul", {b.node("Mul", {x, b.node("Reciprocal", {root})}), weight});
}

}  // namespace llmc::testing
