#pragma once

#include <string>
#include <vector>

#include "compiler/exec/native.h"
#include "runtime/hosted/chat/format.h"
#include "runtime/hosted/chat/generate.h"
#include "tools/llmc/cli.h"

/// The chat template of a model, for `chat` and `run --chat`.
namespace llmc::cli {

/// Creates the format of `description`. Fails with kUnsupported and `hint` if its template is not
/// supported. `model`: the file name in messages.
Result<hosted::ChatFormat> chat_format(hosted::ChatDescription description,
                                       const hosted::Tokenizer& tokenizer, const std::string& model,
                                       const std::string& hint);

/// The compiled-in system prompt of a bundle.
struct CompiledPrompt {
  std::string message;              // the system message, or empty
  std::vector<std::int32_t> begun;  // its tokens in the cache
};

/// Returns the compiled-in system prompt; both fields are empty if there is none. Compiled-in ids
/// without a text precede every conversation and are not in `begun`. Fails with kBadInput if the
/// bundle is damaged.
Result<CompiledPrompt> compiled_prompt(const exec::NativeModel& native);

/// Returns the value of "stopped" in JSON.
const char* stop_name(hosted::Stopped why);

/// Adds --stop to `run` and `chat`. `names`: its names, including those of llama.cpp. An empty text
/// or invalid UTF-8 is a usage error.
void add_stop_texts(CLI::App& app, const std::string& names, std::vector<std::string>& texts);

}  // namespace llmc::cli
