// Resize: nearest, linear and cubic interpolation to sizes that are known when importing.

#include <algorithm>
#include <cmath>

#include "compiler/onnx/lowering.h"
#include "compiler/onnx/operators.h"

namespace llmc::importer {
namespace {

using ir::BinaryKind;
using ir::ValueId;

/// Maximum of a resized dim.
constexpr double kMaxResized = 1 << 20;

struct Interpolation {
  std::string mode, coordinates, rounding;
  double cubic = -0.75;
};

/// How the positions of a resized dim correspond to those of the operand.
struct ResizedDim {
  std::int64_t from = 0, to = 0;
  double scale = 1;

  /// Returns the position in the operand of position `i` of the result.
  double source(std::int64_t i, const std::string& coordinates) const {
    const auto x = static_cast<double>(i), count = scale * static_cast<double>(from);
    if (coordinates == "asymmetric") return x / scale;
    if (coordinates == "align_corners")
      return count == 1 ? 0 : x * static_cast<double>(from - 1) / (count - 1);
    if (coordinates == "pytorch_half_pixel" && to == 1) return 0;
    if (coordinates == "half_pixel_symmetric") {
      const double adjustment = static_cast<double>(to) / count;
      const double center = static_cast<double>(from) / 2;
      return center * (1 - adjustment) + (x + 0.5) / scale - 0.5;
    }
    return (x + 0.5) / scale - 0.5;
  }
};

std::int64_t nearest(double x, const std::string& rounding) {
  const double low = std::floor(x);
  if (rounding == "floor") return static_cast<std::int64_t>(low);
  if (rounding == "ceil") return static_cast<std::int64_t>(std::ceil(x));
  const bool up = rounding == "round_prefer_ceil" ? x - low >= 0.5 : x - low > 0.5;
  return static_cast<std::int64_t>(low) + (up ? 1 : 0);
}

/// Returns the weights of the elements from floor(x) - 1 on (cubic) or floor(x) on (linear) at
/// x = floor(x) + t. (Keys 1981.)
std::vector<double> weights_at(double t, const Interpolation& how) {
  if (how.mode == "linear") return {1 - t, t};
  const double a = how.cubic;
  const auto outer = [a](double d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
  const auto inner = [a](double d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
  return {outer(t + 1), inner(t), inner(1 - t), outer(2 - t)};
}

/// Returns the elements of x along `axis` at `indices`, limited to the dim.
ValueId gathered_at(NodeContext& n, ValueId x, std::int64_t axis, std::vector<std::int64_t> indices,
                    std::int64_t size) {
  for (std::int64_t& index : indices) index = std::clamp<std::int64_t>(index, 0, size - 1);
  return n.make(ir::Gather{axis}, {x, n.make_integers(std::move(indices))});
}

ValueId resized(NodeContext& n, ValueId x, std::int64_t axis, const ResizedDim& dim,
                const Interpolation& how) {
  if (n.failed()) return ir::kNoValue;
  std::vector<std::int64_t> first;
  std::vector<std::vector<float>> weights(how.mode == "cubic" ? 4 : how.mode == "linear" ? 2 : 0);
  for (std::int64_t i = 0; i < dim.to; ++i) {
    double at = dim.source(i, how.coordinates);
    if (weights.empty()) {
      first.push_back(nearest(at, how.rounding));
      continue;
    }
    if (how.mode == "linear") at = std::clamp(at, 0.0, static_cast<double>(dim.from - 1));
    const double low = std::floor(at);
    first.push_back(static_cast<std::int64_t>(low) - (how.mode == "cubic" ? 1 : 0));
    const auto all = weights_at(at - low, how);
    for (std::size_t k = 0; k < all.size(); ++k) weights[k].push_back(static_cast<float>(all[k]));
  }
  if (weights.empty()) return gathered_at(n, x, axis, std::move(first), dim.from);
  std::vector<std::int64_t> shape(static_cast<std::size_t>(n.rank(x) - axis), 1);
  shape[0] = dim.to;
  ValueId sum = ir::kNoValue;
  for (std::size_t k = 0; k < weights.size(); ++k) {
    auto indices = first;
    for (std::int64_t& index : indices) index += static_cast<std::int64_t>(k);
    const ValueId elements = gathered_at(n, x, axis, std::move(indices), dim.from);
    const ValueId weight = n.make_constant(ir::make_f32(shape, weights[k]));
    const ValueId term = binary(n, BinaryKind::kMul, elements, n.cast(weight, n.type(x).element));
    sum = sum.exists() ? binary(n, BinaryKind::kAdd, sum, term) : term;
  }
  return sum;
}

/// Returns the numbers of operand i, nullopt if it is absent or empty. Reports an error if they are
/// not constant or not one for each of `count` dims.
std::optional<std::vector<double>> resize_numbers(NodeContext& n, std::size_t i,
                                                  std::size_t count) {
  if (!n.has(i)) return std::nullopt;
  std::vector<double> values;
  if (n.type(n.in(i)).dims == std::vector<ir::Dim>{ir::Dim(0)}) return std::nullopt;
  if (ir::is_float(n.type(n.in(i)).element)) {
    const ir::ConstantPtr data = n.constant(i);
    if (data) values = ir::to_doubles(*data);
  } else if (const auto known = n.known_integers(i)) {
    values.assign(known->begin(), known->end());
  }
  if (values.empty()) {
    n.unsupported("scales or sizes that are not known when importing are not supported");
  } else if (values.size() != count) {
    n.bad("has " + std::to_string(values.size()) + " scales or sizes for " + std::to_string(count) +
          " dims");
  }
  return values;
}

/// Applies 'keep_aspect_ratio_policy': all dims get the same scale.
void keep_aspect(NodeContext& n, const std::string& policy, std::vector<ResizedDim>& dims) {
  if (policy == "stretch") return;
  if (policy != "not_larger" && policy != "not_smaller")
    return n.bad("attribute 'keep_aspect_ratio_policy' is unknown");
  double scale = dims[0].scale;
  for (const ResizedDim& dim : dims)
    scale = policy == "not_larger" ? std::min(scale, dim.scale) : std::max(scale, dim.scale);
  for (ResizedDim& dim : dims) {
    dim.scale = scale;
    const double to = std::floor(scale * static_cast<double>(dim.from) + 0.5);
    if (!(to >= 1 && to <= kMaxResized)) return n.bad("a dim would have an invalid size");
    dim.to = static_cast<std::int64_t>(to);
  }
}

void resize(NodeContext& n, std::size_t scales_operand, std::size_t sizes_operand,
            const Interpolation& how) {
  const ValueId x = n.in(0);
  const std::int64_t rank = n.rank(x);
  const auto given_axes = n.opset() >= 18 ? n.integers("axes") : std::nullopt;
  if (n.failed()) return;
  std::vector<std::int64_t> axes = given_axes.value_or(axis_range(0, rank));
  for (std::int64_t& axis : axes) {
    if (axis < -rank || axis >= rank) return n.bad("attribute 'axes' is outside its operand");
    axis += axis < 0 ? rank : 0;
    if (std::ranges::count(axes, axis) > 1)
      return n.bad("attribute 'axes' names dim " + std::to_string(axis) + " twice");
  }
  const auto scales = resize_numbers(n, scales_operand, axes.size());
  const auto sizes = n.failed() ? std::nullopt : resize_numbers(n, sizes_operand, axes.size());
  if (n.failed()) return;
  if (scales.has_value() == sizes.has_value()) return n.bad("needs either scales or sizes");
  std::vector<ResizedDim> dims;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto size = known_dim(n, x, axes[i]);
    if (!size && scales && (*scales)[i] == 1) {
      dims.push_back({1, 1, 1});  // unchanged, whatever its size
      continue;
    }
    if (!size)
      return n.unsupported("needs the sizes of its operand " + ir::to_string(n.type(x)),
                           "give them with --dim name=value");
    const auto from = static_cast<double>(*size);
    const double scale = scales ? (*scales)[i] : (*sizes)[i] / std::max(from, 1.0);
    const double to = scales ? std::floor(from * scale) : (*sizes)[i];
    if (!(scale > 0) || !(to >= 1 && to <= kMaxResized) || *size < 1)
      return n.bad("a dim of size " + std::to_string(*size) + " cannot be resized like this");
    dims.push_back({*size, static_cast<std::int64_t>(to), scale});
  }
  if (n.opset() >= 18) {
    const std::string policy = n.text("keep_aspect_ratio_policy", "stretch");
    if (sizes && !dims.empty()) keep_aspect(n, policy, dims);
  }
  ValueId y = x;
  for (std::size_t i = 0; i < axes.size() && !n.failed(); ++i)
    if (dims[i].scale != 1 || dims[i].from != dims[i].to) y = resized(n, y, axes[i], dims[i], how);
  n.emit(ir::Unary{}, {y});
}

bool is_one_of(const std::string& text, std::initializer_list<std::string_view> choices) {
  return std::ranges::find(choices, text) != choices.end();
}

void convert_resize(NodeContext& n) {
  Interpolation how;
  how.mode = n.text("mode", "nearest");
  if (!is_one_of(how.mode, {"nearest", "linear", "cubic"}))
    return n.bad("attribute 'mode' is not nearest, linear or cubic");
  if (n.opset() < 11) {
    how.coordinates = "asymmetric";
    how.rounding = "floor";
    return resize(n, 1, SIZE_MAX, how);
  }
  how.coordinates = n.text("coordinate_transformation_mode", "half_pixel");
  how.rounding = n.text("nearest_mode", "round_prefer_floor");
  how.cubic = static_cast<double>(n.number("cubic_coeff_a", -0.75f));
  n.ignore("extrapolation_value");
  n.ignore_operand(1);  // the region of tf_crop_and_resize
  if (how.coordinates == "tf_crop_and_resize") return n.unsupported("cropping is not supported");
  if (!is_one_of(how.coordinates, {"half_pixel", "pytorch_half_pixel", "align_corners",
                                   "asymmetric", "half_pixel_symmetric"}))
    return n.unsupported("coordinates of mode '" + how.coordinates + "' are not supported");
  if (!is_one_of(how.rounding, {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}))
    return n.bad("attribute 'nearest_mode' is unknown");
  if (n.integer("exclude_outside", 0) != 0 && how.mode == "cubic")
    return n.unsupported("exclude_outside is not supported");
  if (n.opset() >= 18 && n.integer("antialias", 0) != 0)
    return n.unsupported("antialias is not supported");
  resize(n, 2, 3, how);
}

/// Upsample, which Resize replaced.
void convert_upsample(NodeContext& n) {
  const Interpolation how{n.text("mode", "nearest"), "asymmetric", "floor"};
  if (!is_one_of(how.mode, {"nearest", "linear"}))
    return n.bad("attribute 'mode' is not nearest or linear");
  resize(n, 1, SIZE_MAX, how);
}

}  // namespace

std::vector<OperatorRule> resize_rules() {
  return {
      {"",
       "Resize",
       10,
       kAnyLater,
       1,
       4,
       {"antialias", "axes", "coordinate_transformation_mode", "cubic_coeff_a", "exclude_outside",
        "extrapolation_value", "keep_aspect_ratio_policy", "mode", "nearest_mode"},
       convert_resize},
      {"", "Upsample", 9, 9, 2, 2, {"mode"}, convert_upsample},
  };
}

}  // namespace llmc::importer
