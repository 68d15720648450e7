#include "compiler/evaluate/verify_image.h"

#include "compiler/exec/made_up_image.h"
#include "compiler/plan/weight_formats.h"
#include "compiler/reference/interpreter.h"

namespace llmc::evaluate {
Result<VerifyImage> verify_image(const ir::Graph& graph, const driver::BundleFacts& facts,
                                 exec::Session& session) {
  LLMC_TRY(const exec::RandomMediaInput run, exec::encode_random_media(facts, session));
  std::vector<reference::Tensor> inputs;
  for (const ir::ConstantPtr& input : run.inputs) inputs.push_back(reference::to_tensor(*input));
  LLMC_TRY(std::vector<reference::Tensor> expected, reference::evaluate(graph, inputs));
  std::vector<std::int64_t>& dims = expected.front().dims;
  const std::int64_t width = dims.back();
  dims = {static_cast<std::int64_t>(expected.front().floats.size()) / width, width};
  const auto rows = static_cast<std::int64_t>(run.rows.size());
  const ir::ConstantPtr actual = ir::make_f32({rows / width, width}, run.rows);
  VerifyImage image;
  image.is_sound = facts.media.is_sound();
  image.relative_error_allowed =
      plan::weight_format_info(facts.image_rounding.coarsest()).max_relative_rms;
  image.rows = verify_output("image rows", *actual, *reference::to_constant(expected.front()),
                             image.relative_error_allowed);
  image.hash = hash_of({actual});
  return image;
}

}  // namespace llmc::evaluate
