#pragma once

#include <span>
#include <string>

#include "tools/llmc/run_generation.h"

/// Token ids of the prompts of `run`.
namespace llmc::cli {

/// Texts of the prompts, and the tokenizer and template that convert them to token ids.
struct PromptTexts {
  std::string prompt, negative;
  std::span<const std::int32_t> start_ids;       // with which an encoder-decoder's text begins
  const hosted::Tokenizer* tokenizer = nullptr;  // may be nullptr with --ids
  const hosted::ChatFormat* format = nullptr;    // with --chat
};

/// Returns the ids of the prompts and of the sources, either from --ids and --source-ids or
/// tokenized. Texts get the chat template if there is a format. Fails with kUsage if a prompt has
/// no tokens and no compiled-in prompt precedes it, if a source is missing or too long, if the
/// model has no encoder for it, or if --ids has an id outside the vocabulary. Fails with kBadInput
/// if the tokenizer returns such an id, or if the template rejects a prompt. Also fails like
/// encoder_inputs() and prompt_images().
Result<RunPrompts> run_prompts(const RunCommand& command, const PromptTexts& texts,
                               const exec::NativeModel& native);

}  // namespace llmc::cli
