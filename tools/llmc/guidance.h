#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/exec/native.h"
#include "tools/llmc/options.h"

/// Classifier-free guidance on the command line: a text that moves away from a second prompt
/// (llmc_set_guidance), with llama.cpp's names.
namespace llmc::cli {

struct GuidanceOptions {
  float scale = 1.0f;  // 1: none
  CLI::Option *prompt_option = nullptr, *file_option = nullptr;
  std::string prompt, file;

  bool on() const { return scale != 1.0f; }
};

/// Adds the options, in the group of sampling.
void add_guidance_options(CLI::App& app, GuidanceOptions& options);
/// kUsage when there is a scale other than 1 without a prompt.
Status check_guidance(const GuidanceOptions& options);
/// kUsage for a bundle that has no room for a guide.
Status check_guidance(const GuidanceOptions& options, const exec::ModelFacts& model);
/// Makes what is compiled have it.
void make_room_for_guide(const GuidanceOptions& options, driver::CompileOptions& compile);

/// Sequence 0 of a session, and with guidance another one that gets the same tokens after a prompt
/// of its own.
class GuidedText {
 public:
  explicit GuidedText(exec::Session& session) : session_(session) {}

  /// Before anything is run.
  Status guide_away_from(const std::vector<std::int32_t>& prompt, float scale);
  Status append(std::int32_t token);
  /// Tokens of the longer one.
  std::uint32_t position() const;

 private:
  exec::Session& session_;
  std::uint32_t guide_ = 0, guide_position_ = 0;  // sequence 0: none
};

}  // namespace llmc::cli
