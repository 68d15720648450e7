#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "runtime/hosted/tokenizer.h"

namespace llmc::driver {

/// Returns the names of control tokens that `text` spells, such as "<|im_start|>, <|im_end|>", but
/// that are not among `ids`, the text as plain text: the first three in the order of their ids, and
/// an ellipsis for more. Empty if there are none.
std::string spelled_control_tokens(const hosted::Tokenizer& tokenizer, const std::string& text,
                                   std::span<const std::int32_t> ids);

}  // namespace llmc::driver
