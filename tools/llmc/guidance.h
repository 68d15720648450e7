#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/exec/native.h"
#include "tools/llmc/options.h"

/// Options of classifier-free guidance with a negative prompt (llmc_set_guidance), with llama.cpp's
/// names.
namespace llmc::cli {

struct GuidanceOptions {
  float scale = 1.0f;                       // 1: off
  std::optional<std::string> prompt, file;  // the negative prompt

  bool on() const { return scale != 1.0f; }
};

/// Adds the options to the group Sampling.
void add_guidance_options(CLI::App& app, GuidanceOptions& options);
/// Fails with kUsage for a scale other than 1 without a negative prompt.
Status check_guidance(const GuidanceOptions& options);
/// Fails with kUsage for guidance with a bundle that has fewer than two sequences per step.
Status check_guidance(const GuidanceOptions& options, const exec::ModelFacts& model);
/// With guidance, sets the sequences and the batch of a compilation to at least 2.
void make_room_for_guide(const GuidanceOptions& options, driver::CompileOptions& compile);

/// Sequence 0 of a session and, with guidance, a second sequence that gets the same tokens after
/// the negative prompt.
class GuidedText {
 public:
  explicit GuidedText(exec::Session& session) : session_(session) {}

  /// Creates the second sequence and runs the negative prompt `prompt` in it. Call it before other
  /// tokens are run.
  Status start_guidance(const std::vector<std::int32_t>& prompt, float scale);
  Status append(std::int32_t token);
  /// Returns the number of tokens of the longer sequence.
  std::uint32_t position() const;

 private:
  exec::Session& session_;
  std::uint32_t guide_ = 0, guide_position_ = 0;  // sequence 0: none
};

}  // namespace llmc::cli
