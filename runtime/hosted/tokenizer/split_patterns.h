#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

/// Named patterns with which tokenizers split text, for files that contain only the name.
namespace llmc::hosted {

/// Returns the regular expression of a name: gpt2, llama3, qwen2, …, or an encoding of tiktoken
/// (cl100k_base).
std::optional<std::string_view> pattern_named(std::string_view name);

/// Returns the character with which byte-level vocabularies spell a byte (GPT-2's
/// bytes_to_unicode): printable Latin-1 characters represent themselves, the other bytes are U+0100
/// and up, in order.
std::uint32_t spelling_of(unsigned char byte);

}  // namespace llmc::hosted
