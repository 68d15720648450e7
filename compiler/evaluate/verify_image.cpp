#include "compiler/evaluate/verify_image.h"

#include "compiler/exec/random_inputs.h"
#include "compiler/plan/weight_formats.h"
#include "compiler/reference/interpreter.h"

namespace llmc::evaluate {
namespace {

struct ImageRun {
  std::vector<ir::ConstantPtr> inputs;
  std::vector<float> rows;
};

/// Runs the image encoder with integers 0 and 1, or 0 alone if 1 is an index out of range.
Result<ImageRun> run_image(const driver::BundleFacts& facts, exec::Session& session) {
  ImageRun run;
  for (const int max_integer : {1, 0}) {
    run.inputs.clear();
    std::vector<std::vector<std::byte>> data;
    for (const driver::ImageInput& input : facts.image_inputs) {
      run.inputs.push_back(exec::random_tensor(input.element, input.dims, max_integer));
      data.push_back(run.inputs.back()->bytes());
    }
    const std::vector<std::span<const std::byte>> spans(data.begin(), data.end());
    auto rows = session.encode_image(spans);
    if (rows.ok()) {
      run.rows = *std::move(rows);
      break;
    }
    if (max_integer == 0 || rows.error().first().kind != ErrorKind::kBadInput)
      return std::move(rows).error();
  }
  return run;
}

}  // namespace

Result<VerifyImage> verify_image(const ir::Graph& graph, const driver::BundleFacts& facts,
                                 exec::Session& session) {
  LLMC_TRY(const ImageRun run, run_image(facts, session));
  std::vector<reference::Tensor> inputs;
  for (const ir::ConstantPtr& input : run.inputs) inputs.push_back(reference::to_tensor(*input));
  LLMC_TRY(std::vector<reference::Tensor> expected, reference::evaluate(graph, inputs));
  std::vector<std::int64_t>& dims = expected.front().dims;
  const std::int64_t width = dims.back();
  dims = {static_cast<std::int64_t>(expected.front().floats.size()) / width, width};
  const auto rows = static_cast<std::int64_t>(run.rows.size());
  const ir::ConstantPtr actual = ir::make_f32({rows / width, width}, run.rows);
  VerifyImage image;
  image.relative_error_allowed =
      plan::weight_format_info(facts.image_rounding.coarsest()).max_relative_rms;
  image.rows = verify_output("image rows", *actual, *reference::to_constant(expected.front()),
                             image.relative_error_allowed);
  image.hash = hash_of({actual});
  return image;
}

}  // namespace llmc::evaluate
