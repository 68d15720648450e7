#include "tools/llmc/run_prompts.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/llmc/numbers.h"
#include "tools/llmc/text.h"

namespace llmc::cli {
namespace {

using Ids = std::vector<std::int32_t>;

/// Returns the token ids of a text. After a compiled-in prompt, the text has no BOS token and may
/// be empty. The text of an encoder-decoder begins with its start ids. `option`: the text's option,
/// for messages.
Result<Ids> ids_of(const RunCommand& command, const std::string& text, const char* option,
                   const exec::ModelFacts& model, const PromptTexts& texts) {
  const bool has_encoder = model.source_max != 0;
  const bool first = model.prompt_tokens == 0 && !has_encoder;
  Ids ids;
  if (has_encoder) ids.assign(texts.start_ids.begin(), texts.start_ids.end());
  if (has_encoder && ids.empty() && texts.tokenizer != nullptr && texts.tokenizer->bos())
    ids.push_back(*texts.tokenizer->bos());
  const Ids words =
      texts.tokenizer == nullptr
          ? Ids()
          : texts.tokenizer->encode(
                text, {.add_prefix = first,
                       .parse_special = command.special || !command.images.files.empty()});
  ids.insert(ids.end(), words.begin(), words.end());
  if (has_encoder && ids.empty())
    return usage_error(
        "the model's files do not say how a text starts (decoder_start_token_id, or "
        "a BOS token)",
        "give the first token ids with --ids");
  if (first && ids.empty()) {
    return usage_error("the prompt is empty and the model has no BOS token",
                       fmt::format("give a text by {}", option));
  }
  return ids;
}

/// Returns the prompts in the chat template, each as one message, up to the start of the answer.
Result<RunPrompts> chat_prompts(const RunCommand& command, const PromptTexts& texts,
                                const exec::NativeModel& native) {
  const hosted::ChatFormat& format = *texts.format;
  LLMC_TRY(const CompiledPrompt compiled, compiled_prompt(native));
  const auto ids_of_message = [&](const std::string& message) -> Result<Ids> {
    std::vector<hosted::Message> messages;
    if (!compiled.message.empty()) messages.push_back({"system", compiled.message, {}});
    messages.push_back({"user", message, {}});
    const auto rendered = format.render(messages, true);
    if (rendered) return format.encode(*rendered);
    return file_failure(ErrorKind::kBadInput, command.model.model,
                        printable(rendered.failure().message, 1000),
                        "remove --chat to continue the prompt without a template");
  };
  RunPrompts prompts;
  LLMC_TRY(prompts.text, ids_of_message(texts.prompt));
  if (command.guidance.on()) {
    LLMC_TRY(prompts.negative, ids_of_message(texts.negative));
  }
  // Texts that start with the compiled-in system message reuse its cache.
  const Ids& begun = compiled.begun;
  const auto begins = [&](const Ids& ids) {
    return ids.size() > begun.size() && std::equal(begun.begin(), begun.end(), ids.begin());
  };
  const auto count = static_cast<std::ptrdiff_t>(begun.size());
  if (begun.empty()) return prompts;
  prompts.begins_empty =
      !begins(prompts.text) || (command.guidance.on() && !begins(prompts.negative));
  if (prompts.begins_empty) return prompts;
  prompts.text.erase(prompts.text.begin(), prompts.text.begin() + count);
  if (command.guidance.on())
    prompts.negative.erase(prompts.negative.begin(), prompts.negative.begin() + count);
  return prompts;
}

/// Returns the ids of the prompts, from --ids or tokenized.
Result<RunPrompts> prompt_ids(const RunCommand& command, const PromptTexts& texts,
                              const exec::NativeModel& native) {
  const exec::ModelFacts& model = native.model();
  if (texts.format != nullptr) return chat_prompts(command, texts, native);
  RunPrompts prompts;
  if (command.guidance.on()) {
    LLMC_TRY(prompts.negative,
             ids_of(command, texts.negative, "--cfg-negative-prompt", model, texts));
  }
  if (command.ids) {
    LLMC_TRY(prompts.text,
             parse_numbers(*command.ids, "--ids", static_cast<std::int64_t>(model.vocab) - 1));
  } else {
    LLMC_TRY(prompts.text, ids_of(command, texts.prompt, "-p, or ids with --ids", model, texts));
  }
  return prompts;
}

}  // namespace

Result<RunPrompts> run_prompts(const RunCommand& command, const PromptTexts& texts,
                               const exec::NativeModel& native) {
  const exec::ModelFacts& model = native.model();
  LLMC_TRY(auto sources,
           encoder_inputs(command.source, texts.tokenizer, command.model.model, &native));
  if (sources.empty()) LLMC_RETURN_IF_ERROR(exec::check_source(model, {}));
  for (const exec::EncoderInput& source : sources)
    LLMC_RETURN_IF_ERROR(exec::check_source(model, source));
  LLMC_TRY(RunPrompts prompts, prompt_ids(command, texts, native));
  prompts.sources = std::move(sources);
  LLMC_TRY(prompts.images,
           prompt_images(command.images, prompts.text, command.model.model, native));
  const bool begins = compiled_in(prompts, model) == 0 && !prompts.text.empty() && !command.ids &&
                      texts.tokenizer != nullptr;
  prompts.beginning = begins && texts.tokenizer->bos() == prompts.text.front() ? 1 : 0;
  for (const auto* ids : {&prompts.text, &prompts.negative}) {
    for (const std::int32_t id : *ids) {
      if (static_cast<std::uint32_t>(id) < model.vocab) continue;
      return file_failure(
          ErrorKind::kBadInput, command.model.model,
          fmt::format("token id {} is not below the vocabulary of {}", id, model.vocab),
          other_tokenizer_hint(command.model.model));
    }
  }
  return prompts;
}

}  // namespace llmc::cli
