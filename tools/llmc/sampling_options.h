#pragma once

#include <functional>

#include "compiler/exec/native.h"
#include "runtime/hosted/chat/sampling_values.h"
#include "runtime/hosted/dry_breakers.h"
#include "tools/llmc/options.h"

/// How commands that generate text choose tokens: options with llama.cpp's names, meanings and
/// defaults, of which the model's files may recommend others (docs/sampling.md).
namespace llmc::cli {

struct SamplingOptions {
  SamplingOptions();

  llmc_sampling sampling;
  bool drawn_seed = true;  // --seed -1: reported, so that a run can be repeated
  std::vector<llmc_logit_bias> biases;
  // What chooses among several tokens and keeps the likeliest, and so changes nothing at
  // temperature 0; and whether it is off.
  struct OfDraws {
    const CLI::Option* option;
    std::function<bool()> off;
  };
  std::vector<OfDraws> of_draws;
  const CLI::Option* temperature = nullptr;
  struct OfParameter {
    const hosted::SamplingParameter* parameter;
    const CLI::Option* option;
  };
  std::vector<OfParameter> of_parameters;  // options of what a model's files may recommend
  std::vector<std::string> breakers = hosted::default_dry_breakers();
};

/// Adds the options, in a group of their own.
void add_sampling_options(CLI::App& app, SamplingOptions& options);

/// Takes what the model's files recommend for parameters whose option was not given.
void apply_recommended(const hosted::SamplingValues& values, SamplingOptions& options,
                       const Globals& globals);

/// Makes the session choose as the options say. `tokenizer` may be null: dry has no breakers then.
/// kUsage for a token outside the vocabulary.
Status use_sampling(const SamplingOptions& options, const hosted::Tokenizer* tokenizer,
                    std::uint32_t vocabulary, exec::Session& session);

/// Tells of the options that were given and change nothing, if there are any.
void note_idle_sampling(const SamplingOptions& options, const Globals& globals);

/// "; seed 4012" where the seed was drawn and matters, else nothing: for a run's closing note.
std::string seed_text(const SamplingOptions& options);

}  // namespace llmc::cli
