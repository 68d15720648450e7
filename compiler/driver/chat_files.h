#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "compiler/support/result.h"
#include "runtime/hosted/chat/description.h"

/// Reads the chat format of a model from the files that exporters store with its graphs.
namespace llmc::driver {

/// Suffix of the file with the chat description in a bundle, NAME.chat.json.
constexpr const char* kChatSuffix = ".chat.json";

/// Reads the chat description of `model`, a folder or one .onnx file. Each file is read from the
/// first of model_folders() that contains it. The template is the first that exists of:
///   chat_template.jinja;
///   `chat_template` of tokenizer_config.json or chat_template.json;
///   `jinja`, `chat_template`, `user_prompt_template` with its related keys, or `prompt_template`
///     of llm_config.json or config.json (MNN).
/// The texts of the BOS and EOS tokens come from tokenizer_config.json, chat_template.json or
/// `jinja`. The stop ids, which end an answer, come from llm_config.json, config.json,
/// generation_config.json and genai_config.json. The ids with which the text of an encoder-decoder
/// starts come from generation_config.json or config.json. The suppressed ids, which are never
/// generated, come from generation_config.json. Recommended sampling parameters come from
/// generation_config.json or, if it has none, from MNN's llm_config.json or config.json. Without a
/// template, has_template() of the result is false. The template itself is not parsed. Fails with
/// kBadInput if a file is not a JSON object or is too large, or if one of these values has the
/// wrong type or range.
Result<hosted::ChatDescription> read_chat_files(const std::filesystem::path& model);

/// Returns the first `bos_token_id` of config.json, generation_config.json and genai_config.json
/// that is below `vocabulary`; -1 if there is none. Fails like read_chat_files().
Result<std::int32_t> read_bos_id(const std::filesystem::path& model, std::int64_t vocabulary);

/// Returns a warning for each file of `model` with an `eos_token_id` outside the vocabulary of
/// `vocabulary` tokens; no warnings if `vocabulary` is 0 (unknown). Fails like read_chat_files().
Result<std::vector<Diagnostic>> stop_ids_outside(const std::filesystem::path& model,
                                                 std::int64_t vocabulary);

/// Returns the chat description of a model, or of a bundle, which stores it in NAME.chat.json.
/// Fails like read_chat_files() or read_bundle().
Result<hosted::ChatDescription> chat_of(const std::filesystem::path& model_or_bundle);

}  // namespace llmc::driver
