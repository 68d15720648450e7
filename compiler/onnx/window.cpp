#include "compiler/onnx/window.h"

#include <algorithm>

#include "compiler/onnx/lowering.h"

namespace llmc::importer {

using ir::ValueId;

namespace {

/// Maximum number in an attribute, so that arithmetic does not overflow.
constexpr std::int64_t kMaxWindow = std::int64_t{1} << 24;

/// Returns an attribute of `count` numbers, or `count` times `fallback` if it is absent. Reports an
/// error if it has another length, or a number outside [least, kMaxWindow].
std::vector<std::int64_t> numbers(NodeContext& n, const char* name, std::size_t count,
                                  std::int64_t least, std::int64_t fallback) {
  auto given = n.integers(name);
  if (!given) return std::vector<std::int64_t>(count, fallback);
  if (given->size() != count)
    n.bad("attribute '" + std::string(name) + "' does not have " + std::to_string(count) +
          " numbers");
  for (const std::int64_t number : *given)
    if (number < least || number > kMaxWindow)
      n.bad("attribute '" + std::string(name) + "' has a number outside " + std::to_string(least) +
            " to " + std::to_string(kMaxWindow));
  return *given;
}

std::optional<std::int64_t> spatial_dim(NodeContext& n, ValueId x, std::size_t d,
                                        const char* attribute) {
  const auto size = known_dim(n, x, static_cast<std::int64_t>(d) + 2);
  if (!size)
    n.unsupported("attribute '" + std::string(attribute) +
                      "' with strides needs the sizes of its operand " + ir::to_string(n.type(x)),
                  "give them with --dim name=value");
  return size;
}

/// Sets the pads of SAME_UPPER or SAME_LOWER, with which there are ceil(size / stride) positions.
void pad_to_same(NodeContext& n, ValueId x, bool upper, Window& w) {
  for (std::size_t d = 0; d < w.rank(); ++d) {
    std::int64_t total = w.extent(d) - 1;
    if (w.strides[d] != 1) {
      const auto size = spatial_dim(n, x, d, "auto_pad");
      if (!size) return;
      total = (ceil_div(*size, w.strides[d]) - 1) * w.strides[d] + w.extent(d) - *size;
    }
    total = std::max<std::int64_t>(total, 0);
    w.pads_begin[d] = upper ? total / 2 : total - total / 2;
    w.pads_end[d] = total - w.pads_begin[d];
  }
}

/// Implements 'ceil_mode': adds pads at the end for a last position that would be incomplete, and
/// returns their numbers. There is no such position if it would begin after the dim.
std::vector<std::int64_t> pad_to_ceil(NodeContext& n, ValueId x, Window& w) {
  std::vector<std::int64_t> added(w.rank(), 0);
  for (std::size_t d = 0; d < w.rank(); ++d) {
    const std::int64_t stride = w.strides[d];
    if (stride == 1) continue;
    const auto size = spatial_dim(n, x, d, "ceil_mode");
    if (!size) break;
    const std::int64_t all = *size + w.pads_begin[d] + w.pads_end[d];
    if (all < w.extent(d)) {
      // A window larger than the padded dim has one position if ceil((all - extent) / stride) is 0.
      // Otherwise the converter reports an error.
      if (w.dilations[d] == 1 && all > std::max<std::int64_t>(0, w.extent(d) - stride))
        w.kernel[d] = all;
      continue;
    }
    std::int64_t positions = ceil_div(all - w.extent(d), stride) + 1;
    if ((positions - 1) * stride >= *size + w.pads_begin[d]) --positions;
    added[d] = std::max<std::int64_t>(0, (positions - 1) * stride + w.extent(d) - all);
    w.pads_end[d] += added[d];
  }
  return added;
}

}  // namespace

bool Window::has_pads() const {
  const auto is_pad = [](std::int64_t pad) { return pad != 0; };
  return std::ranges::any_of(pads_begin, is_pad) || std::ranges::any_of(pads_end, is_pad);
}

std::optional<Window> explicit_window(NodeContext& n, ValueId x, std::vector<std::int64_t> kernel,
                                      std::string& mode) {
  if (n.failed()) return std::nullopt;
  const std::size_t rank = kernel.size();
  for (const std::int64_t size : kernel)
    if (size < 1 || size > kMaxWindow) n.bad("the kernel has an invalid size");
  if (static_cast<std::int64_t>(rank) + 2 != n.rank(x) || rank == 0)
    n.bad("operand " + ir::to_string(n.type(x)) + " does not have two dims more than the kernel");
  Window w{std::move(kernel),
           numbers(n, "strides", rank, 1, 1),
           numbers(n, "dilations", rank, 1, 1),
           {},
           {}};
  const auto pads = numbers(n, "pads", 2 * rank, 0, 0);
  mode = n.text("auto_pad", "NOTSET");
  if (mode != "NOTSET" && mode != "SAME_UPPER" && mode != "SAME_LOWER" && mode != "VALID")
    n.bad("attribute 'auto_pad' is not NOTSET, SAME_UPPER, SAME_LOWER or VALID");
  if (n.failed()) return std::nullopt;
  const auto middle = pads.begin() + static_cast<std::ptrdiff_t>(rank);
  w.pads_begin.assign(pads.begin(), middle);
  w.pads_end.assign(middle, pads.end());
  if (mode != "NOTSET") w.pads_begin = w.pads_end = std::vector<std::int64_t>(rank, 0);
  return w;
}

std::optional<Window> padded_window(NodeContext& n, ValueId x, std::vector<std::int64_t> kernel,
                                    std::vector<std::int64_t>* ceil_pads) {
  std::string mode;
  auto w = explicit_window(n, x, std::move(kernel), mode);
  if (!w) return std::nullopt;
  if (mode == "SAME_UPPER" || mode == "SAME_LOWER") pad_to_same(n, x, mode == "SAME_UPPER", *w);
  if (ceil_pads != nullptr)
    *ceil_pads = n.integer("ceil_mode", 0) != 0 ? pad_to_ceil(n, x, *w)
                                                : std::vector<std::int64_t>(w->rank(), 0);
  return n.failed() ? std::nullopt : w;
}

ValueId padded(NodeContext& n, ValueId x, const std::vector<std::int64_t>& begin,
               const std::vector<std::int64_t>& end, double value) {
  std::vector<std::int64_t> pads{0, 0};
  pads.insert(pads.end(), begin.begin(), begin.end());
  pads.insert(pads.end(), {0, 0});
  pads.insert(pads.end(), end.begin(), end.end());
  return n.make(ir::Pad{}, {x, n.make_integers(std::move(pads)), n.make_scalar(value, x)});
}

std::vector<std::int64_t> kernel_of(NodeContext& n, ValueId weight) {
  std::vector<std::int64_t> kernel;
  for (std::int64_t d = 2; d < n.rank(weight); ++d) {
    const auto size = known_dim(n, weight, d);
    if (!size) n.unsupported("a weight of unknown size is not supported");
    kernel.push_back(size.value_or(1));
  }
  const auto given = n.integers("kernel_shape");
  if (given && *given != kernel)
    n.bad("attribute 'kernel_shape' differs from the weight " + ir::to_string(n.type(weight)));
  return kernel;
}

ValueId with_bias(NodeContext& n, ValueId y, ValueId bias) {
  if (n.failed() || !bias.exists()) return y;
  if (n.rank(bias) != 1 || !ir::compatible(n.type(bias).dims[0], n.type(y).dims[1]))
    return n.bad("the bias " + ir::to_string(n.type(bias)) +
                 " does not have one number for each "
                 "channel of " +
                 ir::to_string(n.type(y))),
           ir::kNoValue;
  return binary(n, ir::BinaryKind::kAdd, y, unsqueezed(n, bias, axis_range(1, n.rank(y) - 1)));
}

}  // namespace llmc::importer
