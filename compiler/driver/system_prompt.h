#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/driver/compile.h"
#include "compiler/support/result.h"
#include "runtime/hosted/chat/description.h"
#include "runtime/hosted/tokenizer.h"

namespace llmc::driver {

/// The tokens of a system prompt. With a chat template: those that every conversation with this
/// system message begins with, as `llmc chat` writes it; the description keeps the message. Without
/// one: the text's, behind the tokens a prompt starts with. `tokenizer` may be nullptr, and
/// `refused` says why, if the model has one. kBadInput when the text is empty or no UTF-8, or there
/// is no tokenizer; kUnsupported when the template has no place for it in front of what is said.
Result<std::vector<std::int32_t>> system_prompt_ids(const SystemPrompt& prompt,
                                                    const hosted::Tokenizer* tokenizer,
                                                    const std::string& refused,
                                                    hosted::ChatDescription& chat);

}  // namespace llmc::driver
