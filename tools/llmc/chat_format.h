#pragma once

#include <string>
#include <vector>

#include "compiler/exec/native.h"
#include "runtime/hosted/chat/format.h"
#include "tools/llmc/cli.h"

/// The chat template of a model as `chat` and `run --chat` use it.
namespace llmc::cli {

/// Makes the format of `description`. kUnsupported with `hint` when its template cannot be used;
/// `model` is named as the file.
Result<hosted::ChatFormat> chat_format(hosted::ChatDescription description,
                                       const hosted::Tokenizer& tokenizer, const std::string& model,
                                       const std::string& hint);

/// What was compiled into a bundle for conversations to begin with.
struct CompiledPrompt {
  std::string message;              // the system message, or empty
  std::vector<std::int32_t> begun;  // its tokens, as the cache has them
};

/// Ids that were compiled in without a text stay in front of every conversation: not `begun`.
Result<CompiledPrompt> compiled_prompt(const exec::NativeModel& native);

/// --stop of `run` and `chat`, with llama.cpp's name for it; `names`: what else it is called. A
/// usage error for an empty text and one that is not UTF-8.
void add_stop_texts(CLI::App& app, const std::string& names, std::vector<std::string>& texts);

}  // namespace llmc::cli
