#pragma once

#include <functional>

#include "compiler/exec/native.h"
#include "runtime/hosted/chat/sampling_values.h"
#include "runtime/hosted/dry_breakers.h"
#include "tools/llmc/options.h"

/// Sampling options with llama.cpp's names, meanings and defaults; the model's files may recommend
/// other defaults (docs/sampling.md).
namespace llmc::cli {

struct SamplingOptions {
  SamplingOptions();

  llmc_sampling sampling;
  bool drawn_seed = true;  // the seed is random (--seed -1) and is printed, to repeat the run
  std::vector<llmc_logit_bias> biases;
  // Options without effect at temperature 0: they never remove the most probable token, or only
  // affect random draws. Each has a function that returns whether it is off.
  struct DrawOption {
    const CLI::Option* option;
    std::function<bool()> off;
  };
  std::vector<DrawOption> draw_options;
  const CLI::Option* temperature = nullptr;
  struct OfParameter {
    const hosted::SamplingParameter* parameter;
    const CLI::Option* option;
  };
  std::vector<OfParameter> of_parameters;  // options that a model's files may recommend
  std::vector<std::string> breakers = hosted::default_dry_breakers();
};

/// Adds the options to the group Sampling.
void add_sampling_options(CLI::App& app, SamplingOptions& options);

/// Applies the model's recommendations to parameters whose option is not given.
void apply_recommended(const hosted::SamplingValues& values, SamplingOptions& options,
                       const Globals& globals);

/// Sets the options of a session. `tokenizer` may be nullptr; then DRY has no breakers. Fails with
/// kUsage for a logit bias of a token outside the vocabulary.
Status use_sampling(const SamplingOptions& options, const hosted::Tokenizer* tokenizer,
                    std::uint32_t vocabulary, exec::Session& session);

/// Prints a note about given options without effect.
void note_idle_sampling(const SamplingOptions& options, const Globals& globals);

/// Returns "; seed 4012" for the closing note if the seed is random and used; else an empty text.
std::string seed_text(const SamplingOptions& options);

}  // namespace llmc::cli
