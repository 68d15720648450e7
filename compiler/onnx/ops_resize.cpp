// Resize: nearest, linear and cubic interpolation to sizes that are known when importing.

#include <algorithm>
#include <cmath>

#include "compiler/onnx/lowering.h"
#include "compiler/onnx/operators.h"

namespace llmc::importer {
namespace {

using ir::BinaryKind;
using ir::ValueId;

/// Maximum size of a resized dim.
constexpr double kMaxResized = 1 << 20;
/// Maximum number of taps along a dim, each of which becomes several nodes.
constexpr double kMaxResizeTaps = 256;

struct Interpolation {
  std::string mode, coordinates, rounding;
  double cubic = -0.75;
  bool antialias = false;        ///< a dim that shrinks is filtered with a stretched kernel
  bool exclude_outside = false;  ///< elements outside the operand have weight 0
  double extrapolation = 0;      ///< result at positions outside the operand, with cropping
  std::optional<std::vector<double>> scales = {};  ///< of all dims, if given by attributes

  bool crops() const { return coordinates == "tf_crop_and_resize"; }
};

/// How the positions of a resized dim correspond to those of the operand.
struct ResizedDim {
  std::int64_t from = 0, to = 0;
  double scale = 1;
  double start = 0, end = 1;  ///< with cropping: the region, relative to the operand

  bool is_identity() const { return scale == 1 && from == to && start == 0 && end == 1; }

