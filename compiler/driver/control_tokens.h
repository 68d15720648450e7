#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "runtime/hosted/tokenizer.h"

namespace llmc::driver {

/// Returns the names of control tokens that appear in `text` but not among `ids`, the token ids of
/// `text` when it is read as plain text: "<|im_start|>, <|im_end|>". Lists the first three by id,
/// then an ellipsis if there are more. Empty if there are none.
std::string spelled_control_tokens(const hosted::Tokenizer& tokenizer, const std::string& text,
                                   std::span<const std::int32_t> ids);

}  // namespace llmc::driver
