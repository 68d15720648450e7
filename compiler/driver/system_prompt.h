#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/driver/compile.h"
#include "compiler/support/result.h"
#include "runtime/hosted/chat/description.h"
#include "runtime/hosted/tokenizer.h"

namespace llmc::driver {

/// Returns the tokens of a system prompt: prompt.ids unless it is empty, otherwise the tokens of
/// the text without a final line break. With a chat template, these are the tokens with which every
/// conversation with this system message begins, as `llmc chat` formats it. Without a template,
/// they are the model's start tokens and the tokens of the text. Stores the text in
/// chat.system_message. `tokenizer` may be nullptr. `refused`: why the model's tokenizer was
/// rejected, or empty. Fails with kBadInput if the text is empty or not valid UTF-8, or if there is
/// no tokenizer. Fails with kUnsupported if the template is invalid, rejects the system message, or
/// does not place it before the first user message.
Result<std::vector<std::int32_t>> system_prompt_ids(const SystemPrompt& prompt,
                                                    const hosted::Tokenizer* tokenizer,
                                                    const std::string& refused,
                                                    hosted::ChatDescription& chat);

}  // namespace llmc::driver