  /// Returns the position in the operand of position `i` of the result.
  double source(std::int64_t i, const std::string& coordinates) const {
    const auto x = static_cast<double>(i), count = scale * static_cast<double>(from);
    if (coordinates == "asymmetric") return x / scale;
    if (coordinates == "align_corners")
      return count == 1 ? 0 : x * static_cast<double>(from - 1) / (count - 1);
    if (coordinates == "pytorch_half_pixel" && to == 1) return 0;
    if (coordinates == "tf_crop_and_resize") {
      const auto last = static_cast<double>(from - 1);
      if (to == 1) return 0.5 * (start + end) * last;
      return (start + x * (end - start) / static_cast<double>(to - 1)) * last;
    }
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

/// The elements of the operand that contribute to one element of the result, and their weights.
struct Taps {
  std::int64_t first = 0;  ///< index of the first element; it may lie outside the operand
  std::vector<double> weights;
};

/// Returns the kernel at distance d: a triangle (linear) or the cubic of Keys (1981).
double kernel(double d, const Interpolation& how) {
  d = std::abs(d);
  if (how.mode == "linear") return std::max(0.0, 1 - d);
  const double a = how.cubic;
  if (d < 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

/// Returns the taps at position x of the operand. Their number depends on `dim` only.
Taps taps_at(double x, const ResizedDim& dim, const Interpolation& how) {
  const bool cubic = how.mode == "cubic";
  if (!cubic && !how.antialias) x = std::clamp(x, 0.0, static_cast<double>(dim.from - 1));
  const double shrink = how.antialias ? std::min(dim.scale, 1.0) : 1.0;
  const auto first = static_cast<std::int64_t>(std::floor((cubic ? -2 : -1) / shrink)) + 1;
  const double low = std::floor(x);
  Taps taps{static_cast<std::int64_t>(low) + first, {}};
  double sum = 0;
  for (std::int64_t k = first; k < 2 - first; ++k) {
    const std::int64_t index = static_cast<std::int64_t>(low) + k;
    const bool excluded = how.exclude_outside && (index < 0 || index >= dim.from);
    const double distance = (static_cast<double>(k) - (x - low)) * shrink;
    taps.weights.push_back(excluded ? 0 : kernel(distance, how));
    sum += taps.weights.back();
  }
  if (how.antialias || how.exclude_outside)
    for (double& weight : taps.weights) weight /= sum;
  return taps;
}

/// Returns the elements of x along `axis` at `indices`, which are clamped to the dim.
ValueId gathered_at(NodeContext& n, ValueId x, std::int64_t axis, std::vector<std::int64_t> indices,
                    std::int64_t size) {
  for (std::int64_t& index : indices) index = std::clamp<std::int64_t>(index, 0, size - 1);
  return n.make(ir::Gather{axis}, {x, n.make_integers(std::move(indices))});
}

/// Returns the weighted sum of the taps. Element i of the result has the taps first[i], first[i] +
/// 1, …. `weights` is [tap][element].
ValueId weighted_sum(NodeContext& n, ValueId x, std::int64_t axis, std::int64_t size,
                     std::vector<std::int64_t> first,
                     const std::vector<std::vector<float>>& weights) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(n.rank(x) - axis), 1);
  shape[0] = std::ssize(first);
  ValueId sum = ir::kNoValue;
  for (const auto& of_tap : weights) {
    const ValueId elements = gathered_at(n, x, axis, first, size);
    const ValueId weight = n.make_constant(ir::make_f32(shape, of_tap));
    const ValueId term = binary(n, BinaryKind::kMul, elements, n.cast(weight, n.type(x).element));
    sum = sum.exists() ? binary(n, BinaryKind::kAdd, sum, term) : term;
    for (std::int64_t& index : first) ++index;
  }
  return sum;
}

ValueId resized(NodeContext& n, ValueId x, std::int64_t axis, const ResizedDim& dim,
                const Interpolation& how) {
  if (n.failed()) return ir::kNoValue;
  std::vector<std::int64_t> first;
  std::vector<std::vector<float>> weights;
  std::vector<float> outside;
  for (std::int64_t i = 0; i < dim.to; ++i) {
    double at = dim.source(i, how.coordinates);
    outside.push_back(how.crops() && !(at >= 0 && at <= static_cast<double>(dim.from - 1)) ? 1 : 0);
    if (outside.back() == 1) at = 0;
    if (how.mode == "nearest") {
      first.push_back(nearest(at, how.rounding));
      continue;
    }
    const Taps taps = taps_at(at, dim, how);
    first.push_back(taps.first);
    weights.resize(taps.weights.size());
    for (std::size_t k = 0; k < taps.weights.size(); ++k)
      weights[k].push_back(static_cast<float>(taps.weights[k]));
  }
  const ValueId y = weights.empty() ? gathered_at(n, x, axis, std::move(first), dim.from)
                                    : weighted_sum(n, x, axis, dim.from, std::move(first), weights);
  if (std::ranges::count(outside, 1) == 0) return y;
  std::vector<std::int64_t> shape(static_cast<std::size_t>(n.rank(x) - axis), 1);
  shape[0] = dim.to;
  const ValueId is_outside =
      n.cast(n.make_constant(ir::make_f32(shape, outside)), ir::ElementType::kBool);
  const ValueId value =
      n.cast(n.make_constant(ir::make_f32({}, {static_cast<float>(how.extrapolation)})),
             n.type(x).element);
  return n.make(ir::Where{}, {is_outside, value, y});
}

/// Returns the `count` numbers of operand i; nullopt if it is absent or empty. A symbolic size that
/// equals the size in `unchanged` is returned as NaN. Reports an error if another number is not
/// known or the count differs.
std::optional<std::vector<double>> resize_numbers(NodeContext& n, std::size_t i, std::size_t count,
                                                  const std::vector<ir::Dim>& unchanged = {}) {
  if (!n.has(i)) return std::nullopt;
  std::vector<double> values;
  if (n.type(n.in(i)).dims == std::vector<ir::Dim>{ir::Dim(0)}) return std::nullopt;
  if (ir::is_float(n.type(n.in(i)).element)) {
    const ir::ConstantPtr data = n.constant(i);
    if (data) values = ir::to_doubles(*data);
  } else if (const std::vector<ir::Dim>* known = n.known_dims(i)) {
    for (std::size_t k = 0; k < known->size(); ++k) {
      const ir::Dim& size = (*known)[k];
      if (!size.is_constant() && (k >= unchanged.size() || !(size == unchanged[k]))) {
        values.clear();
        break;
      }
      values.push_back(size.is_constant() ? static_cast<double>(*size.constant()) : std::nan(""));
    }
  }
  if (values.empty()) {
    n.unsupported("numbers that are not known when importing are not supported");
  } else if (values.size() != count) {
    n.bad("has " + std::to_string(values.size()) + " numbers in operand " + std::to_string(i) +
          " where " + std::to_string(count) + " are expected");
  }
  return values;
}

/// Sets the regions of 'tf_crop_and_resize' from operand 1: all starts, then all ends.
void set_regions(NodeContext& n, const Interpolation& how, std::vector<ResizedDim>& dims) {
  if (!how.crops()) return n.ignore_operand(1);
  const auto region = resize_numbers(n, 1, 2 * dims.size());
  if (n.failed()) return;
  if (!region) return n.bad("needs a region to crop");
  for (std::size_t i = 0; i < dims.size(); ++i) {
    dims[i].start = (*region)[i];
    dims[i].end = (*region)[dims.size() + i];
    if (!std::isfinite(dims[i].start) || !std::isfinite(dims[i].end))
      return n.bad("the region to crop is not finite");
  }
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
  if (how.scales && how.scales->size() != axes.size())
    return n.bad("has " + std::to_string(how.scales->size()) + " scales for " +
                 std::to_string(axes.size()) + " dims");
  const auto scales = how.scales ? how.scales : resize_numbers(n, scales_operand, axes.size());
  std::vector<ir::Dim> from;
  for (const std::int64_t axis : axes)
    from.push_back(n.type(x).dims[static_cast<std::size_t>(axis)]);
  const auto sizes =
      n.failed() ? std::nullopt : resize_numbers(n, sizes_operand, axes.size(), from);
  if (n.failed()) return;
  if (scales.has_value() == sizes.has_value()) return n.bad("needs either scales or sizes");
  std::vector<ResizedDim> dims;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto size = known_dim(n, x, axes[i]);
    if (!size && (scales ? (*scales)[i] == 1 : std::isnan((*sizes)[i])) && !how.crops()) {
      dims.push_back({1, 1, 1});  // unchanged, whatever its size
      continue;
    }
    if (!size)
      return n.unsupported("needs the sizes of its operand " + ir::to_string(n.type(x)),
                           "give them with --dim name=value");
    const auto count = static_cast<double>(*size);
    const double scale = scales ? (*scales)[i] : (*sizes)[i] / std::max(count, 1.0);
    const double to = scales ? std::floor(count * scale) : (*sizes)[i];
    if (!(scale > 0) || !(to >= 1 && to <= kMaxResized) || *size < 1)
      return n.bad("a dim of size " + std::to_string(*size) + " cannot be resized like this");
    if (how.antialias && how.mode != "nearest" && scale < 4 / kMaxResizeTaps)
      return n.unsupported("antialiasing a dim that shrinks to less than 1/64 is not supported");
    dims.push_back({*size, static_cast<std::int64_t>(to), scale});
  }
  if (n.opset() >= 18) {
    const std::string policy = n.text("keep_aspect_ratio_policy", "stretch");
    if (policy != "stretch" && sizes &&
        std::ranges::any_of(*sizes, [](double size) { return std::isnan(size); }))
      return n.unsupported("needs the sizes of its operand " + ir::to_string(n.type(x)),
                           "give them with --dim name=value");
    if (sizes && !dims.empty()) keep_aspect(n, policy, dims);
  }
  if (scales_operand == 2) set_regions(n, how, dims);
  ValueId y = x;
  for (std::size_t i = 0; i < axes.size() && !n.failed(); ++i)
    if (!dims[i].is_identity()) y = resized(n, y, axes[i], dims[i], how);
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
  how.extrapolation = static_cast<double>(n.number("extrapolation_value", 0));
  if (!is_one_of(how.coordinates, {"half_pixel", "pytorch_half_pixel", "align_corners",
                                   "asymmetric", "half_pixel_symmetric", "tf_crop_and_resize"}))
    return n.unsupported("coordinates of mode '" + how.coordinates + "' are not supported");
  if (!is_one_of(how.rounding, {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}))
    return n.bad("attribute 'nearest_mode' is unknown");
  how.exclude_outside = n.integer("exclude_outside", 0) != 0;
  how.antialias = n.opset() >= 18 && n.integer("antialias", 0) != 0;
  resize(n, 2, 3, how);
}

/// Upsample, which Resize replaced. The scales are operand 1 in version 9 and an attribute in
/// version 7. In version 1, two attributes give the scales of the last two of four dims.
void convert_upsample(NodeContext& n) {
  Interpolation how{n.text("mode", "nearest"), "asymmetric", "floor"};
  if (n.opset() < 7) {
    how.scales = {1, 1, n.number("height_scale", 0), n.number("width_scale", 0)};
    if (how.mode == "bilinear") how.mode = "linear";
  } else if (n.opset() < 9) {
    const auto scales = n.numbers("scales");
    if (!scales) return n.bad("attribute 'scales' is missing");
    how.scales.emplace(scales->begin(), scales->end());
  }
  if (!is_one_of(how.mode, {"nearest", "linear"}))
    return n.bad("attribute 'mode' is not nearest or linear");
  resize(n, 1, SIZE_MAX, how);
}

}  // namespace

std::vector<OperatorRule> resize_rules() {
  return {
      onnx_rule("Resize", 10, {1, 4}, convert_resize,
                {"antialias", "axes", "coordinate_transformation_mode", "cubic_coeff_a",
                 "exclude_outside", "extrapolation_value", "keep_aspect_ratio_policy", "mode",
                 "nearest_mode"}),
      onnx_rule("Upsample", {1, 6}, 1, convert_upsample, {"height_scale", "mode", "width_scale"}),
      onnx_rule("Upsample", {7, 8}, 1, convert_upsample, {"mode", "scales"}),
      onnx_rule("Upsample", {9, 9}, 2, convert_upsample, {"mode"}),
  };
}

}  // namespace llmc::importer
