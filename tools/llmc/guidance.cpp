#include "tools/llmc/guidance.h"

#include <algorithm>

#include "tools/llmc/numbers.h"

namespace llmc::cli {

void add_guidance_options(CLI::App& app, GuidanceOptions& options) {
  constexpr double kMaxScale = 1e6;
  add_number(app, "--cfg-scale", options.scale, -kMaxScale, kMaxScale,
             "Strength of classifier-free guidance, 1: off (default: 1)")
      ->group("Sampling");
  auto* prompt =
      app.add_option("--cfg-negative-prompt", options.prompt, "Negative prompt for guidance")
          ->type_name("TEXT")
          ->group("Sampling");
  app.add_option("--cfg-negative-prompt-file", options.file, "File with the negative prompt")
      ->type_name("FILE")
      ->group("Sampling")
      ->excludes(prompt);
}

Status check_guidance(const GuidanceOptions& options) {
  if (!options.on() || options.prompt || options.file) return ok_status();
  return usage_error("--cfg-scale needs a negative prompt",
                     "such as --cfg-negative-prompt='Once upon a time'");
}

Status check_guidance(const GuidanceOptions& options, const exec::ModelFacts& model) {
  if (!options.on() || (model.sequences >= 2 && model.batch >= 2)) return ok_status();
  return usage_error("--cfg-scale needs a bundle with at least two sequences per step",
                     "compile it with --sequences=2 --batch=2");
}

void make_room_for_guide(const GuidanceOptions& options, driver::CompileOptions& compile) {
  if (!options.on()) return;
  compile.sequences = std::max(compile.sequences, 2u);
  compile.batch = std::max(compile.batch, 2u);
}

Status GuidedText::start_guidance(const std::vector<std::int32_t>& prompt, float scale) {
  LLMC_TRY(guide_, session_.get<std::uint32_t>(&exec::Api::fork, 0));
  LLMC_RETURN_IF_ERROR(session_.call(&exec::Api::select, guide_));
  LLMC_RETURN_IF_ERROR(session_.prefill(prompt));
  guide_position_ = session_.position();
  LLMC_RETURN_IF_ERROR(session_.call(&exec::Api::select, 0));
  return session_.call(&exec::Api::set_guidance, guide_, scale);
}

Status GuidedText::append(std::int32_t token) {
  if (guide_ == 0) return session_.prefill(std::span(&token, 1));
  const std::uint32_t sequences[] = {0, guide_};
  const std::int32_t tokens[] = {token, token};
  LLMC_RETURN_IF_ERROR(session_.call(&exec::Api::append_batch, sequences, 2, tokens));
  ++guide_position_;
  return ok_status();
}

std::uint32_t GuidedText::position() const {
  return std::max(session_.position(), guide_position_);
}

}  // namespace llmc::cli
