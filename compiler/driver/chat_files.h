#pragma once

#include <filesystem>

#include "compiler/support/result.h"
#include "runtime/hosted/chat/description.h"

/// How a model is talked to, out of the files that exporters put beside its graphs.
namespace llmc::driver {

/// NAME of the file in a bundle, behind the model's name.
constexpr const char* kChatSuffix = ".chat.json";

/// Reads the files of `model`, a folder or one .onnx file, each from the first of model_folders()
/// that has it. The template is the first of
///   chat_template.jinja; `chat_template` of tokenizer_config.json or chat_template.json;
///   `jinja`, `user_prompt_template` with its companions, `prompt_template` of llm_config.json or
///   config.json (MNN).
/// Spellings of the beginning and end tokens are tokenizer_config.json's; ids that end an answer
/// those of generation_config.json, config.json and genai_config.json. Recommended sampling
/// parameters are those of generation_config.json or, where it has none, of llm_config.json or
/// MNN's config.json. Without any of it the description says that there is no template. kBadInput
/// when a file is no JSON or has another type of value where one of these stands. The template
/// itself is not looked into.
Result<hosted::ChatDescription> read_chat_files(const std::filesystem::path& model);

/// The same of a bundle, which keeps it as NAME.chat.json, or of a model.
Result<hosted::ChatDescription> chat_of(const std::filesystem::path& model_or_bundle);

}  // namespace llmc::driver
