#pragma once

#include <string>

#include "runtime/hosted/tokenizer.h"

namespace llmc::driver {

/// Returns the names of control tokens in `text`, such as "<|im_start|>, <|im_end|>", that are read
/// as plain text unless control tokens are parsed: the first three, and an ellipsis for more. Empty
/// if there are none.
std::string spelled_control_tokens(const hosted::Tokenizer& tokenizer, const std::string& text);

}  // namespace llmc::driver
