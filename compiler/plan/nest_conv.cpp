
#include "compiler/plan/nest_lower.h"
#include "compiler/support/checked_math.h"

/// Lowers convolutions to kernels of templates/llmc/function/conv.h.
namespace llmc::plan {

using ir::ElementType;

namespace {

/// Distances in x between adjacent positions and between adjacent taps, for each spatial dim.
struct WindowSteps {
  Sizes positions, taps;
};
/// Returns the steps of a convolution over the spatial dims of x from axis `first` on.
WindowSteps window_steps(const View& x, std::size_t first, const auto& op) {
  WindowSteps steps;
  for (std::size_t i = 0; i < op.strides.size(); ++i) {
    steps.positions.push_back(x.strides[first + i] * op.strides[i]);
    steps.taps.push_back(x.strides[first + i] * op.dilations[i]);
  }
  return steps;
}

}  // namespace

View NestLowerer::stored_with_adjacent(ir::ValueId value) {
  const View view = stored(value, false);
  return view.strides.back() == Size(1) ? view : stored(value);
}

Status NestLowerer::lower(const ir::Node& node, const ir::Conv& op) {
  constexpr std::int64_t kPanelElements = 4 * 256 * 16;  // of the kernel
  // With fewer rows of the weight per group, copying the elements of x does not pay off.
  constexpr std::int64_t kManyRows = 4;
  // Blocks of fewer rows would spend too much of their time on that copy.
  constexpr std::int64_t kMinBlockRows = 96;
  constexpr std::int64_t kManyPositions = 1024;
  const ir::ValueId out = node.outputs[0];
  const std::vector<std::int64_t> weight = bounds(dims(node.inputs[1]));
  const Sizes& y_dims = dims(out);
  const Sizes positions = part(y_dims, 2, y_dims.size());
  const std::int64_t rows = weight[0] / op.groups, channels = weight[1];
  const std::vector<std::int64_t> taps(weight.begin() + 2, weight.end());
  const auto depth = checked_product(std::vector<std::int64_t>(weight.begin() + 1, weight.end()));
  std::vector<std::int64_t> factors = bounds(y_dims);
  factors.push_back(depth.value_or(INT64_MAX));
  const auto multiply_adds = checked_product(factors);
  if (!multiply_adds) return unsupported(node, "it has too many multiplications");
  // Positions that are not adjacent in memory would be read one by one.
  const View x = stored_with_adjacent(node.inputs[0]), w = stored(node.inputs[1]), y = result(out);
  if (product(y_dims) == 0) return ok_status();

  const WindowSteps steps = window_steps(x, 2, op);
  // With few positions, the rows are divided, too.
  const Size positions_of_all = y_dims[0] * op.groups * product(positions);
  std::int64_t block_rows = rows;
  for (std::int64_t down = 2;
       positions_of_all.bound() * (down - 1) < kManyPositions && block_rows > kMinBlockRows; ++down)
    block_rows = (rows + down - 1) / down;
  const std::int64_t down = (rows + block_rows - 1) / block_rows;

  const bool copies = rows >= kManyRows;
  CallStage stage;
  stage.kernel = copies ? "conv" : "conv_of_few_rows";
  stage.types = {ElementType::kF32};
  stage.buffers = {read(x), read(w), written(y)};
  if (copies) stage.buffers.push_back(scratch_of_workers(kPanelElements, "panels"));
  stage.multiply_adds = static_cast<std::uint64_t>(*multiply_adds);
  // Without a copy, positions that are not adjacent in memory are loaded one by one.
  stage.tiled = !host_.by_token() && (copies || steps.positions.back() == 1);
  stage.split = CallStage::Split::kRange;
  stage.numbers = {{"", Size(0)},
                   {"", positions_of_all * down},
                   {"block_rows", Size(copies ? block_rows : 0)},
                   {"groups", Size(op.groups)},
                   {"channels", Size(channels)},
                   {"rows", Size(rows)},
                   {"depth", Size(*depth)},
                   {"x_batch", x.strides[0]},
                   {"x_channel", x.strides[1]},
                   {"positions", positions},
                   {"taps", Sizes(taps.begin(), taps.end())},
                   {"steps", steps.positions},
                   {"tap_steps", steps.taps}};
  emit(node, std::move(stage));
  return ok_status();
}

Status NestLowerer::lower(const ir::Node& node, const ir::DepthwiseConv& op) {
  const ir::ValueId out = node.outputs[0];
  const std::vector<std::int64_t> weight = bounds(dims(node.inputs[1]));
  const std::vector<std::int64_t> taps(weight.begin(), weight.end() - 1);
  const Sizes& y_dims = dims(out);
  const Sizes positions = part(y_dims, 1, y_dims.size() - 1);
  std::vector<std::int64_t> factors = bounds(y_dims);
  factors.insert(factors.end(), taps.begin(), taps.end());
  const auto multiply_adds = checked_product(factors);
  if (!multiply_adds) return unsupported(node, "it has too many multiplications");
  const View x = stored_with_adjacent(node.inputs[0]), w = stored(node.inputs[1]), y = result(out);
  if (product(y_dims) == 0) return ok_status();

  const WindowSteps steps = window_steps(x, 1, op);
  CallStage stage;
  stage.kernel = "depthwise_conv";
  stage.buffers = {read(x), read(w), written(y)};
  stage.multiply_adds = static_cast<std::uint64_t>(*multiply_adds);
  stage.tiled = !host_.by_token();
  stage.split = CallStage::Split::kRange;
  stage.numbers = {{"", Size(0)},
                   {"", y_dims[0] * product(positions)},
                   {"channels", Size(weight.back())},
                   {"depth", Size(*checked_product(taps))},
                   {"x_batch", x.strides[0]},
                   {"positions", positions},
                   {"taps", Sizes(taps.begin(), taps.end())},
                   {"steps", steps.positions},
                   {"tap_steps", steps.taps}};
  emit(node, std::move(stage));
  return ok_status();
}

Status NestLowerer::lower(const ir::Node& node, const ir::Unfold& op) {
  const ir::ValueId x = node.inputs[0], y = node.outputs[0];
  const ElementType type = computed_in(element(x));
  const View windows = unfolded(stored(x, false), op, part(dims(y), 1, dims(y).size() - 1));
  if (const auto rows = reshaped(windows, dims(y))) {
    set(y, load(type, *rows));
    return ok_status();
  }
  emit(node, MapStage{*reshaped(result(y), windows.dims), load(type, windows)});
  return ok_status();
}

}  // namespace llmc::plan
